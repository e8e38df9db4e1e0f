"""A back-test as one page of HTML, which needs nothing else."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator

from hookline.playback.findings import Change, Findings, HookReport
from hookline.playback.text import duration, headline, remarks, verdicts, visible
from hookline.state import thaw

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --quiet: #666; --bad: #b3261e; --good: #17663a; --tint: #8881; }
@media (prefers-color-scheme: dark) { :root { --quiet: #aaa; --bad: #ff8a80; --good: #7fd6a0; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; }
h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.ok { color: var(--good); } .bad { color: var(--bad); }
.quiet { color: var(--quiet); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--quiet); padding-bottom: .5rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre { font: 14px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { margin: .3rem 0 0; padding: .5rem; background: var(--tint); white-space: pre-wrap; }
.verdict { font-weight: 600; white-space: nowrap; }
""".strip()


def page_of(report: Findings) -> str:
    """The page. All that was recorded is shown as text, whatever is in it."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Findings) -> Iterator[str]:
    title = "Back-test: " + ("nothing would change" if report.ok else _finding(report))
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_text(title)}</title>"
    yield f"<style>{_STYLE}</style>"
    yield "</head>"
    yield "<body>"
    yield "<main>"
    yield f'<h1 class="{"ok" if report.ok else "bad"}">{_text(title)}</h1>'
    yield f"<p>{_text(headline(report))}.</p>"
    yield from _changes(report)
    yield from _hooks(report.hooks)
    yield from _notes(report)
    yield "</main>"
    yield "</body>"
    yield "</html>"


def _finding(report: Findings) -> str:
    changes = len(report.changes)
    if not changes:
        return "some runs could not be followed"
    return f"{changes:,} verdict{'s' * (changes != 1)} would change"


def _changes(report: Findings) -> Iterator[str]:
    if not report.changes:
        return
    counts = ", ".join(f"{count} {what}" for what, count in report.counts.items())
    yield "<h2>What would change</h2>"
    titles = ("run", "step", "about", "was", "would be", "hook", "why")
    yield from _table(
        f"Verdicts that would be others: {counts}", titles, map(_change, report.changes)
    )


def _change(change: Change) -> Iterator[str]:
    step = str(change.step + 1) if change.step is not None else "-"
    quiet = "" if change.is_first else '<div class="quiet">after another change</div>'
    by = f'<div class="quiet">{_text(change.old_hook)}</div>' if change.old_hook else ""
    yield f"<td><code>{_text(change.run)}</code>{quiet}</td>"
    yield f'<td class="number">{step}</td>'
    yield f"<td>{_about(change)}</td>"
    yield f'<td><span class="verdict">{_text(change.old)}</span>{by}</td>'
    yield f'<td><span class="verdict">{_text(change.new)}</span></td>'
    yield f"<td>{_text(change.hook)}</td>"
    yield f"<td>{_text(change.why)}</td>"


def _about(change: Change) -> str:
    point = f'<div class="quiet">{_text(change.point)}</div>'
    if change.call is None:
        return point
    args = json.dumps(thaw(change.call.args), indent=2, ensure_ascii=False)
    shown = f"<summary><code>{_text(change.call.name)}</code></summary><pre>{_text(args)}</pre>"
    return f"<details>{shown}</details>{point}"


def _hooks(hooks: Iterable[HookReport]) -> Iterator[str]:
    rows = list(hooks)
    if not rows:
        return
    yield "<h2>The hooks</h2>"
    said = ("hook", "point", "status", "asked", "verdicts", "on record")
    took = ("mean", "p50", "p95", "max", "mean on record", "charged tokens")
    yield from _table(
        "What each hook says now, and what it takes", (*said, *took), map(_hook, rows)
    )


def _hook(hook: HookReport) -> Iterator[str]:
    shadow = " (shadow)" if hook.shadow else ""
    yield f'<th scope="row">{_text(hook.hook)}{shadow}</th>'
    yield f"<td>{_text(hook.point)}</td>"
    yield f"<td>{_text(hook.status)}</td>"
    yield f'<td class="number">{hook.calls:,}</td>'
    yield f"<td>{_text(verdicts(hook.verdicts))}</td>"
    yield f"<td>{_text(verdicts(hook.recorded_verdicts))}</td>"
    took = hook.latency
    for seconds in (took.mean, took.p50, took.p95, took.max):
        yield f'<td class="number">{duration(seconds) if hook.calls else "-"}</td>'
    then = duration(hook.recorded_latency.mean) if hook.recorded_calls else "-"
    yield f'<td class="number">{then}</td>'
    yield f'<td class="number">{hook.usage.total_tokens or "-"}</td>'


def _notes(report: Findings) -> Iterator[str]:
    notes = list(remarks(report))
    if notes:
        yield "<h2>To be read with it</h2>"
        yield "<ul>"
        yield from (f"<li>{_text(note)}</li>" for note in notes)
        yield "</ul>"


def _table(caption: str, titles: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield '<div class="scroll">'
    yield "<table>"
    yield f"<caption>{_text(caption)}</caption>"
    heads = "".join(f'<th scope="col">{_text(title)}</th>' for title in titles)
    yield f"<thead><tr>{heads}</tr></thead>"
    yield "<tbody>"
    for row in rows:
        yield f"<tr>{''.join(row)}</tr>"
    yield "</tbody>"
    yield "</table>"
    yield "</div>"


def _text(text: str) -> str:
    """Text as text: nothing in it is markup, and what no page can hold is replaced."""
    return html.escape(visible(text))
