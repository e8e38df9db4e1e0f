"""Who is asked, for every mode, place, network and verdict: the table of the documentation, tried out in full."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Approval, Bash
from hookline.containment import ShellPolicy, ShellVerdict
from hookline.testing import ScriptedDriver, call, say

PAGE = Path(__file__).parents[3] / "docs" / "capabilities" / "bash.md"
PLACES = ("read-only", "workspace", "host")
COLUMNS = ("default", "ask_unlisted", "plan", "deny_unlisted")
MODES = (*COLUMNS, "accept_edits")  # for commands it is the default

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


@dataclass(frozen=True)
class Case:
    """A call, and what it is up against."""

    usual: str
    """The place of the capability."""
    asked: str | None
    """The place that the call names."""
    network: bool
    verdict: str
    mode: str

    @property
    def place(self) -> str:
        """Where the call would run, were nobody against it."""
        if self.asked is not None:
            return self.asked
        reads = self.mode in ("plan", "ask_unlisted") and not self.network
        return "read-only" if reads else self.usual

    @property
    def is_looser(self) -> bool:
        return PLACES.index(self.place) > PLACES.index(self.usual)

    @property
    def args(self) -> dict[str, Any]:
        """The call, with a command for which the policy has this verdict."""
        given: dict[str, Any] = {"command": COMMANDS[self.verdict]}
        if self.asked is not None:
            given["place"] = self.asked
        return {**given, "network": True} if self.network else given


COMMANDS = {
    "allow": "ls",
    "ask": "touch x",
    "deny": "sudo ls",
    "removes": "rm -rf *",
    "env": "cat .env",
}


class Policy:
    """A shell policy whose verdict on each of these commands is known."""

    def judge(self, command: str, *, cwd: str = "", root: str = "") -> ShellVerdict:
        """The verdict."""
        verdict = next(name for name, text in COMMANDS.items() if text == command)
        decision: Any = {"removes": "ask", "env": "ask"}.get(verdict, verdict)
        files = (f"{root}/.env",) if verdict == "env" else ()
        removes = verdict == "removes"
        return ShellVerdict(decision, verdict, command, asks_in_sandbox=removes, env_files=files)


def _row(
    words: str, outcomes: str, fits: Callable[[Case], bool]
) -> tuple[str, dict[str, str], Any]:
    return words, dict(zip(COLUMNS, outcomes.split(), strict=True)), fits


TABLE = [
    _row("the shell policy denies it", "blocked blocked blocked blocked", lambda c: c.verdict == "deny"),
    _row(
        "`network=true` in `read-only`",
        "blocked blocked blocked blocked",
        lambda c: c.place == "read-only" and c.network,
    ),
    _row(
        "a looser place than the capability's",
        "asks asks blocked blocked",
        lambda c: c.is_looser,
    ),
    _row(
        "`network=true` in `workspace`",
        "asks asks blocked blocked",
        lambda c: c.place == "workspace" and c.network,
    ),
    _row(
        "`workspace`: names an environment file (`.env`), or removes everything (`rm -rf *`)",
        "asks asks blocked blocked",
        lambda c: c.place == "workspace" and c.verdict in ("env", "removes"),
    ),
    _row("`workspace`: anything else", "runs asks blocked blocked", lambda c: c.place == "workspace"),
    _row(
        "`host`, if it is the capability's place: plainly harmless (`ls`)",
        "runs asks blocked blocked",
        lambda c: c.place == "host" and c.verdict == "allow",
    ),
    _row("`host`: anything else", "asks asks blocked blocked", lambda c: c.place == "host"),
    _row(
        "`read-only`: names an environment file",
        "asks asks asks blocked",
        lambda c: c.verdict == "env",
    ),
    _row("`read-only`: anything else", "runs runs runs blocked", lambda c: True),
]  # fmt: skip
"""The outcome of a call with a sandbox. The first row that fits decides."""

WITHOUT_A_SANDBOX = [
    _row(
        "the shell policy denies it",
        "blocked blocked blocked blocked",
        lambda c: c.verdict == "deny",
    ),
    _row(
        "names a place that is neither `host` nor the capability's",
        "blocked blocked blocked blocked",
        lambda c: c.asked not in (None, "host", c.usual),
    ),
    _row(
        "plainly harmless, and names neither a place nor `network=true`",
        "runs runs runs blocked",
        lambda c: c.verdict == "allow" and c.asked is None and not c.network,
    ),
    _row(
        "plainly harmless",
        "runs asks blocked blocked",
        lambda c: c.verdict == "allow",
    ),
    _row("anything else", "asks asks blocked blocked", lambda c: True),
]
"""The same without a sandbox: everything runs on the host."""


def expected(table: list[Any], case: Case) -> str:
    """What the table says."""
    column = "default" if case.mode == "accept_edits" else case.mode
    return str(next(outcomes[column] for _, outcomes, fits in table if fits(case)))


def outcomes(work: Path, usual: str, mode: str, cases: list[Case]) -> list[str]:
    """The outcomes of the calls, if every question is answered with no."""
    turns = [call("bash", **case.args) for case in cases]  # not at once: some run alone
    driver = ScriptedDriver([*turns, say("done")])
    policy: Any = Policy()
    bash = Bash(work, place=usual, policy=policy)  # type: ignore[arg-type]
    builder = AgentBuilder().with_driver(driver).with_capability(bash)
    builder.with_capability(Approval(mode=mode)).with_approver("deny")
    result = builder.with_limits(steps=len(cases) + 1, tool_calls=None).build().run_sync("Go.")
    results = [made for step in result.steps for made in step.results]
    words = {"ok": "runs", "denied": "asks", "blocked": "blocked"}
    for case, made in zip(cases, results, strict=True):
        if made.status.value == "ok":  # what ran, ran where it was to
            has_sandbox = made.metadata["place"] != "host" or case.place == "host"
            assert made.metadata["place"] == (case.place if has_sandbox else "host"), case
    return [words[made.status.value] for made in results]


def cases_for(usual: str, mode: str, networks: tuple[bool, ...]) -> list[Case]:
    """All calls that can be made there."""
    asked = (None, *PLACES)
    mixed = itertools.product(asked, networks, COMMANDS)
    return [Case(usual, place, network, verdict, mode) for place, network, verdict in mixed]


@needs_bubblewrap
@pytest.mark.parametrize("usual", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_the_table_holds_forevery_call(tmp_path: Path, usual: str, mode: str) -> None:
    """Each place that a call can name, with and without the network, for each verdict of the shell policy."""
    cases = cases_for(usual, mode, (False, True))
    found = outcomes(tmp_path, usual, mode, cases)
    wrong = [
        (case, seen, expected(TABLE, case))
        for case, seen in zip(cases, found, strict=True)
        if seen != expected(TABLE, case)
    ]
    assert wrong == []


@pytest.mark.usefixtures("without_a_sandbox")
@pytest.mark.parametrize("usual", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_the_table_holds_without_a_sandbox(tmp_path: Path, usual: str, mode: str) -> None:
    """There the shell policy decides, in all modes, and in some what the call asks for."""
    cases = cases_for(usual, mode, (False, True))
    found = outcomes(tmp_path, usual, mode, cases)
    wanted = [expected(WITHOUT_A_SANDBOX, case) for case in cases]
    assert [*zip(cases, found, strict=True)] == [*zip(cases, wanted, strict=True)]


@pytest.mark.parametrize("table", [TABLE, WITHOUT_A_SANDBOX], ids=["sandbox", "none"])
def test_the_documentation_has_the_table(table: list[Any]) -> None:
    """Word for word, row by row."""
    text = re.sub(r" +", " ", PAGE.read_text(encoding="utf-8"))
    lines = [f"| {words} | {' | '.join(said.values())} |" for words, said, _ in table]
    header = f"| the call | `default`, `accept_edits` | {' | '.join(f'`{each}`' for each in COLUMNS[1:])} |"
    assert "\n".join([header, "|---|---|---|---|---|", *lines]) in text


def test_the_harmless_command_is_plainly_harmless() -> None:
    """The commands of the tables are what the default policy takes them for, where that is asked."""
    plain = ShellPolicy.default()
    assert plain.judge("ls").decision == "allow"
    assert all(plain.judge(COMMANDS[each]).decision == "ask" for each in ("ask", "env"))
