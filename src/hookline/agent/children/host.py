"""Child runs: started by a tool, through the same loop, under the policies, limits and cancellation of the tree."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from hookline.agent.approvals import ask_while_running
from hookline.agent.children.child import ChildRun
from hookline.agent.in_progress import CallInProgress
from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.definition import Definition
from hookline.errors import HookError, ToolError, UsageError
from hookline.hooks import Result
from hookline.journal import ChildStarted, Record, ToolProgress
from hookline.lifecycle import HookPoint, SubagentHookContext
from hookline.state import (
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Decision,
    Ending,
    JSONValue,
    PendingApproval,
    RunStatus,
    StopReason,
    ToolCall,
    ToolSpec,
    Usage,
    checked_text,
    freeze,
)
from hookline.tools import ToolContext

_REMEMBERED = 8_000
"""Characters of earlier progress messages that are looked at again: a private key has some thousand."""


class HasDefinition(Protocol):
    """An agent, as far as starting it as a child is concerned."""

    @property
    def definition(self) -> Definition:
        """What it is made of."""
        ...


class ChildWaits(Exception):
    """A child run waits for a person, so the call that started it cannot finish now."""

    def __init__(self, approvals: tuple[PendingApproval, ...]) -> None:
        self.approvals = approvals
        super().__init__("a child run waits for approval; let this exception pass")


class Host:
    """What a tool's context is made of: the run it is in, and its own call."""

    __slots__ = (
        "_asked",
        "_call_again",
        "_idle",
        "_loop",
        "_run",
        "_running",
        "_said",
        "_spawned",
        "waiting",
    )

    def __init__(self, run: Run, current: CallInProgress) -> None:
        self._run = run
        self._call_again = current
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._said = ""
        """The end of what its progress messages said."""
        self._spawned = 0
        self._running = 0
        self._idle: asyncio.Event | None = None
        self.waiting: tuple[PendingApproval, ...] = ()
        """What the children of this call wait for."""

    @property
    def state(self) -> AgentState:
        """The state as it is settled now."""
        return self._run.state

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is to end."""
        return self._run.is_cancelled

    @property
    def depth(self) -> int:
        """How many runs are above this one."""
        return self._run.depth

    @property
    def records(self) -> Sequence[Record]:
        """The run's journal as it is now."""
        return tuple(self._run.durable.records)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """All tools of the agent."""
        return self._run.setup.definition.toolbox.specs

    def progress(self, call: ToolCall, message: JSONValue) -> None:
        """Report how it is going to whoever listens."""
        shown = freeze(message, f"a progress message of tool '{call.name}'")
        self._in_the_loop(self._tell, call, shown)

    def _tell(self, call: ToolCall, shown: JSONValue) -> None:
        run = self._run
        run.clock()
        at = run.at
        if run.setup.redact_content is not None:
            shown = self._without_secrets(shown)
        run.durable.tell(
            ToolProgress(
                run_id=run.run_id,
                seq=len(run.durable.records),
                at=at,
                call_id=call.id,
                name=call.name,
                message=shown,
                step=run.step_index or 0,
            )
        )

    def _without_secrets(self, message: JSONValue) -> JSONValue:
        """A message like a result. A secret may begin in one message and continue in the next."""
        redact = self._run.setup.redact_content
        assert redact is not None
        if not isinstance(message, str):
            return freeze(redact(message))
        said, self._said = self._said, (self._said + message)[-_REMEMBERED:]
        return str(redact(message, said))

    def charge(self, usage: Usage) -> None:
        """Count a model call the tool made itself."""
        if not isinstance(usage, Usage):
            raise UsageError(f"charge takes a Usage, not {usage!r}.")
        if problem := usage.problem():
            raise UsageError(f"a usage to be charged has {problem}.")
        self._in_the_loop(self._run.charge, usage)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this is asked in another thread than the run's, as sync tools do."""
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return True

    def _in_the_loop(self, work: Callable[..., None], *args: Any) -> None:
        """Do this in the run's own thread; from another one it is done in turn, before the tool's result arrives."""
        if not self._is_elsewhere:
            work(*args)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is long over
            self._loop.call_soon_threadsafe(work, *args)

    async def spawn(
        self, call: ToolCall, agent: HasDefinition, prompt: str, name: str = ""
    ) -> RunResult:
        """Start a child run and wait for it."""
        definition = getattr(agent, "definition", None)
        if not isinstance(definition, Definition):
            raise UsageError(
                f"spawn takes an Agent, not {agent!r}.",
                remedy="Build it: AgentBuilder()...build().",
            )
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' called spawn in a thread of its own, where the run cannot be driven.",
                remedy="Make the tool async: `async def`, and `await context.spawn(...)`.",
            )
        self._spawned += 1
        key = f"{call.id}/{self._spawned}"
        prompt, name = checked_text(prompt, "the prompt"), checked_text(name, "the child's name")
        self._idle = self._idle or asyncio.Event()
        self._running += 1
        try:
            result = await start_child(self._run, self._call_again, key, definition, prompt, name)
        except HookError as error:
            self._call_again.failed_hook = error
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
        if result.status is not RunStatus.PAUSED:
            return result
        self.waiting += result.state.pending
        while self._running:  # children beside this one get as far as they can: none is left behind
            self._idle.clear()
            await self._idle.wait()
        raise ChildWaits(self.waiting)

    async def ask(self, call: ToolCall, question: ToolCall, reason: str, asked_by: str) -> Decision:
        """Ask whoever approves for this run."""
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' asked in a thread of its own, where the run's hooks cannot be.",
                remedy="Make the tool async: `async def`, and `await context.ask(...)`.",
            )
        self._asked += 1
        numbered = ToolCall(f"{call.id}/ask-{self._asked}", question.name, question.args)
        return await ask_while_running(self._run, numbered, reason, asked_by)


async def use_in_context(
    run: Run, current: CallInProgress, use: Callable[[ToolContext], Awaitable[Any]]
) -> Any:
    """Use a tool that takes a context: it knows where it runs, and may start children."""
    host = Host(run, current)
    current.failed_hook = None
    call = current.exact
    context = ToolContext(host, call, f"{run.run_id}/{run.step_index}/{call.id}")
    value = None
    try:
        value = await use(context)
    except Exception:
        if not (host.waiting or current.failed_hook):
            raise
    # Whatever the tool made of it: a hook has failed, or its children are not done.
    if current.failed_hook is not None:
        raise current.failed_hook
    if host.waiting:
        raise ChildWaits(host.waiting)
    return value


async def start_child(
    run: Run, current: CallInProgress, key: str, definition: Definition, prompt: str, name: str
) -> RunResult:
    """Run a child on behalf of a call, or of a hook, whose key is its own."""
    child_id = f"{run.run_id}/{run.step_index}/{key}"
    saved = current.children.get(key)
    if saved is not None and saved.status is not RunStatus.PAUSED:
        return saved  # this call is being taken up again, and this child was done
    objections = current.objections.get(key, 0)
    start = run.context(
        HookPoint.SUBAGENT_START,
        name=name or definition.agent_id,
        child_agent_id=definition.agent_id,
        child_run_id=child_id,
        prompt=prompt,
    )
    if saved is None:
        start = await _ask_to_start(run, key, start)
        run.append(
            ChildStarted(
                *run.head(), child_run_id=child_id, name=start.name, call_id=current.call.id
            )
        )
        await _commit(run)  # or nobody would know whose child it is, should the process die
    child = ChildRun(run, definition, key, start.name, current.call.id, objections)
    try:
        result = await child.begin(child_id, saved, start.prompt)
        for _ in range(objections, child.objections):
            await _object_again(run, key, start, result)
        result = await _ask_to_stop(run, child, start, result)
    finally:
        child.close()
    current.children = {**current.children, key: result}
    current.objections = {**current.objections, key: child.objections}
    if result.status is not RunStatus.PAUSED:
        child.finish(result.state, result.status, result.text)
    return result


async def _commit(run: Run) -> None:
    """Wait until what led to a child's work is safe: the child writes a record of its own, which may be ahead."""
    if run.commit is not None and run.has_begun:
        await run.commit()


async def _ask_to_start(run: Run, key: str, ctx: SubagentHookContext) -> SubagentHookContext:
    plan = run.plans.subagent_start
    if plan is None:
        return ctx
    async with run.hook_lock:  # other calls are running, and may start children too
        # Only now: hooks of other calls may have said something while this one waited for its turn.
        ctx = msgspec.structs.replace(ctx, state=run.state, evaluations=run.evaluations)
        result: Result[Any] = await run.ask(plan, ctx, about=key)
    if result.is_blocked or result.is_stopped:
        raise ToolError(f"the subagent was not started: {result.reason}")
    return result.context  # type: ignore[no-any-return]


def _to_show(run: Run, start: SubagentHookContext, result: RunResult) -> SubagentHookContext:
    return msgspec.structs.replace(
        start,
        point=HookPoint.SUBAGENT_STOP,
        state=run.state,
        evaluations=run.evaluations,
        result=result,
        continuation=result.outcome,
    )


async def _object_again(run: Run, key: str, start: SubagentHookContext, result: RunResult) -> None:
    """Hooks objected to an earlier end, before a process died: those on record say so again, and nobody is asked."""
    plan = run.plans.subagent_stop
    if plan is not None:
        async with run.hook_lock:
            await run.repeat(plan, _to_show(run, start, result), key)


async def _ask_to_stop(
    run: Run, child: ChildRun, start: SubagentHookContext, result: RunResult
) -> RunResult:
    """Show the parent's hooks what the child came back with. They may send it back to work, so often and no more."""
    plan = run.plans.subagent_stop
    if plan is None:
        return result
    while result.status is not RunStatus.PAUSED:
        try:
            async with run.hook_lock:
                asked = await run.ask(plan, _to_show(run, start, result), about=child.key)
            if asked.is_blocked:
                await _commit(run)  # or nobody would know who sent it back, should the process die
        except BaseException:
            child.finish(result.state, result.status, "")  # no hook has cleared what it says
            raise
        result = asked.context.result
        # Like a stop hook: it may object to an ordinary end, and never to a guard's.
        ordinary = result.status is RunStatus.COMPLETED
        if not (asked.is_blocked and ordinary):
            return result
        if child.objections >= run.setup.definition.max_objections:
            return _refused(result, asked, child.objections)
        child.objections += 1
        result = await child.drive(result.state, asked.reason)
    return result


def _refused(result: RunResult, asked: Result[Any], times: int) -> RunResult:
    """What a child came back with when hooks object still, and it is not sent back again: no end that they take."""
    cap = (
        f"subagent_stop hooks objected {times} times, which is the limit; the last: {asked.reason}"
    )
    forbid = ContinuationEvaluation(
        source=asked.decided_by,
        decision=ContinuationDecision.FORBID_CONTINUATION,
        reason=cap,
        stop_reason=StopReason.OBJECTION_LIMIT,
    )
    ending = Ending(
        status=RunStatus.STOPPED,
        stop_reason=StopReason.OBJECTION_LIMIT,
        reason=cap,
        decided_by=asked.decided_by,
    )
    return msgspec.structs.replace(
        result,
        state=msgspec.structs.replace(result.state, ending=ending),
        status=RunStatus.STOPPED,
        stop_reason=StopReason.OBJECTION_LIMIT,
        outcome=ContinuationOutcome.from_evaluations((forbid,)),
    )
