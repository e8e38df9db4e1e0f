"""What hooks (`ctx.run`) and tools (`ToolContext`) may have their run do.

They may ask a model or a person, run another agent, report progress, charge what they used. All of it is on record, and
a resumed run does none of it twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from hookline.agent.approvals import ask_while_running
from hookline.agent.checks import check_response
from hookline.agent.children import AgentLike, ChildPaused, read_child_result, start_child
from hookline.agent.error_handling import ask_policy, stop_if_too_late
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import result_without
from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.agent.run_index import MADE_AGAIN, OUTSIDE_STEPS
from hookline.definition import Definition
from hookline.drivers import Driver
from hookline.drivers.base import awaitable
from hookline.errors import HookError, ModelError, UsageError
from hookline.flow import ErrorAction, classify
from hookline.hooks import Result, run_hooks
from hookline.journal import (
    EffectStarted,
    ModelConsulted,
    Record,
    RunQueued,
    RunStarted,
    ToolProgress,
)
from hookline.lifecycle import AgentContext, CompactHookContext, HookPoint
from hookline.state import (
    AgentState,
    Decision,
    InferenceRequest,
    InferenceResponse,
    JSONValue,
    Message,
    PendingApproval,
    RunStatus,
    ToolCall,
    ToolSpec,
    Usage,
    checked_text,
    freeze,
)
from hookline.tools import ToolContext

C = TypeVar("C", bound=AgentContext)


class HookServices:
    """What the hooks of one run may have done. They reach it as `ctx.run`."""

    __slots__ = ("_effects", "_run", "_times")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._effects = {
            _key_of(each) for each in run.durable.records if isinstance(each, EffectStarted)
        }
        self._times: dict[tuple[int | None, str], int] = {}

    def _next(self, name: str) -> int:
        """How often this was done under that name in this step, in this process."""
        _check_name(name)
        key = self._run.step_index, name
        self._times[key] = number = self._times.get(key, 0) + 1
        return number

    # --- a model --------------------------------------------------------------------------------------

    async def ask_model(
        self, request: InferenceRequest, name: str, driver: Driver | None
    ) -> InferenceResponse:
        """Ask a model, the agent's own unless another is given. Failures are tried again as the error policy says."""
        run = self._run
        number, digest = self._next(name), _digest(run, request)
        known = await run.source.consultation(run, name, digest)
        if known is not None:
            return known
        driver = driver or run.setup.definition.driver
        if driver is None:
            raise ModelError(
                "there is no model to ask.",
                remedy="Give the agent one, or the hook one of its own.",
            )
        response = await self._infer(driver, request)
        run.charge(response.usage)
        run.clock()
        run.append(
            ModelConsulted(
                *run.record_head(),
                name=name,
                number=number,
                response=response,
                step=run.step_index,
                digest=digest,
            )
        )
        if run.commit is not None and run.has_begun:
            run.durable.flush()
        return response

    async def _infer(self, driver: Driver, request: InferenceRequest) -> InferenceResponse:
        run = self._run
        failures = 0
        while True:
            try:
                response = await awaitable(driver, driver.infer(request, UnstreamedTurn(run)))
                return check_response(response, f"the driver ({type(driver).__qualname__})")
            except Exception as error:
                failures += 1  # the hook deals with it, so the run does not count it as its own
                decision = ask_policy(run, error, classify(error), failures, "")
                if decision.action is ErrorAction.RETRY:
                    decision = stop_if_too_late(run, error, decision)
                if decision.action is not ErrorAction.RETRY:
                    raise
            await run.sleep(decision.delay)

    # --- another agent --------------------------------------------------------------------------------

    async def spawn(self, ctx: C, agent: AgentLike, prompt: str, name: str) -> tuple[C, Any]:
        """Run an agent as a child of this run. Gives the context with what hooks around the child said, and its result.

        It cannot wait for a person: a child that needs an answer nobody gives now is an error.
        """
        run = self._run
        definition, prompt, name = _check_child(agent, prompt, name)
        self._next(name)
        key = run.source.child_key(run, f"{name}/{_digest(run, prompt)}")
        current = CallInProgress(ToolCall(key, name), ToolCall(key, name))
        child_id = f"{run.run_id}/{run.step_index}/{key}"
        if child_id in run.source.known.ended_children:
            return ctx, await read_child_result(run, definition, child_id)
        definition = run.source.child_definition(run, definition, child_id, name)
        before = run.evaluations
        result = await start_child(run, current, key, definition, prompt, name)
        said = run.evaluations[len(before) :]
        run.replace_evaluations(before)  # they go the way of the hook's own
        if result.status is RunStatus.PAUSED:
            raise UsageError(
                f"the agent '{name}' that a hook runs waits for an approval, and a hook cannot wait.",
                remedy="Give that agent an approver, or tools that need no approval.",
            )
        return msgspec.structs.replace(ctx, evaluations=(*ctx.evaluations, *said)), result

    # --- what must not be done twice ------------------------------------------------------------------

    async def start_once(self, ctx: AgentContext, name: str) -> bool:
        """Whether something was not started yet at this place; if so its start is recorded, and committed.

        In a new run that nobody takes up if it dies now, it is committed when the run begins.
        What is not on record after a loss may have been started: calls are in doubt then, too.
        """
        run = self._run
        _check_name(name)
        call = getattr(ctx, "tool_call", None)
        run.clock()
        started = EffectStarted(
            run.run_id,
            len(run.durable.records),
            run.at,
            point=ctx.point.value,
            name=name,
            step=_step_of_effect(run, ctx.point),
            call_id=call.id if call is not None else run.call_id,
            status_before=_status_before(run) if run.is_beginning else None,
        )
        key = _key_of(run.durable.as_written(started))
        if run.source.is_replay or run.durable.is_after_loss or key in self._effects:
            return False
        self._effects.add(key)
        run.append(msgspec.structs.replace(started, seq=next(run.numbers)))
        if run.commit is not None and not (run.is_beginning and _is_new(run)):
            await run.commit()
        return True

    # --- summaries ------------------------------------------------------------------------------------

    async def before_compact(
        self, ctx: AgentContext, messages: Sequence[Message], instructions: str
    ) -> Result[CompactHookContext]:
        """Ask the before_compact hooks. What they change is in the result: it is for the caller to hand on."""
        run = self._run
        asked = CompactHookContext(
            point=HookPoint.BEFORE_COMPACT,
            state=ctx.state,
            evaluations=ctx.evaluations,
            live=run,
            messages=messages,
            instructions=instructions,
        )
        plan = run.plans.before_compact
        if plan is None:
            return Result(asked)
        result = await run_hooks(run.source.hooks(run, plan, asked), asked, run, run.settle)
        return result if run.setup.redact is None else result_without(result, run.setup.redact)


def _step_of_effect(run: Run, point: str) -> int | None:
    """The step that something belongs to that a hook starts, as every process would say it.

    A hook around a step that makes several is one: after a crash in a later one it begins again around that.
    """
    if point in OUTSIDE_STEPS:
        return None
    index = run.step_index
    if point == HookPoint.AROUND_STEP and index is not None:
        for step in reversed(run.state.steps):
            if step.index == index:
                continue  # it is not over
            is_before = step.index == index - 1  # else it is of another run
            if not is_before or step.outcome is None or step.outcome.reason != MADE_AGAIN:
                break
            index = step.index
    return index


def _key_of(effect: EffectStarted) -> tuple[str, str, int | None, str]:
    """As it is on record: the name may have been redacted.

    It is the same before and after a pause. A process may die between the pause of a child and that of its parent, and
    then the child's hooks are asked again though nobody has answered.
    """
    return effect.point, effect.name, effect.step, effect.call_id


def _status_before(run: Run) -> RunStatus:
    """What a run is that is about to begin, or to continue after a pause."""
    if run.is_resumed:
        return RunStatus.PAUSED
    is_queued = isinstance(run.durable.records[0], RunQueued)
    return RunStatus.QUEUED if is_queued else RunStatus.RUNNING


def _is_new(run: Run) -> bool:
    """Whether nobody takes up a run that is about to begin: it was not submitted, has not paused, and has no parent."""
    return (
        run.parent is None and isinstance(run.durable.records[0], RunStarted) and not run.is_resumed
    )


def provide_services(run: Run) -> None:
    """Let the hooks of a run use these services. Until it is driven they cannot."""
    run.make_services = HookServices


def _check_name(name: object) -> None:
    if not (isinstance(name, str) and name):
        raise UsageError(f"name= takes a text that is not empty, not {name!r}.")


def _check_child(agent: AgentLike, prompt: str, name: str) -> tuple[Definition, str, str]:
    """What a child run is made of, its prompt and its name; refuses what is none."""
    definition = getattr(agent, "definition", None)
    if not isinstance(definition, Definition):
        raise UsageError(
            f"spawn takes an Agent, not {agent!r}.", remedy="Build it: AgentBuilder()...build()."
        )
    return definition, checked_text(prompt, "the prompt"), checked_text(name, "the child's name")


def _digest(run: Run, asked: Any) -> str:
    """What names a question: asked again, about the same call, it is owed the same answer; another one is not."""
    content = msgspec.json.encode((run.call_id, asked), enc_hook=list)
    if (
        run.setup.redact is not None
    ):  # a secret in it could be guessed from the hash, which is on record
        content = run.setup.redact(content.decode()).encode()
    return hashlib.sha256(content).hexdigest()[:12]


class UnstreamedTurn:
    """A turn of the model whose pieces are not streamed to anybody."""

    __slots__ = ("_run",)
    is_streamed = False

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def state(self) -> AgentState:
        """The state as it is settled now."""
        return self._run.state

    def emit_text(self, text: str) -> None:
        """Nobody hears it."""

    def emit_reasoning(self, text: str) -> None:
        """Nobody hears it."""

    def emit_call(self, call_id: str, name: str, arguments: str) -> None:
        """Nobody hears it."""

    async def keep_pace(self) -> None:
        """There is nobody to wait for."""

    def charge(self, usage: Usage) -> None:
        """It is paid for all the same."""
        self._run.charge(usage)

    def record_fallback(self, error: Exception, reason: str) -> None:
        """The answer tells which model gave it."""


# --- for tools ---------------------------------------------------------------------------------------


_REMEMBERED = 8_000
"""Characters of earlier progress messages that are looked at again: a private key has some thousand."""
_MOST_FIELDS = 64
"""Fields of messages that are remembered; a tool that names its fields anew each time must not fill the memory."""


class CallContext(ToolContext):
    """What a tool may see and do in the run that its call is in."""

    __slots__ = (
        "_asked",
        "_current",
        "_idle",
        "_loop",
        "_run",
        "_running",
        "_said",
        "_spawned",
        "waiting",
    )

    def __init__(self, run: Run, current: CallInProgress) -> None:
        call = current.exact
        super().__init__(call, f"{run.run_id}/{run.step_index}/{call.id}")
        self._run = run
        self._current = current
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._said: dict[str, str] = {}
        """The end of what its progress messages said, by field; under no name for messages that are texts."""
        self._spawned = 0
        self._running = 0
        self._idle: asyncio.Event | None = None
        self.waiting: tuple[PendingApproval, ...] = ()
        """What the children of this call wait for."""

    @property
    def state(self) -> AgentState:
        return self._run.state

    @property
    def is_cancelled(self) -> bool:
        return self._run.is_cancelled

    @property
    def depth(self) -> int:
        return self._run.depth

    @property
    def journal(self) -> Sequence[Record]:
        return tuple(self._run.durable.records)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._run.setup.definition.toolbox.specs

    def progress(self, message: JSONValue) -> None:
        shown = freeze(message, f"a progress message of tool '{self.call.name}'")
        self._in_the_loop(self._tell, shown)

    def _tell(self, shown: JSONValue) -> None:
        run, call = self._run, self.call
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
        if isinstance(message, str):
            return self._redact_rest("", message, message)
        shown = redact(message)
        if isinstance(message, Mapping):
            shown = {
                name: self._redact_rest(name, message.get(name, ""), each)
                if isinstance(each, str)
                else each
                for name, each in shown.items()
            }
        return freeze(shown)

    def _redact_rest(self, field: str, message: JSONValue, shown: str) -> str:
        """A text without the rest of a secret that began in the messages before it."""
        redact = self._run.setup.redact_content
        assert redact is not None
        if field not in self._said and len(self._said) >= _MOST_FIELDS:
            self._said.clear()
        said = self._said.get(field, "")
        self._said[field] = f"{said}{message}"[-_REMEMBERED:]
        return str(redact(shown, said))

    def charge(self, usage: Usage) -> None:
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

    async def spawn(self, agent: AgentLike, prompt: str, *, name: str = "") -> RunResult:
        call = self.call
        definition, prompt, name = _check_child(agent, prompt, name)
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' called spawn in a thread, but spawn works only in the run's event loop.",
                remedy="Make the tool async: `async def`, and `await context.spawn(...)`.",
            )
        self._spawned += 1
        key = f"{call.id}/{self._spawned}"
        self._idle = self._idle or asyncio.Event()
        self._running += 1
        try:
            result = await start_child(self._run, self._current, key, definition, prompt, name)
        except HookError as error:
            self._current.failed_hook = error
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
        raise ChildPaused(self.waiting)

    async def ask(self, question: ToolCall, reason: str, *, asked_by: str = "") -> Decision:
        call = self.call
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' called ask in a thread, but ask works only in the run's event loop.",
                remedy="Make the tool async: `async def`, and `await context.ask(...)`.",
            )
        self._asked += 1
        numbered = ToolCall(f"{call.id}/ask-{self._asked}", question.name, question.args)
        return await ask_while_running(self._run, numbered, reason, asked_by or call.name)


async def use_in_context(
    run: Run, current: CallInProgress, use: Callable[[ToolContext], Awaitable[Any]]
) -> Any:
    """Use a tool that takes a context: it knows where it runs, and may start children."""
    current.failed_hook = None
    context = CallContext(run, current)
    value = None
    try:
        value = await use(context)
    except Exception:
        if not (context.waiting or current.failed_hook):
            raise
    # Whatever the tool made of it: a hook has failed, or its children are not done.
    if current.failed_hook is not None:
        raise current.failed_hook
    if context.waiting:
        raise ChildPaused(context.waiting)
    return value
