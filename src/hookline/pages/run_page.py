"""A recorded run as one page: its timeline, its steps with every verdict, what was blocked, tokens and cost."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.journal import (
    ChildStarted,
    ErrorRaised,
    HookRan,
    ModelConsulted,
    Record,
    ResponseReceived,
)
from hookline.pages.outline import CallOutline, Outline, StepOutline, kind_of
from hookline.pages.page import LONGEST, Markup, PageWriter, Row, count, duration, join
from hookline.pages.timeline import LOOK, call_text, draw
from hookline.redaction import Redactor
from hookline.state import (
    Attachment,
    ErrorInfo,
    Message,
    PendingApproval,
    Reasoning,
    ResultStatus,
    ToolMessage,
    Usage,
    UserMessage,
)

Children = Callable[[str], Sequence[Record]]
"""Gives the records of a child run."""
_DEEPEST = 8
_UNNAMED = ("", "resume")
"""Who answered, where that is not on record."""
_SHOWN_LINES = 12
"""Lines of a text that are shown without a click."""
_TITLE = 120
_MANY = 100
"""Steps above which those out of sight are not laid out until they are scrolled to."""
_MARKS = {"completed": "ok", "paused": "ask", "running": "ask", "queued": "ask"}
_VERDICTS = {
    "passed": "soft",
    "changed": "info",
    "allowed": "ok",
    "asked": "ask",
    "blocked": "bad",
    "failed": "bad",
    "shadow": "bad",
}


def run_page(
    records: Iterable[Record],
    *,
    children: Children | None = None,
    earlier: Iterable[Message] = (),
    notes: Sequence[str] = (),
    redactor: Redactor | None = None,
) -> str:
    """A run as one page of HTML, which needs nothing else.

    - `children` gives the records of a child run, which is shown with the call that started it;
    - `earlier` are the messages of the conversation before the run;
    - `notes` are lines that stand above everything else;
    - `redactor` takes secrets out of all texts; without one, those that are recognised by their form and name.
    """
    writer = PageWriter(redactor)
    page = RunPage(writer, children or (lambda _run_id: ()))
    return page.page(Outline(records), list(earlier), notes)


class RunPage:
    """The parts of the page."""

    def __init__(self, writer: PageWriter, children: Children) -> None:
        self._writer, self._children = writer, children
        self._e = writer.element

    def page(self, run: Outline, earlier: Sequence[Message], notes: Sequence[str]) -> str:
        """The whole page."""
        e = self._e
        title = _first_line(self._writer.text(run.prompt)) or f"Run {run.run_id}"
        mark = _MARKS.get(run.end, "bad")
        head = e(
            "header",
            e("p", e("span", run.end, class_=f"badge {mark}"), f" run {run.run_id}", class_="soft"),
            e("h1", title),
            *(e("p", note, class_="note bad") for note in notes),
        )
        many = "many" if len(run.steps) > _MANY else None
        steps = join((self._step(step, "", 0) for step in run.steps.values()), "\n")
        return self._writer.page(
            f"{run.end}: {title}",
            head,
            self._facts(run),
            self._earlier(earlier),
            self._end(run),
            self._section("Timeline", e("div", draw(self._writer, run), class_="timeline-box")),
            self._blocks_section(run),
            self._cost(run),
            self._outside("Before the first step", run.before),
            self._section("Steps", e("div", steps, class_=many)) if steps else Markup(),
            self._outside("After the last step", run.after),
            self._footer(run),
            style=f"{LOOK}{STYLE}",
        )

    def _section(self, title: str, *parts: Markup) -> Markup:
        return self._e("section", self._e("h2", title), *parts)

    # --- the run --------------------------------------------------------------------------------------

    def _facts(self, run: Outline) -> Markup:
        """What a reader wants to know first."""
        e, usage = self._e, run.usage
        made = list(run.calls())
        held = sum(call.is_kept_back for _, call in made)
        tokens = f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
        facts = [
            ("Steps", f"{len(run.steps):,}", ""),
            ("Calls", f"{len(made):,}", f"{held:,} blocked" if held else ""),
            ("Tokens", f"{usage.total_tokens:,}", tokens),
            ("Cost", cost_text(usage), ""),
            ("Time", _time(run), _when(run.first_at)),
        ]
        cells = (
            e("div", e("dt", name), e("dd", value, *([e("small", more)] if more else [])))
            for name, value, more in facts
        )
        return e("dl", *cells, class_="facts")

    def _earlier(self, messages: Sequence[Message]) -> Markup:
        """What was said before the run: in runs that it continues, or where it was forked."""
        e = self._e
        said = [each for each in messages if each.text and not isinstance(each, ToolMessage)]
        if not said:
            return Markup()
        parts = [
            self._with_label(
                "User" if isinstance(each, UserMessage) else "Agent", self._long(each.text)
            )
            for each in said
        ]
        title = e("summary", f"What was said before: {count(len(said), 'message')}")
        return e("details", title, *parts)

    def _end(self, run: Outline) -> Markup:
        """How it ended, what it waits for, and its answer."""
        e, parts = self._e, list[Markup]()
        for prompt in run.prompts:
            if "\n" in prompt.text.strip() or len(prompt.text) > _TITLE or len(run.prompts) > 1:
                parts.append(self._with_label("Prompt", self._long(prompt.text)))
            parts += self._files(prompt.attachments)
        result = run.result
        if run.started is not None and run.started.continues is not None:
            earlier = f"hookline show {shlex.quote(run.started.continues.run_id)}"
            parts.append(self._with_label("Continues a conversation", e("code", earlier)))
        if result is not None:
            by = f" (decided by {result.decided_by})" if result.decided_by else ""
            said = f"{result.stop_reason or result.status.value}: {result.reason}{by}"
            parts.append(self._with_label("Why it stopped", e("p", said)))
            if result.error is not None:
                parts.append(
                    self._with_label("Error", e("p", error_text(result.error), class_="bad"))
                )
            parts += [self._waiting(run, question) for question in result.pending]
            if result.text:
                parts.append(self._with_label("Answer", self._long(result.text, lines=60)))
        else:
            parts.append(e("p", "The record has no end: the run continues, or its process died."))
        return e("div", *parts, class_="end")

    def _waiting(self, run: Outline, question: PendingApproval) -> Markup:
        e = self._e
        return e(
            "div",
            e("strong", "Waits for an answer"),
            e("p", e("code", question.tool_call.name), f" {question.asked_by}: {question.reason}"),
            self._args(question.tool_call.args),
            e("p", "Answer it: ", e("code", f"hookline resume {shlex.quote(run.run_id)}")),
            class_="callout ask",
        )

    def _blocks_section(self, run: Outline) -> Markup:
        """What was blocked, by whom, and why: in the run, and in its children."""
        rows = list(self._block_rows(run, "", "", 0))
        if not rows:
            return Markup()
        titles = ("step", "what", "verdict", "by", "why")
        return self._section("What was blocked", self._writer.table("", titles, rows))

    def _block_rows(self, run: Outline, who: str, prefix: str, depth: int) -> Iterator[Row]:
        e = self._e

        def row(
            step: StepOutline | None, what: Markup | str, verdict: str, by: str, why: str
        ) -> Row:
            where: Markup | str = who or "-"
            if step is not None:
                number = step.index + 1
                where = e("a", f"{who} {number}".strip(), href=f"#{prefix}step-{number}")
            return where, what, self._badge(verdict, "bad"), by, why

        for step, call, hook in run.hooks():
            kind = kind_of(hook)
            if kind in ("blocked", "failed", "shadow"):
                what = self._line_of(call) if call is not None else hook.point
                yield row(step, what, _label(hook), hook.hook, hook.reason)
        for step, call in run.calls():
            result = call.result
            if result is not None and result.status is ResultStatus.DENIED:
                named = [answer.by for answer in call.answers if answer.by not in _UNNAMED]
                by = ", ".join(named) or result.decided_by or "a person"
                yield row(step, self._line_of(call), "denied", by, result.reason)
            for child in call.children:
                inner = self._child_outline(child.child_run_id, depth + 1)
                if inner is not None:
                    name, place = f"{who} {child.name}".strip(), f"{prefix}{_anchor(child)}-"
                    yield from self._block_rows(inner, name, place, depth + 1)

    def _line_of(self, call: CallOutline) -> Markup:
        return self._e("code", self._writer.text(call_text(self._writer, call.call), 200))

    def _cost(self, run: Outline) -> Markup:
        """Tokens and cost: of each model, of hooks that asked one, and of child runs."""
        used: dict[tuple[str, str], Usage] = {}

        def add(who: str, model: str, usage: Usage) -> None:
            before = used.get((who, model))
            used[who, model] = usage if before is None else before + usage

        for step in run.steps.values():
            for answer in step.answers:
                if not answer.supplied:
                    add("the agent", answer.model, answer.usage)
            for asked in step.consulted:
                add(f"hook {asked.name}", asked.response.model, asked.response.usage)
        for child in run.children:
            add(f"child {child.name}", "", child.usage)
        rows = [(who, model or "-", *_usage_row(usage)) for (who, model), usage in used.items()]
        if len(rows) > 1:
            rows.append(("all", "", *_usage_row(run.usage)))
        titles = ("who", "model", "requests", "tokens in", "from cache", "tokens out", "cost")
        table = self._writer.table("What the models used", titles, rows)
        return self._section("Tokens and cost", table) if table else Markup()

    def _outside(self, title: str, hooks: Sequence[HookRan]) -> Markup:
        return self._section(title, self._hooks(hooks)) if hooks else Markup()

    def _footer(self, run: Outline) -> Markup:
        agent = f" of {run.started.agent_id}" if run.started and run.started.agent_id else ""
        return self._e(
            "footer",
            f"Run {run.run_id}{agent}, as recorded up to {_when(run.last_at)}. Secrets that were recognised are "
            f"redacted. Texts are cut after {LONGEST:,} characters; whole ones: ",
            self._e("code", f"hookline show {shlex.quote(run.run_id)} --full"),
            class_="soft",
        )

    # --- a step ---------------------------------------------------------------------------------------

    def _step(self, step: StepOutline, prefix: str, depth: int) -> Markup:
        e = self._e
        usage = step.usage
        said = [_step_kind(step)]
        said += [_seconds(step.seconds)] if step.seconds >= 0.001 else []
        said += [f"{usage.total_tokens:,} tokens"] if usage.total_tokens else []
        said += [cost_text(usage)] if usage.cost is not None else []
        calls = [self._call(call, prefix, depth) for call in step.calls.values()]
        parts = [
            e("h3", f"Step {step.index + 1} ", e("small", " · ".join(said))),
            *(self._answer(answer) for answer in step.answers),
            *(self._error(error) for error in step.errors),
            *(self._consultation(each) for each in step.consulted),
            e("div", *calls, class_="calls") if calls else Markup(),
            self._hooks(step.hooks),
        ]
        return e("article", *parts, class_="step-card", id=f"{prefix}step-{step.index + 1}")

    def _answer(self, answer: ResponseReceived) -> Markup:
        e = self._e
        who = "a hook" if answer.supplied else answer.model or "the model"
        facts = [who]
        facts += ["discarded by a hook"] if answer.discarded else []
        facts += ["cut off"] if answer.truncated else []
        facts += [count(len(answer.calls), "call")] if answer.calls else []
        parts = [e("p", " · ".join(facts), class_="soft")]
        parts += [self._reasoning(each) for each in answer.reasoning if each.text]
        if answer.text:
            parts.append(self._long(answer.text, lines=60))
        for use in answer.provider_tool_uses:
            parts.append(e("p", e("code", use.name), " was run by the provider", class_="soft"))
        return e("div", *parts)

    def _reasoning(self, reasoning: Reasoning) -> Markup:
        e = self._e
        return e("details", e("summary", "thinking"), self._pre(reasoning.text))

    def _consultation(self, asked: ModelConsulted) -> Markup:
        model = asked.response.model or "a model"
        said = self._long(asked.response.text) if asked.response.text else Markup()
        return self._e("div", self._e("p", f"hook {asked.name} asked {model}", class_="soft"), said)

    def _error(self, raised: ErrorRaised) -> Markup:
        said = error_text(raised.error) if raised.error is not None else "an error"
        why = f" ({raised.action}{f': {raised.reason}' if raised.reason else ''})"
        return self._e("p", said, self._e("span", why, class_="soft"), class_="bad")

    # --- a call ---------------------------------------------------------------------------------------

    def _call(self, call: CallOutline, prefix: str, depth: int) -> Markup:
        e, result = self._e, call.result
        mark = "bad" if call.is_bad else "ask" if result is None else "ok"
        took = f" {_seconds(call.seconds)}" if call.seconds >= 0.001 else ""
        parts = [
            e(
                "h4",
                e("code", call.call.name),
                " ",
                self._badge(call.status, mark),
                e("small", took),
            ),
            self._args(call.call.args),
        ]
        if call.call.malformed:
            parts.append(
                self._with_label("Arguments that are not JSON", self._pre(call.call.malformed))
            )
        parts += self._approvals(call)
        parts += [self._error(error) for error in call.errors]
        if result is not None:
            parts.append(self._long(result.text, style="bad" if call.is_bad else ""))
            parts += self._files(result.attachments)
        parts.append(self._hooks(call.hooks))
        parts += [self._child(child, prefix, depth + 1) for child in call.children]
        wide = " wide" if call.children else ""
        return e("div", *parts, class_=f"call is-{mark}{wide}")

    def _args(self, args: Mapping[str, Any]) -> Markup:
        """Arguments, one per line."""
        e, shown = self._e, self._writer.values(args)
        rows = (
            e("div", e("dt", name), e("dd", self._long(value, lines=6)))
            for name, value in shown.items()
        )
        return e("dl", *rows, class_="args") if shown else Markup()

    def _approvals(self, call: CallOutline) -> Iterator[Markup]:
        answers = {answer.approval_id: answer for answer in call.answers}
        for asked in call.questions:
            approval = asked.approval
            if approval is None:
                continue
            answer = answers.get(approval.id)
            said = "nobody has answered yet"
            if answer is not None and answer.decision is not None:
                by = f" by {answer.by}" if answer.by not in _UNNAMED else ""
                why = f": {answer.decision.reason}" if answer.decision.reason else ""
                said = f"{answer.decision.answer.value}{by} after {_seconds(answer.at - asked.at)}{why}"
            e = self._e
            yield e("p", e("strong", "Asked: "), f"{approval.reason} ", e("em", said), class_="ask")

    def _child_outline(self, run_id: str, depth: int) -> Outline | None:
        records = self._children(run_id) if depth <= _DEEPEST else ()
        return Outline(records) if records else None

    def _child(self, started: ChildStarted, prefix: str, depth: int) -> Markup:
        """A child run with its own timeline and steps."""
        e = self._e
        title, run_id = f"Child run {started.name}", started.child_run_id
        child = self._child_outline(run_id, depth)
        if child is None:
            return e("p", f"{title}: ", e("code", f"hookline show {shlex.quote(run_id)}"))
        prefix = f"{prefix}{_anchor(started)}-"
        facts = f"{child.end}, {count(len(child.steps), 'step')}, {cost_text(child.usage)}"
        is_calm = child.end == "completed" and not any(call.is_bad for _, call in child.calls())
        said = child.result.text if child.result else ""
        return e(
            "details",
            e("summary", e("strong", title), f" {facts}"),
            e("p", e("code", run_id), class_="soft"),
            *(self._with_label("Prompt", self._long(each.text)) for each in child.prompts),
            e("div", draw(self._writer, child), class_="timeline-box"),
            self._hooks(child.before),
            *(self._step(step, prefix, depth) for step in child.steps.values()),
            self._hooks(child.after),
            self._with_label("Answer", self._long(said)) if said else Markup(),
            class_="child",
            open=None if is_calm else "",
        )

    # --- hooks ----------------------------------------------------------------------------------------

    def _hooks(self, hooks: Sequence[HookRan]) -> Markup:
        """Every verdict. Those without an objection and without words need a click."""
        if not hooks:
            return Markup()
        e = self._e
        quiet = [hook for hook in hooks if kind_of(hook) == "passed" and not _hook_words(hook)]
        loud = [hook for hook in hooks if kind_of(hook) != "passed" or _hook_words(hook)]
        parts = [self._hook(hook) for hook in loud]
        if quiet:
            label = f"{count(len(quiet), 'hook')} had no objection"
            parts.append(
                e(
                    "li",
                    e("details", e("summary", label), e("ul", *map(self._hook, quiet))),
                    class_="soft",
                )
            )
        return e("ul", *parts, class_="hooks")

    def _hook(self, hook: HookRan) -> Markup:
        e, kind = self._e, kind_of(hook)
        parts: list[str | Markup] = [
            self._badge(_label(hook), _VERDICTS[kind]),
            " ",
            e("strong", hook.hook),
            e("span", f" at {hook.point} ({hook.tier}, {duration(hook.duration)})", class_="soft"),
        ]
        if said := _hook_words(hook):
            parts.append(e("span", f" {said}"))
        if hook.changes and kind == "changed":
            parts.append(e("details", e("summary", "what it changed"), self._changes(hook)))
        if hook.traceback:
            parts.append(e("details", e("summary", "where it failed"), self._pre(hook.traceback)))
        return e("li", *parts)

    def _changes(self, hook: HookRan) -> Markup:
        plain = self._writer.redactor.value(msgspec.to_builtins(hook.changes))
        return self._pre(msgspec.json.format(msgspec.json.encode(plain), indent=1).decode())

    # --- texts ----------------------------------------------------------------------------------------

    def _badge(self, text: str, mark: str) -> Markup:
        return self._e("span", text, class_=f"badge {mark}")

    def _with_label(self, label: str, content: Markup) -> Markup:
        return self._e("div", self._e("p", label, class_="label"), content)

    def _pre(self, text: str, style: str = "") -> Markup:
        return self._e("pre", text, class_=style or None)

    def _long(self, text: str, *, lines: int = _SHOWN_LINES, style: str = "") -> Markup:
        """A text: its first lines, and the rest behind a click."""
        shown = text[: LONGEST * 2].splitlines()
        if len(shown) <= lines and len(text) <= 200 * lines:
            return self._pre(text, style)
        number = text.count("\n") + 1
        size = count(number, "line") if number > 1 else f"{len(text):,} characters"
        start = _first_line(self._writer.text(text))
        return self._e(
            "details",
            self._e("summary", self._e("code", start), self._e("small", f" {size}")),
            self._pre(text, style),
        )

    def _files(self, attachments: Sequence[Attachment]) -> Iterator[Markup]:
        """Images and files are named, and not shown."""
        for each in attachments:
            size = f"{each.size:,} bytes" if each.data else "by its address"
            yield self._e("p", f"{each.name or 'a file'}: {each.media_type}, {size}", class_="soft")


def error_text(error: ErrorInfo) -> str:
    """An error, with the last part of its type."""
    return f"{error.type.rpartition('.')[2]}: {error.message}" if error.message else error.type


def cost_text(usage: Usage) -> str:
    """A cost, and whether it is all."""
    if usage.cost is None:
        return "cost not known" if usage.requests else "no cost"
    more = f" and {count(usage.unpriced_requests, 'request')} without a price"
    return f"${usage.cost:,.4f}{more if usage.unpriced_requests else ''}"


def _usage_row(usage: Usage) -> tuple[str, ...]:
    numbers = (usage.requests, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    return (*(f"{number:,}" for number in numbers), cost_text(usage))


def _hook_words(hook: HookRan) -> str:
    """What a hook said: its reason, its error, or what it thinks about continuing."""
    if hook.error is not None:
        return error_text(hook.error)
    words = [hook.reason] if hook.reason else []
    words += [
        f"{each.decision.value.replace('_', ' ')}{f': {each.reason}' if each.reason else ''}"
        for each in hook.evaluations
    ]
    if hook.decision is not None:
        words.append(hook.decision.answer.value)
    return "; ".join(words)


def _label(hook: HookRan) -> str:
    """A verdict in a word. One without effect says so."""
    if kind_of(hook) == "changed":
        return "changed"
    return f"{hook.verdict} (in shadow)" if kind_of(hook) == "shadow" else hook.verdict


def _step_kind(step: StepOutline) -> str:
    if step.finished is None:
        waits = any(len(call.questions) > len(call.answers) for call in step.calls.values())
        return "waits" if waits else "not finished"
    return step.finished.step.type.value.replace("_", " ")


def _first_line(text: str) -> str:
    line = " ".join(text.strip().partition("\n")[0].split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return duration(seconds)
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _time(run: Outline) -> str:
    return _seconds(sum(step.seconds for step in run.steps.values()))


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _anchor(child: ChildStarted) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in child.child_run_id)


STYLE = """\
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; } h3 { font-size: 1.05rem; margin: 0 0 .5rem; }
h4 { font-size: 1rem; margin: 0 0 .4rem; } small, .soft, .label { color: var(--quiet); font-weight: 400; }
.soft, .label { font-size: .9rem; margin: .25rem 0; }
section table { margin-top: 0; }
section .scroll { max-height: 75vh; overflow: auto; }
caption:empty { display: none; }
code, pre { font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { margin: .25rem 0; padding: .5rem .7rem; background: var(--page); border: 1px solid var(--line);
border-radius: 6px; white-space: pre-wrap; max-height: 32rem; overflow: auto; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.badge { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.4; padding: 0 .5rem;
white-space: nowrap; border-radius: 1rem; background: var(--card); border: 1px solid var(--line); }
.badge.ok { background: var(--good-back); border-color: transparent; }
.badge.bad { background: var(--bad-back); border-color: transparent; }
.badge.ask { background: var(--ask-back); border-color: transparent; }
.badge.soft { font-weight: 400; margin: 0; } pre.bad { color: var(--bad); }
.facts { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem; }
.facts dt { color: var(--quiet); font-size: .85rem; } .facts dd { margin: 0; font-weight: 600; }
.facts small { display: block; }
.timeline-box { overflow: auto; max-height: 75vh; margin-bottom: .75rem; }
.timeline { display: block; max-width: none; }
.step-card { border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.1rem; margin: 0 0 1rem;
background: var(--card); }
.many .step-card { content-visibility: auto; contain-intrinsic-size: auto 12rem; }
.calls { display: grid; gap: .75rem; margin: .6rem 0;
grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); }
.call { background: var(--page); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .8rem; min-width: 0;
border-top: 3px solid var(--good); }
.call.is-bad { border-top-color: var(--bad); } .call.is-ask { border-top-color: var(--ask); }
.call.wide { grid-column: 1 / -1; }
.args { margin: 0 0 .4rem; } .args div { display: flex; gap: .5rem; align-items: baseline; }
.args dt { color: var(--quiet); font-size: .85rem; } .args dd { margin: 0; min-width: 0; flex: 1; }
.args pre { border: 0; padding: 0; background: none; margin: 0; }
ul.hooks, .hooks ul { list-style: none; margin: .5rem 0 0; padding: 0; font-size: .9rem; }
.hooks li { padding: .15rem 0; overflow-wrap: anywhere; }
summary { cursor: pointer; } .child { border-left: 3px solid var(--line); padding-left: .9rem; margin-top: .6rem; }
.callout { border: 1px solid var(--ask); background: var(--ask-back); border-radius: 8px; padding: .7rem 1rem;
margin: .75rem 0; color: var(--ink); } .note { font-weight: 600; }
footer { margin: 3rem 0 1rem; border-top: 1px solid var(--line); padding-top: .75rem; }
@media print { .timeline-box, pre { max-height: none; } .many .step-card { content-visibility: visible; } }
"""
