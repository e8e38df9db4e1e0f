"""Agents of any kind whose process dies, and a store that can be cut where it died: for the tests of resume."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from hypothesis import strategies as st
from plain_inbox import PlainInbox, done_future

from hookline import AgentBuilder, ErrorPolicy, HookOutcome, RunResult, ToolContext, tool
from hookline.errors import UnknownRunError, in_words
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import Record, RunFinished, RunStarted, fold
from hookline.state import check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class Tape(PlainInbox):
    """A store that remembers in which order everything was written, so that it can be cut anywhere."""

    def __init__(self, written: Sequence[Record] = ()) -> None:
        self.written = list(written)
        self.claimed: set[str] = set()
        self.whole: set[int] = set()
        """Where no process dies: a run begins with one batch, and a batch is written whole or not at all."""

    def write(self, records: Sequence[Record]) -> None:
        if any(isinstance(record, RunStarted) for record in records):
            first = len(self.written)
            self.whole.update(range(first + 1, first + len(records)))
        self.written += records

    def cuts(self) -> list[int]:
        """After how many records a process may have died that had begun the run."""
        return [at for at in range(1, len(self.written) + 1) if at not in self.whole]

    async def claim(self, run_id: str) -> Any:
        assert run_id not in self.claimed
        self.claimed.add(run_id)
        return TapeClaim(self, run_id)

    def records(self, run_id: str) -> list[Record]:
        found = [record for record in self.written if record.run_id == run_id]
        if not found:
            raise UnknownRunError(f"no run '{run_id}'.")
        return found


class TapeClaim(NamedTuple):
    tape: Tape
    run_id: str
    steps_before_loss = None

    def write(self, records: Sequence[Record]) -> Future[None]:
        self.tape.write(records)
        return done_future()

    def give_back(self) -> Future[None]:
        self.tape.claimed.discard(self.run_id)
        return done_future()


class Case(NamedTuple):
    """A script, by step; hooks, each a point and what it does; what the error policy says to everything."""

    script: tuple[tuple[str, ...], ...]
    hooks: tuple[tuple[str, str], ...] = ()
    child: tuple[tuple[str, ...], ...] = (("look",), ())
    on_error: ErrorAction = ErrorAction.IGNORE
    around: str = ""
    """What the hook around each step does, if there is one."""
    has_approver: bool = True
    """A question is answered with yes at once; otherwise the run waits."""


class World:
    """An agent of a case. What its hooks and tools did is kept over all its lives."""

    def __init__(self, case: Case, tape: Tape) -> None:
        self.case = case
        self.tape = tape
        self.hooked: list[str] = []
        self.used: list[str] = []

    def agent(self) -> Any:
        """The agent as a new process would build it."""
        return self.builder().build()

    def builder(self) -> AgentBuilder:
        """The agent, before it is built."""
        inner = self._builder("child", self.case.child).build()

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(inner, "task")).text

        builder = self._builder("agent", self.case.script).with_tools(delegate)
        builder.with_journal(self.tape)
        if self.case.has_approver:
            builder.with_approver(lambda _: True)
        if self.case.around:
            builder.around_step(AROUND[self.case.around])
        for number, (point, action) in enumerate(self.case.hooks):
            tier: Any = "policy" if action.startswith("policy ") else "hook"
            hook = self._hook(number, action.removeprefix("policy "))
            builder.add_hook(point, hook, name=f"hook-{number}", tier=tier)
        return builder

    def _builder(self, name: str, script: tuple[tuple[str, ...], ...]) -> AgentBuilder:
        @tool(effect="pure")
        async def look(at: str = "") -> str:
            """Look."""
            return f"seen {at}"

        @tool(effect="pure")
        async def fails() -> str:
            """Fail."""
            raise ValueError("no such luck")

        @tool
        async def pay(context: ToolContext, amount: int) -> str:
            """Pay."""
            self.used.append(context.idempotency_key)
            return f"paid {amount}"

        policy = ErrorPolicy(actions=dict.fromkeys(ErrorClass, self.case.on_error), max_retries=2)
        return (
            AgentBuilder()
            .with_id(name)
            .with_driver(ByStep(script))
            .with_tools(look, fails, pay)
            .with_error_policy(policy)
            .with_clock(FakeClock())
        )

    def _hook(self, number: int, action: str) -> Any:
        def hook(ctx: Any) -> Any:
            made = getattr(ctx, "tool_call", None)
            index = getattr(ctx, "step_index", len(ctx.state.steps))
            self.hooked.append(f"{number} {ctx.state.run_id} {index} {made.id if made else ''}")
            return ACTIONS[action](ctx, number)

        return hook


class ByStep:
    """A model that answers by how far the conversation is, as a real one would."""

    def __init__(self, script: tuple[tuple[str, ...], ...]) -> None:
        self.script = script

    async def infer(self, request: Any, turn: Any) -> Any:
        index = turn.state.step_count
        names = self.script[index] if index < len(self.script) else ()
        made = [CALLS[name] for name in names]
        played = calls(*made) if made else say(f"answer {index}", tokens=3)
        return await ScriptedDriver([played]).infer(request, turn)


CALLS = {
    "look": call("look", at="door", tokens=2),
    "look too": call("look", at="window"),
    "fails": call("fails"),
    "unknown": call("nothing"),
    "invalid": call("pay", amount="much"),
    "look about": call("look"),
    "delegate": call("delegate"),
    "pay": call("pay", amount=5),
}


async def _note_around(ctx: Any, call_next: Any) -> Any:
    """Says something before each step, and counts the steps behind it."""
    said = ctx.state.with_user_message(f"step {ctx.step_number}", by="around")
    made = await call_next(ctx.with_state(said).with_metadata("before", ctx.step_index))
    return made.with_metadata("after", made.state.step_count)


async def _refuse_second(ctx: Any, call_next: Any) -> Any:
    if ctx.step_number == 2:
        return ctx.with_metadata("refused", True)
    return await call_next(ctx)


async def _crash_before(ctx: Any, call_next: Any) -> Any:
    return await call_next(ctx if ctx.step_number != 2 else 1 / 0)


async def _crash_after(ctx: Any, call_next: Any) -> Any:
    made = await call_next(ctx)
    return made if made.step_number != 2 else 1 / 0


async def _repeat(ctx: Any, call_next: Any) -> Any:
    """Makes each step again that has no call, up to the fourth."""
    made = await call_next(ctx)
    while made.step is not None and not made.step.calls and made.state.step_count < 4:
        made = await call_next(made.with_metadata("again", made.state.step_count))
    return made


AROUND: dict[str, Any] = {
    "note": _note_around,
    "refuse": _refuse_second,
    "crash before": _crash_before,
    "crash after": _crash_after,
    "repeat": _repeat,
}
ACTIONS: dict[str, Any] = {
    "watch": lambda ctx, number: None,
    "note": lambda ctx, number: ctx.with_metadata(f"note-{number}", len(ctx.state.metadata)),
    "say": lambda ctx, number: ctx.with_state(
        ctx.state.with_user_message("psst", by=f"hook-{number}")
    ),
    "block": lambda ctx, number: HookOutcome.block("not that") if _is_odd(ctx) else None,
    "ask": lambda ctx, number: HookOutcome.ask("sure?"),
    "forbid": lambda ctx, number: ctx.forbid("enough") if _is_odd(ctx) else None,
    "stop": lambda ctx, number: HookOutcome.stop("now") if _is_odd(ctx) else None,
    "rewrite": lambda ctx, number: (
        ctx.with_args(at="elsewhere") if ctx.tool_call.name == "look" else None
    ),
    "redact": lambda ctx, number: ctx.with_result("***") if ctx.execution.is_success else None,
    "crash": lambda ctx, number: 1 / 0,
    "rescue": lambda ctx, number: ctx.rescue(f"spare {number}") if ctx.can_rescue else None,
    "retry": lambda ctx, number: ctx.retry(1),
    "ignore": lambda ctx, number: ctx.ignore(),
    "refuse": lambda ctx, number: HookOutcome.block("not for us"),
    "end": lambda ctx, number: HookOutcome.stop("not today"),
    "object": lambda ctx, number: (
        HookOutcome.block("go on") if len(ctx.result.state.steps) < 5 else None
    ),
}


def _is_odd(ctx: Any) -> bool:
    return bool(len(ctx.state.steps) % 2)


ANYWHERE = ("watch", "note", "forbid", "stop", "crash")
AT = {
    "execution_start": ("watch", "note", "crash"),
    "prompt_submit": ("note", "refuse", "end", "crash"),
    "before_step": (*ANYWHERE, "say"),
    "before_inference": (*ANYWHERE, "say", "block"),
    "after_inference": (*ANYWHERE, "block", "policy block", "policy stop"),
    "before_tool_use": (*ANYWHERE, "block", "ask", "rewrite"),
    "permission_request": ("watch", "note"),
    "after_tool_use": (*ANYWHERE, "block", "redact", "say", "policy block", "policy stop"),
    "after_step": ("watch", "note", "forbid", "crash"),
    "should_continue": ("watch", "note", "forbid"),
    "stop": ("watch", "note"),
    "error": ("watch", "note", "crash", "rescue", "retry", "ignore"),
    "agent_failed": ("watch", "note"),
    "execution_end": ("watch", "note", "crash"),
    "subagent_start": ("watch", "note", "crash"),
    "subagent_stop": ("watch", "note", "object", "crash"),
}
hooks = st.lists(
    st.sampled_from([(point, action) for point, actions in AT.items() for action in actions]),
    max_size=4,
).map(tuple)
batches = st.lists(
    st.lists(
        st.sampled_from(
            ["look", "look too", "fails", "look about", "unknown", "invalid", "delegate"]
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    min_size=1,
    max_size=3,
).map(tuple)
POLICIES = tuple(action for action in ErrorAction if action is not ErrorAction.RESCUE)
cases = st.builds(
    Case,
    batches,
    hooks,
    st.just((("look",), ())),
    st.sampled_from(POLICIES),
    st.sampled_from(["", *AROUND]),
)


def story_of(result: RunResult) -> Any:
    """The outcome of a run, without what depends on the clock or the number of processes."""
    state = result.state
    steps = [
        (
            step.type,
            step.calls,
            [each.text for each in step.results],
            sorted(step.errors, key=repr),
            step.outcome,
        )
        for step in state.steps
    ]
    counted = (state.counters.steps, state.counters.tool_calls, state.counters.usage)
    last = result.records[-1]
    assert isinstance(last, RunFinished)
    outcome = (
        result.text,
        last.error,
        in_words(result.error) if result.error is not None else None,
    )
    return tuple(state.messages), dict(state.metadata), steps, state.ending, counted, outcome


def children_of(tape: Tape) -> Any:
    """The outcomes of a run's children."""
    run_ids = sorted({record.run_id for record in tape.written} - {"run"})
    states = [fold(tape.records(run_id)).state for run_id in run_ids]
    return [(tuple(state.messages), state.ending) for state in states]


def cut(tape: Tape, at: int) -> Tape:
    """The tape as a process that died there would have left it."""
    return Tape(tape.written[:at])


async def driven(world: World, run: Any) -> RunResult:
    """The result of a run, which is valid and has given its journal back."""
    result: RunResult = await run
    check_transcript(result.state.messages)
    assert not world.tape.claimed
    return result
