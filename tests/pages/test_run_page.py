"""The page of a run: everything that happened is on it, as text, without secrets."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

import msgspec
import pytest
from html_page import Page
from shown_runs import HOSTILE, TOKEN, ShownRuns

from hookline.journal import CallAdmitted, CallSettled, PromptSubmitted, Record, RunFinished
from hookline.pages import draw_run, run_page
from hookline.pages.page import LONGEST, visible
from hookline.redaction import Redactor
from hookline.state import ToolCall, ToolResult

WORDS = {
    "blocked": (
        "Clean up.",
        "no-notes",
        "notes.txt stays",
        "What was blocked",
        "audit",
        "$0.0084",
        "1,970",
    ),
    "parallel": ("2,000 lines", "crash", "OSError: the disk is gone", "read", "5 calls"),
    "hostile": ("<b>bold</b>", "[redacted:github-token]"),
    "failing-hook": (
        "failed",
        "KeyError: 'colour'",
        "where it failed",
        "block (in shadow)",
        "changed",
        "A.TXT",
    ),
    "paused": (
        "Waits for an answer",
        "hookline resume paused",
        "it deletes a file",
        "nobody has answered yet",
    ),
    "agreed": ("allow after 60 min", "Deleted.", "deleted b.txt"),
    "refused-by-person": ("deny after 60 min", "denied", "a person", "Not deleted."),
    "failed": (
        "RateLimitError: too many requests",
        "still failing after 2 retries",
        "(retry)",
        "failed",
    ),
    "family": (
        "Child run helper",
        "It is protected.",
        "helper 1",
        "child helper",
        "family/0/call_1_1/1",
    ),
    "refused": ("sunday", "not on a Sunday", "Before the first step", "prompt_refused"),
}


def page_of(runs: ShownRuns, run_id: str) -> Page:
    """The page of a run, read."""
    return Page(run_page(runs.records(run_id), children=runs.records))


def joined(page: Page) -> str:
    """The text of a page in one line."""
    return " ".join(page.text.split())


@pytest.mark.parametrize("run_id", WORDS)
def test_everything_that_happened_is_on_the_page(runs: ShownRuns, run_id: str) -> None:
    """Prompt, steps, calls, verdicts with their reasons, approvals, errors, children, tokens and cost."""
    page = page_of(runs, run_id)
    said = joined(page)
    assert page.open == []
    for words in WORDS[run_id]:
        assert words in said
    for record in runs.records(run_id):
        if isinstance(record, CallSettled):
            assert record.result.name in said
    assert [tag for tag, _ in page.tags].count("svg") == (2 if run_id == "family" else 1)


@pytest.mark.parametrize("run_id", WORDS)
def test_nothing_on_the_page_is_fetched_or_run(runs: ShownRuns, run_id: str) -> None:
    """No script, no handler, no address but places on the page itself, and a policy that allows no more than that."""
    made = run_page(runs.records(run_id), children=runs.records)
    page = Page(made)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {
        "script",
        "img",
        "iframe",
        "link",
        "base",
        "object",
        "embed",
        "form",
        "input",
    }
    for _, attributes in page.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "style")
        ]
        assert (attributes.get("href") or "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", made, re.DOTALL)
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a) or ""
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert (
        policy
        == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    ids = [a["id"] for _, a in page.tags if "id" in a]
    links = {a["href"] for _, a in page.tags if "href" in a}
    assert len(ids) == len(set(ids))
    assert links <= {f"#{each}" for each in ids}


def test_what_was_recorded_is_text(runs: ShownRuns) -> None:
    """Markup in a prompt, an argument, a result, a reason, an answer and the name of a hook is shown as it is."""
    page = page_of(runs, "hostile")
    assert page.text.count(visible(HOSTILE)) >= 5
    assert "<b>bold</b>\n" in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_secrets_are_redacted(runs: ShownRuns) -> None:
    """By form, by the name of an argument and by value: on the page and in the picture, also where a text is cut."""
    records = runs.records("hostile")
    cut = "x" * (LONGEST - 20)
    call = ToolCall("call_1_2", "read", {"path": "swordfish-7", "password": "hunter2-plain"})
    changed = [
        msgspec.structs.replace(record, call=call)
        if isinstance(record, CallAdmitted) and record.call.id == call.id
        else msgspec.structs.replace(record, text=f"{cut} {TOKEN}{TOKEN}")
        if isinstance(record, RunFinished)
        else msgspec.structs.replace(record, text=f"{TOKEN} in a prompt")
        if isinstance(record, PromptSubmitted)
        else record
        for record in records
    ]
    redactor = Redactor(values=["swordfish-7"])
    page = run_page(changed, redactor=redactor)
    picture = draw_run(changed, redactor=redactor)
    for secret in (TOKEN, TOKEN[:12], "hunter2-plain", "swordfish-7"):
        assert secret not in page
        assert secret not in picture
    assert "[redacted:github-token] in a prompt" in page
    assert "[redacted:github-token] in a prompt" in picture


def test_a_run_can_be_shown_after_every_record(runs: ShownRuns) -> None:
    """A run that is driven, or whose process died, is shown as far as it came."""
    for run_id in WORDS:
        records = runs.records(run_id)
        for end in range(len(records) + 1):
            page = Page(run_page(records[:end]))
            assert page.open == []
            assert draw_run(records[:end]).endswith("</svg>\n")
    running = Page(run_page(runs.records("blocked")[:6]))
    assert "the run continues, or its process died" in running.text


def test_a_run_that_continues_after_a_pause_is_not_paused(runs: ShownRuns) -> None:
    """Its question is answered, and what it has used since counts."""
    records = runs.records("agreed")
    again = next(
        number for number, record in enumerate(records) if record.at > records[0].at + 3600
    )
    for end in (again + 1, len(records) - 3):
        page = joined(Page(run_page(records[:end])))
        assert "paused" not in page
        assert "Waits for an answer" not in page
        assert page.startswith("running:")
    assert "1,970" in page


def test_a_child_that_is_gone_is_named(runs: ShownRuns) -> None:
    """So is one whose records lead back to its parent: the page ends."""
    records = runs.records("family")
    assert "hookline show family/0/call_1_1/1" in joined(Page(run_page(records)))

    def endless(_run_id: str) -> Sequence[Record]:
        return records

    assert "hookline show family/0/call_1_1/1" in joined(Page(run_page(records, children=endless)))


def test_long_texts_are_cut(runs: ShownRuns) -> None:
    """A result of a million lines does not make a page of a million lines."""
    huge = ToolResult("y" * 40 + "\n" * 1_000_000, call_id="call_1_1", name="delete")
    changed = [
        msgspec.structs.replace(record, result=huge)
        if isinstance(record, CallSettled) and record.result.call_id == "call_1_1"
        else record
        for record in runs.records("blocked")
    ]
    page = run_page(changed)
    assert "1,000,001 lines" in joined(Page(page))
    assert len(page) < 100_000


def test_notes_stand_above_everything_else(runs: ShownRuns) -> None:
    """What a run was without, for example."""
    page = joined(Page(run_page(runs.records("blocked"), notes=["without the hook <x>"])))
    assert page.index("without the hook <x>") < page.index("Steps")
