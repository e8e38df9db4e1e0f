"""A conformance suite for hooks: does a hook behave the same, whichever way an agent is driven?

report = await check_hook("before_tool_use", no_deletes, matcher="bash", tier="policy",
                          script=[call("bash", command="ls"), say("done")], tools=[bash])
assert report.ok, report
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any, ParamSpec, TypeVar, Unpack

import msgspec

from hookline.agent import Agent, AgentBuilder
from hookline.drivers import ScriptedCall, ScriptedDriver, ScriptedTurn, call, say
from hookline.errors import UsageError
from hookline.hooks import (
    CallableMatcher,
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
from hookline.lifecycle import AgentContext, HookPoint, point_named
from hookline.state import AgentState, ContinuationEvaluation, ToolCall, thaw
from hookline.testing.clock import FakeClock
from hookline.testing.recorder import Line, transcript
from hookline.testing.report import Deviation, Report
from hookline.tools import ToolContext

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

    def result(self) -> HookRunResult:
        """What the run showed."""
        ran = list(self._find_own_records())
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
            _without_keys(thaw(self.state.metadata), self.case.ignore),
            _ending(self.records),
        )

    def _find_own_records(self) -> Iterator[HookRan]:
        mine = self.registration
        for ran in hooks_in(self.records):
            if ran.hook == mine.name and ran.point == mine.point:
                yield ran

    def _seen_answer(self, record: HookRan, about: ToolCall | None) -> SeenAnswer:
        changes = _without_keys(msgspec.to_builtins(record.changes), self.case.ignore)
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
            yield f"{result.name}({arguments}) -> {result.status}: {result.text}"


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


def _without_keys(value: Any, ignored: frozenset[str]) -> Any:
    """A JSON value without some keys, at any depth."""
    if isinstance(value, dict):
        return {
            key: _without_keys(item, ignored) for key, item in value.items() if key not in ignored
        }
    return [_without_keys(item, ignored) for item in value] if isinstance(value, list) else value


# --- the ways to drive an agent -------------------------------------------------------------------


_TOOL_POINTS = (
    HookPoint.BEFORE_TOOL_USE,
    HookPoint.PERMISSION_REQUEST,
    HookPoint.AROUND_TOOL_USE,
    HookPoint.AFTER_TOOL_USE,
)
_SESSION_POINTS = (HookPoint.SESSION_START, HookPoint.SESSION_END)


async def _run(run: HookRun) -> None:
    await run.agent().run(run.case.prompt, run_id=NAME)


async def _run_sync(run: HookRun) -> None:
    # In a thread, because `run_sync` brings an event loop of its own.
    await asyncio.to_thread(run.agent().run_sync, run.case.prompt, run_id=NAME)


async def _stream(run: HookRun) -> None:
    async for _ in run.agent().stream(run.case.prompt, run_id=NAME):
        pass


async def _iterate(run: HookRun) -> None:
    async for _ in run.agent().iterate(run.case.prompt, run_id=NAME):
        pass


async def _subagent(run: HookRun) -> None:
    """As the child of another run. A tree-scoped hook is installed in the parent and acts in the child only."""
    is_inherited = run.registration.scope == "tree"
    child = run.builder().build() if is_inherited else run.agent()

    async def delegate(context: ToolContext) -> str:
        """Pass the task on."""
        result = await context.spawn(child, run.case.prompt)
        return str(result.text)

    parent = bare_builder("parent", ScriptedDriver([call("delegate"), say("done")]))
    parent.with_tools(delegate)
    if is_inherited:
        run.install(parent, only=CallableMatcher(lambda ctx: ctx.run.depth > 0))
    await parent.build().run("Delegate it.", run_id="parent")


MODES: dict[str, Callable[[HookRun], Awaitable[None]]] = {
    "run": _run,
    "run again": _run,
    "run_sync": _run_sync,
    "stream": _stream,
    "iterate": _iterate,
    "parallel": _run,
    "subagent": _subagent,
}
"""Every way. The others are compared with the first; `parallel` is driven with another script."""


def inapplicable(case: HookCase, mode: str, reference: HookRunResult | None) -> str:
    """Why a way of driving cannot be compared for this hook and conversation; empty when it can."""
    if mode == "subagent" and case.point in _SESSION_POINTS:
        return "a child run belongs to its parent's session"
    if mode != "parallel" or reference is None:
        return ""
    if case.point not in _TOOL_POINTS:
        return "how often this point is visited depends on the number of steps"
    if not all(isinstance(turn, ScriptedTurn | ScriptedCall) for turn in case.script):
        return "the script has turns that depend on the step they are played in"
    if len(in_parallel(case.script)) == len(case.script):
        return "no two turns of the script could be one"
    planned = sum(len(_calls_of(turn)) for turn in case.script)
    if not reference.ending.startswith("completed") or len(reference.results) != planned:
        return "the run left the script early, and with fewer steps it would leave it elsewhere"
    return ""


def in_parallel(script: Sequence[Any]) -> list[Any]:
    """The script with calls that follow one another made in one turn."""
    merged: list[Any] = []
    for turn in script:
        before = merged[-1] if merged else None
        if _calls_of(before) and _calls_of(turn) and not getattr(turn, "text", ""):
            merged[-1] = _one_turn(before, turn)
        else:
            merged.append(turn)
    return merged


def _one_turn(before: Any, turn: Any) -> ScriptedTurn:
    tokens = sum(each.tokens for each in (before, turn) if isinstance(each, ScriptedTurn))
    text = getattr(before, "text", "")
    return ScriptedTurn(text, (*_calls_of(before), *_calls_of(turn)), tokens)


def _calls_of(turn: object) -> tuple[ScriptedCall, ...]:
    if isinstance(turn, ScriptedCall):
        return (turn,)
    return turn.calls if isinstance(turn, ScriptedTurn) else ()


# --- what is wrong, and what differs --------------------------------------------------------------


_KEEPS = (
    "The hook keeps something between runs. Keep it in ctx.with_metadata(...), "
    "or pass factory= if each run needs its own hook."
)
_SEQUENCES = {
    "verdicts": "verdict",
    "evaluations": "evaluation",
    "results": "result of call",
    "transcript": "message",
}


def faults(reference: HookRun) -> Iterator[Deviation]:
    """What is wrong with the hook whichever way the agent is driven."""
    point = reference.case.point
    verdicts = reference.result().verdicts
    if not verdicts:
        yield Deviation(
            "run",
            "how often the hook was asked",
            "at least once",
            "never",
            f"The script never reaches {point}, or the matcher matches nothing in it.",
        )
    for number, said in enumerate(verdicts, 1):
        if said.verdict == "failed":
            expected = f"an answer that means something at {point}"
            yield Deviation("run", f"verdict {number}", expected, said)


def differences(mode: str, expected: HookRunResult, got: HookRunResult) -> Iterator[Deviation]:
    """What was not the same as under `run`. Of a sequence, the first item that differs."""
    remedy = _KEEPS if mode == "run again" else ""
    for field, what in _SEQUENCES.items():
        if field != "transcript" or mode != "parallel":  # one turn instead of two reads differently
            yield from _first(mode, what, getattr(expected, field), getattr(got, field), remedy)
    for field in ("metadata", "ending"):
        one, other = getattr(expected, field), getattr(got, field)
        if one != other:
            yield Deviation(mode, field, one, other, remedy)


def _first(
    mode: str, what: str, expected: Sequence[object], got: Sequence[object], remedy: str
) -> Iterator[Deviation]:
    for number in range(max(len(expected), len(got))):
        one = expected[number] if number < len(expected) else "nothing"
        other = got[number] if number < len(got) else "nothing"
        if one != other:
            yield Deviation(mode, f"{what} {number + 1}", one, other, remedy)
            return


# --- the check ------------------------------------------------------------------------------------


P = ParamSpec("P")
R = TypeVar("R")


async def check_hook(
    point: str,
    hook: HookLike = None,
    *,
    script: Sequence[Any],
    tools: Sequence[Any] = (),
    factory: Callable[[], HookLike] | None = None,
    prompt: str = "Go.",
    configure: Callable[[AgentBuilder], object] | None = None,
    skip: Collection[str] = (),
    ignore: Collection[str] = (),
    **options: Unpack[HookOptions],
) -> Report:
    """Drive one scripted conversation in every way there is, and compare what the hook does.

    `script` and `tools` are what a ScriptedDriver and an agent take; the tools should give the same results
    each time, in any order. The same hook is used throughout, so that what it keeps between runs shows; one
    that is meant to keep something is made again for each run by `factory`. `configure` adds to the agent
    whatever else the conversation needs. `skip` names ways not to compare, `ignore` keys of metadata (a time,
    say) whose values may differ.
    """
    _check_arguments(hook, factory, skip)
    case = HookCase(
        point=point_named(point),
        make=factory if factory is not None else lambda: hook,
        options=options,
        script=tuple(script),
        tools=tuple(tools),
        prompt=prompt,
        configure=configure,
        ignore=frozenset(ignore),
    )
    runs: dict[str, HookRun] = {}
    skipped = dict.fromkeys(skip, "as you asked")
    for mode, drive in MODES.items():
        reference = runs["run"].result() if runs else None
        why = skipped.get(mode) or inapplicable(case, mode, reference)
        if why:
            skipped[mode] = why
            continue
        runs[mode] = HookRun(case, in_parallel(case.script) if mode == "parallel" else None)
        await drive(runs[mode])
    return _report(runs, skipped)


def _in_sync(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return asyncio.run(function(*args, **kwargs))

    run.__doc__ = f"`{function.__name__}` for code that is not async."
    run.__name__ = run.__qualname__ = f"{function.__name__}_sync"
    return run


check_hook_sync = _in_sync(check_hook)


def _check_arguments(hook: HookLike, factory: object, skip: Collection[str]) -> None:
    if (hook is None) == (factory is None):
        raise UsageError(
            "check_hook takes a hook, or a factory= that makes one: exactly one of the two."
        )
    can_skip = [mode for mode in MODES if mode != "run"]  # the others are compared with it
    for mode in skip:
        if mode not in can_skip:
            raise UsageError(
                f"skip={mode!r} is not something that can be skipped.",
                remedy=f"You can skip: {', '.join(can_skip)}.",
            )


def _report(runs: dict[str, HookRun], skipped: dict[str, str]) -> Report:
    reference = runs["run"]
    seen = {mode: run.result() for mode, run in runs.items()}
    found = list(faults(reference))
    for mode in list(runs)[1:]:
        found += differences(mode, seen["run"], seen[mode])
    return Report(
        hook=reference.registration.name,
        point=reference.case.point.value,
        modes=tuple(runs),
        skipped=skipped,
        differences=tuple(found),
        verdicts=tuple(said.verdict for said in seen["run"].verdicts),
        ending=seen["run"].ending,
    )
