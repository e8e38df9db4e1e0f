"""Agents of any kind, and a store that keeps what they record: for the tests of replay and back-test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from hypothesis import strategies as st
from plain_inbox import PlainInbox, done_future

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    ErrorPolicy,
    HookOutcome,
    RunResult,
    RunStatus,
    ToolContext,
    tool,
)
from hookline.errors import RateLimitError, UnknownRunError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import (
    EarlierRun,
    JournalStore,
    Record,
    RunInfo,
    RunStarted,
    StatusChanged,
    decode,
    encode,
)
from hookline.state import InferenceResponse, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class Tape(PlainInbox):
    """A store in memory. What is read from it has been JSON, like what is read from a disk."""

    def __init__(self, batches: Sequence[tuple[str, list[bytes]]] = ()) -> None:
        self.batches: list[tuple[str, list[bytes]]] = []
        self.lines: dict[str, list[bytes]] = {}
        self.claims = 0
        for run_id, lines in batches:
            self.write(run_id, lines)

    def write(self, run_id: str, lines: list[bytes]) -> None:
        self.batches.append((run_id, lines))
        self.lines.setdefault(run_id, []).extend(lines)

    def cut(self, at: int) -> Tape:
        """The tape as a process that died after so many batches would have left it."""
        return Tape(self.batches[:at])

    async def claim(self, run_id: str) -> Any:
        self.claims += 1
        return TapeClaim(self, run_id)

    def records(self, run_id: str) -> list[Record]:
        if run_id not in self.lines:
            raise UnknownRunError(f"there is no run '{run_id}' in the journal.")
        return [decode(line) for line in self.lines[run_id]]

    async def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        lines = self.lines[run_id][:records]
        return EarlierRun(run_id, len(lines), str(hash(tuple(lines))))

    async def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        assert await self.refer(earlier.run_id, earlier.records) == earlier
        return self.records(earlier.run_id)[: earlier.records]

    async def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        found = [self._info(run_id) for run_id in reversed(self.lines)]
        kept = [
            info
            for info in found
            if session_id in (None, info.session_id) and status in (None, info.status)
        ]
        return kept[:limit]

    def _info(self, run_id: str) -> RunInfo:
        records = self.records(run_id)
        started = records[0]
        assert isinstance(started, RunStarted)
        ends = [each.status for each in records if isinstance(each, StatusChanged)]
        return RunInfo(
            run_id=run_id,
            session_id=started.session_id,
            agent_id=started.agent_id,
            parent_run_id=started.parent_run_id,
            status=ends[-1] if ends else RunStatus.RUNNING,
            started_at=started.at,
        )


class TapeClaim(NamedTuple):
    tape: Tape
    run_id: str
    steps_before_loss = None

    def write(self, records: Sequence[Record]) -> Future[None]:
        self.tape.write(self.run_id, [encode(record) for record in records])
        return done_future()

    def give_back(self) -> Future[None]:
        return done_future()


class Case(NamedTuple):
    """A script, by step; hooks, each a point and what it does; how questions are answered."""

    script: tuple[tuple[str, ...], ...]
    hooks: tuple[tuple[str, str], ...] = ()
    child: tuple[tuple[str, ...], ...] = (("look",), ())
    child_hooks: tuple[tuple[str, str], ...] = ()
    approver: str = "yes"


class World:
    """The agents of a case. What their tools and models did is kept."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.used: list[str] = []
        self.asked = 0

    def child(self) -> Agent:
        """The child's agent."""
        builder = self._builder("child", self.case.child)
        return self._hooked(builder, self.case.child_hooks, "child-hook").build()

    def builder(self) -> AgentBuilder:
        """The agent, before it is built."""
        inner = self.child()

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            self.used.append("delegate")
            first = await context.spawn(inner, "task", name="helper")
            return f"{first.text} {first.status}"

        builder = self._builder("agent", self.case.script).with_tools(delegate)
        approver = APPROVERS[self.case.approver]
        if approver is not None:
            builder.with_approver(approver)
        return self._hooked(builder, self.case.hooks, "hook")

    def agent(self, journal: JournalStore | None = None) -> Agent:
        """The agent."""
        builder = self.builder()
        return (builder if journal is None else builder.with_journal(journal)).build()

    def _hooked(
        self, builder: AgentBuilder, hooks: tuple[tuple[str, str], ...], name: str
    ) -> AgentBuilder:
        for number, (point, action) in enumerate(hooks):
            tier = "policy" if action.startswith("policy ") else "hook"
            made = hook_of(point, action.removeprefix("policy "), number)
            builder.add_hook(point, made, name=f"{name}-{number}", tier=tier)
        return builder

    def _builder(self, name: str, script: tuple[tuple[str, ...], ...]) -> AgentBuilder:
        @tool(effect="pure")
        async def look(at: str = "") -> str:
            """Look."""
            self.used.append("look")
            return f"seen {at}"

        @tool(effect="pure")
        async def fails(context: ToolContext, times: int = 9) -> str:
            """Fail so often."""
            self.used.append("fails")
            if self.used.count("fails") % 10 <= times:
                raise ValueError("no such luck")
            return "at last"

        @tool
        async def pay(context: ToolContext, amount: int) -> str:
            """Pay."""
            self.used.append("pay")
            context.charge(Usage(output_tokens=11, requests=1))
            return f"paid {amount}"

        actions = dict.fromkeys(ErrorClass, ErrorAction.IGNORE)
        retried = {ErrorClass.TOOL: ErrorAction.RETRY, ErrorClass.RATE_LIMIT: ErrorAction.RETRY}
        policy = ErrorPolicy(actions={**actions, **retried}, max_retries=2)
        return (
            AgentBuilder()
            .with_id(name)
            .with_driver(ByStep(self, script))
            .with_tools(look, fails, pay)
            .with_error_policy(policy)
            .with_limits(steps=12, tokens=500)
            .with_clock(FakeClock())
        )


class ByStep:
    """A model that answers by how far the conversation is, as a real one would."""

    def __init__(self, world: World, script: tuple[tuple[str, ...], ...]) -> None:
        self.world = world
        self.script = script

    async def infer(self, request: Any, turn: Any) -> InferenceResponse:
        self.world.asked += 1
        index = turn.state.step_count
        names = self.script[index] if index < len(self.script) else ()
        if "busy" in names and turn.asked < 2:
            raise RateLimitError("slow down", retry_after=3.0)
        if "broken" in names:
            raise ValueError("the model is broken")
        made = [CALLS[name] for name in names if name in CALLS]
        played = calls(*made) if made else say(f"answer {index}", tokens=3)
        return await ScriptedDriver([played]).infer(request, turn)


CALLS = {
    "look": call("look", at="door", tokens=2),
    "look too": call("look", at="window"),
    "look about": call("look"),
    "fails": call("fails"),
    "fails once": call("fails", times=1),
    "unknown": call("nothing"),
    "invalid": call("pay", amount="much"),
    "delegate": call("delegate"),
    "pay": call("pay", amount=5),
}


def _is_odd(ctx: Any) -> bool:
    return bool(len(ctx.state.steps) % 2)


class Wrapping:
    """Middleware that notes something before the rest, and after it."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def handle(self, ctx: Any, next: Any) -> Any:
        result = await next(ctx.with_metadata(f"before-{self.number}", len(ctx.state.metadata)))
        return result.context.with_metadata(f"after-{self.number}", len(ctx.state.metadata))


async def _shout(ctx: Any, call_next: Any) -> Any:
    result = await call_next(ctx)
    if isinstance(result, InferenceResponse):
        return result.with_text(result.text + "!")
    return result.with_result(f"{result.result}!") if result.is_success else result


async def _mark(ctx: Any, call_next: Any) -> Any:
    made = await call_next(ctx.with_metadata("begun", ctx.step_index))
    return made.with_metadata("made", ctx.step_index) if _is_odd(made) else made


async def _break(ctx: Any, call_next: Any) -> Any:
    await call_next(ctx)
    raise ValueError("broken")


async def _refuse(ctx: Any, call_next: Any) -> Any:
    raise ValueError("refused")


AROUND = {"shout": _shout, "mark": _mark, "break": _break, "refuse": _refuse}
ACTIONS: dict[str, Callable[[Any, int], Any]] = {
    "watch": lambda ctx, number: None,
    "note": lambda ctx, number: ctx.with_metadata(f"note-{number}", len(ctx.state.metadata)),
    "say": lambda ctx, number: ctx.with_state(
        ctx.state.with_user_message("psst", by=f"hook-{number}")
    ),
    "block": lambda ctx, number: HookOutcome.block("not that") if _is_odd(ctx) else None,
    "heed": lambda ctx, number: (
        HookOutcome.block("not now") if len(ctx.state.metadata) % 3 == 1 else None
    ),
    "ask": lambda ctx, number: HookOutcome.ask("sure?"),
    "allow": lambda ctx, number: HookOutcome.allow("fine"),
    "forbid": lambda ctx, number: ctx.forbid("enough") if _is_odd(ctx) else None,
    "stop": lambda ctx, number: HookOutcome.stop("now") if _is_odd(ctx) else None,
    "more": lambda ctx, number: ctx.request_continue("more") if len(ctx.state.steps) < 4 else None,
    "object": lambda ctx, number: HookOutcome.block("go on") if len(ctx.state.steps) < 4 else None,
    "rewrite": lambda ctx, number: (
        ctx.with_args(at="elsewhere") if ctx.tool_call.name == "look" else None
    ),
    "supply": lambda ctx, number: ctx.with_result("made up") if _is_odd(ctx) else None,
    "redact": lambda ctx, number: (
        ctx.with_result(f"<{ctx.execution.result}>") if ctx.execution.is_success else None
    ),
    "colour": lambda ctx, number: ctx.with_response(
        ctx.response.with_text(f"{ctx.response.text}?")
    ),
    "answer": lambda ctx, number: ctx.with_response("mine") if _is_odd(ctx) else None,
    "system": lambda ctx, number: ctx.with_request(ctx.request.with_system("be good")),
    "edit": lambda ctx, number: Decision.edit(at="there") if ctx.tool_call.name == "look" else None,
    "deny": lambda ctx, number: Decision.deny("no") if _is_odd(ctx) else None,
    "reword": lambda ctx, number: ctx.with_prompt(f"{ctx.prompt}, please"),
    "polish": lambda ctx, number: ctx.with_output(f"{ctx.output}."),
    "charge": lambda ctx, number: ctx.run.charge(Usage(output_tokens=7, requests=1)),
    "crash": lambda ctx, number: 1 / 0,
    "mumble": lambda ctx, number: 17,
}


def hook_of(point: str, action: str, number: int) -> Any:
    """A hook that does this."""
    if action == "wrap":
        return Wrapping(number)
    if action in AROUND:
        return AROUND[action]
    act = ACTIONS[action]
    return lambda ctx: act(ctx, number)


ANYWHERE = ("watch", "note", "charge", "forbid", "stop", "crash", "mumble", "wrap")
AT = {
    "session_start": ("watch", "note"),
    "execution_start": ("watch", "note", "crash"),
    "prompt_submit": ("note", "reword", "block", "crash"),
    "around_step": ("mark",),
    "before_step": ANYWHERE,
    "before_inference": (*ANYWHERE, "heed", "say", "block", "answer", "system"),
    "around_inference": ("shout", "break", "refuse"),
    "after_inference": (*ANYWHERE, "block", "colour", "policy block", "policy stop"),
    "before_tool_use": (
        *ANYWHERE,
        "block",
        "heed",
        "ask",
        "allow",
        "rewrite",
        "supply",
        "policy block",
        "policy ask",
    ),
    "permission_request": ("watch", "note", "edit", "deny", "crash"),
    "around_tool_use": ("shout", "refuse"),
    "after_tool_use": (*ANYWHERE, "block", "redact", "say", "policy block", "policy stop"),
    "after_step": ("watch", "note", "forbid", "crash", "say"),
    "should_continue": ("watch", "note", "forbid", "more"),
    "stop": ("watch", "note", "object"),
    "output": ("polish", "block", "watch"),
    "execution_end": ("watch", "note", "charge"),
    "error": ("watch", "note", "forbid"),
    "subagent_start": ("watch", "reword"),
    "subagent_stop": ("watch", "object", "crash"),
}
APPROVERS: dict[str, Any] = {
    "yes": lambda question: True,
    "no": lambda question: False,
    "edit": lambda question: (
        Decision.edit(at="a person's") if question.tool_call.name == "look" else Decision.allow()
    ),
    "remember": lambda question: Decision.allow(remember=True),
    "nobody": None,
}

hooks = st.lists(
    st.sampled_from([(point, action) for point, actions in AT.items() for action in actions]),
    max_size=4,
).map(tuple)
batches = st.lists(
    st.lists(st.sampled_from(["busy", "broken", *CALLS]), min_size=1, max_size=3).map(tuple),
    min_size=1,
    max_size=3,
).map(tuple)
cases = st.builds(Case, batches, hooks, batches, hooks, st.sampled_from(sorted(APPROVERS)))


async def recorded(case: Case, run_id: str = "run", tape: Tape | None = None) -> tuple[Tape, World]:
    """A run of a case, with every question it stopped for answered, each another way."""
    tape = tape or Tape()
    world = World(case)
    result: RunResult = await world.agent(tape).run("go", run_id=run_id)
    answers = [Decision.allow(), Decision.deny("no, thanks"), Decision.edit()]
    for number in range(20):
        if result.status is not RunStatus.PAUSED:
            break
        first = result.pending[0]
        result = await world.agent(tape).resume(run_id, {first.id: answers[number % 3]})
    return tape, world
