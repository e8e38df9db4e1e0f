"""One run of a scripted conversation with a hook in it, and what it showed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from hookline.agent import Agent, AgentBuilder
from hookline.drivers import ScriptedDriver
from hookline.hooks import (
    CompositeMatcher,
    HookLike,
    HookOptions,
    Point,
    Registration,
    register,
)
from hookline.journal import (
    CallAdmitted,
    CallSettled,
    Evaluated,
    HookRan,
    Record,
    ResponseReceived,
    RunFinished,
    hooks_in,
)
from hookline.lifecycle import AgentContext
from hookline.state import AgentState, ContinuationEvaluation, ToolCall, thaw
from hookline.testing.clock import FakeClock
from hookline.testing.recorder import Line, transcript

NAME = "conformance"
"""The agent, its runs and its observer are called so in every trial, so that ids do not differ."""


class HookCase(msgspec.Struct, frozen=True, kw_only=True):
    """What is checked: a hook, and the conversation it is checked in."""

    point: Point[Any]
    make: Callable[[], HookLike]
    options: HookOptions
    script: Sequence[Any]
    tools: Sequence[Any] = ()
    prompt: str = "Go."
    configure: Callable[[AgentBuilder], object] | None = None
    ignore: frozenset[str] = frozenset()

    def register(self) -> Registration:
        """A registration of the hook: of the same one each time, or of a fresh one."""
        return register(self.point, self.make(), self.options)


class SeenAnswer(msgspec.Struct, frozen=True):
    """What the hook said, once: about which call, its verdict, and what it changed."""

    verdict: str
    reason: str = ""
    tool: str = ""
    args: Any = None
    changes: Any = None

    def __str__(self) -> str:
        about = f" about {self.tool}({describe_args(self.args)})" if self.tool else ""
        reason = f" ({self.reason})" if self.reason else ""
        changes = f", changing {self.changes}" if self.changes else ""
        return f"{self.verdict}{about}{reason}{changes}"


class HookRunResult(msgspec.Struct, frozen=True):
    """What one run of the conversation showed. Two runs with a conforming hook show the same."""

    verdicts: tuple[SeenAnswer, ...]
    evaluations: tuple[str, ...]
    results: tuple[str, ...]
    transcript: tuple[Line, ...]
    metadata: dict[str, Any]
    ending: str


class HookRun:
    """An agent made for one run, with everything needed to see what happens in it."""

    def __init__(self, case: HookCase, script: Sequence[Any] | None = None) -> None:
        self.case = case
        self.script = case.script if script is None else script
        self.registration = case.register()
        self.records: list[Record] = []
        self.state = AgentState()

    def builder(self) -> AgentBuilder:
        """An agent for the conversation, without the hook. It has no limits: the hook alone decides."""
        case = self.case
        builder = bare_builder(NAME, ScriptedDriver(self.script)).with_tools(*case.tools)
        builder.on_event(self.records.append)
        for register_at in (builder.on_execution_end, builder.on_session_end):
            register_at(self._look, name=NAME, tier="observer")
        if case.configure is not None:
            case.configure(builder)
        return builder

    def agent(self) -> Agent:
        """The agent with the hook."""
        return self.install(self.builder()).build()

    def install(self, builder: AgentBuilder, only: Any = None) -> AgentBuilder:
        """Add the hook; `only` is one more matcher."""
        registration = self.registration
        matcher = registration.matcher
        if only is not None:
            matcher = CompositeMatcher.all_of(only, *([matcher] if matcher is not None else []))
        return builder.with_hooks(msgspec.structs.replace(registration, matcher=matcher))

    def _look(self, ctx: AgentContext) -> None:
        self.state = ctx.state

    def seen(self) -> HookRunResult:
        """What the run showed."""
        ran = list(self._by_hook())
        made = _calls_made(self.records)
        if self.case.point.around:
            # Around parallel calls hooks end in any order; what is compared is in call order.
            order = {key: position for position, key in enumerate(made)}
            ran.sort(key=lambda record: order.get((record.run_id, record.call_id), -1))
        return HookRunResult(
            tuple(
                self._seen_answer(record, made.get((record.run_id, record.call_id)))
                for record in ran
            ),
            tuple(self._evaluations()),
            tuple(_results(self.records)),
            tuple(transcript(self.state.messages)),
            _without(thaw(self.state.metadata), self.case.ignore),
            _ending(self.records),
        )

    def _by_hook(self) -> Iterator[HookRan]:
        mine = self.registration
        for ran in hooks_in(self.records):
            if ran.hook == mine.name and ran.point == mine.point:
                yield ran

    def _seen_answer(self, record: HookRan, about: ToolCall | None) -> SeenAnswer:
        changes = _without(msgspec.to_builtins(record.changes), self.case.ignore)
        for part, key in (("tool_call", "id"), ("execution", "call_id")):
            if changes and isinstance(changes.get(part), dict):
                changes[part].pop(key, None)  # ids say in which step a call was made
        tool, args = (about.name, thaw(about.args)) if about is not None else ("", None)
        return SeenAnswer(record.verdict, record.reason, tool, args, changes)

    def _evaluations(self) -> Iterator[str]:
        for said in self._all_evaluations():
            if said.source == self.registration.name:
                stop_reason = f" ({said.stop_reason})" if said.stop_reason is not None else ""
                yield f"{said.decision}{stop_reason}: {said.reason}"

    def _all_evaluations(self) -> Iterator[ContinuationEvaluation]:
        for record in self.records:
            if isinstance(record, HookRan) and not record.shadow:
                yield from record.evaluations
            elif isinstance(record, Evaluated) and record.evaluation is not None:
                yield record.evaluation


def bare_builder(name: str, driver: ScriptedDriver) -> AgentBuilder:
    """A builder without limits, on a clock that stands still."""
    return (
        AgentBuilder()
        .with_id(name)
        .with_driver(driver)
        .with_clock(FakeClock())
        .with_limits(steps=None, tokens=None, seconds=None)
    )


def _calls_made(records: Iterable[Record]) -> dict[tuple[str, str], ToolCall]:
    """The calls of the conversation as the model made them, by run and id, in order."""
    responses = (record for record in records if isinstance(record, ResponseReceived))
    return {(record.run_id, each.id): each for record in responses for each in record.calls}


def _results(records: Sequence[Record]) -> Iterator[str]:
    """The outcome of each call of the outermost run, in order."""
    ran = {
        (record.run_id, record.call.id): record.call
        for record in records
        if isinstance(record, CallAdmitted)
    }
    for record in records:
        if isinstance(record, CallSettled) and record.run_id == records[0].run_id:
            result = record.result
            call = ran.get((record.run_id, result.call_id))
            arguments = describe_args(call.args) if call is not None else "not run"
            yield f"{result.name}({arguments}) -> {result.status}: {result.text()}"


def _ending(records: Sequence[Record]) -> str:
    """How the outermost run ended, in one line."""
    for record in reversed(records):
        if isinstance(record, RunFinished) and record.run_id == records[0].run_id:
            words = f"{record.status}: {record.stop_reason}"
            words += f" ({record.reason})" if record.reason else ""
            words += f", decided by '{record.decided_by}'" if record.decided_by else ""
            words += f", answered {record.text!r}" if record.text else ""
            asked = (f"{one.tool_call.name}: {one.reason}" for one in record.pending)
            return ", ".join([words, *asked])
    return "it never ended"


def describe_args(args: dict[str, Any]) -> str:
    """Arguments as they would be written."""
    return ", ".join(f"{name}={value!r}" for name, value in args.items())


def _without(value: Any, ignored: frozenset[str]) -> Any:
    """A JSON value without some keys, at any depth."""
    if isinstance(value, dict):
        return {key: _without(item, ignored) for key, item in value.items() if key not in ignored}
    return [_without(item, ignored) for item in value] if isinstance(value, list) else value
