"""What hooks may have done: ask a model, run another agent, ask whether history may be summarised.

All of it is on record and paid for by the run. A resumed run does none of it twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from hookline.agent.checks import check_response
from hookline.agent.children import HasDefinition, recorded_child, start_child
from hookline.agent.error_handling import ask_policy, stop_if_too_late
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import result_without
from hookline.agent.run import Run
from hookline.definition import Definition
from hookline.drivers import Driver
from hookline.drivers.base import awaitable
from hookline.errors import ModelError, UsageError
from hookline.flow import ErrorAction, classify
from hookline.hooks import Result, run_hooks
from hookline.journal import ModelConsulted
from hookline.lifecycle import AgentContext, CompactHookContext, HookPoint
from hookline.state import (
    AgentState,
    InferenceRequest,
    InferenceResponse,
    Message,
    RunStatus,
    ToolCall,
    Usage,
    checked_text,
)

C = TypeVar("C", bound=AgentContext)


class HookServices:
    """What the hooks of one run may have done. They reach it as `ctx.run`."""

    __slots__ = ("_run", "_times")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._times: dict[tuple[int | None, str], int] = {}

    def _next(self, name: str) -> int:
        """How often this was done under that name in this step, in this process."""
        if not (isinstance(name, str) and name):
            raise UsageError(f"name= takes a text that is not empty, not {name!r}.")
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
                response = await awaitable(driver, driver.infer(request, QuietTurn(run)))
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

    async def spawn(self, ctx: C, agent: HasDefinition, prompt: str, name: str) -> tuple[C, Any]:
        """Run an agent as a child of this run. Gives the context with what hooks around the child said, and its result.

        It cannot wait for a person: a child that needs an answer nobody gives now is an error.
        """
        run = self._run
        definition = getattr(agent, "definition", None)
        if not isinstance(definition, Definition):
            raise UsageError(f"spawn takes an Agent, not {agent!r}.")
        prompt, name = checked_text(prompt, "the prompt"), checked_text(name, "the child's name")
        self._next(name)
        key = run.source.child_key(run, f"{name}/{_digest(run, prompt)}")
        current = CallInProgress(ToolCall(key, name), ToolCall(key, name))
        child_id = f"{run.run_id}/{run.step_index}/{key}"
        if child_id in run.source.known.ended_children:
            return ctx, await recorded_child(run, definition, child_id)
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


def provide_services(run: Run) -> None:
    """Let the hooks of a run use these services. Until it is driven they cannot."""
    run.make_services = HookServices


def _digest(run: Run, asked: Any) -> str:
    """What names a question: asked again, about the same call, it is owed the same answer; another one is not."""
    content = msgspec.json.encode((run.call_id, asked), enc_hook=list)
    if (
        run.setup.redact is not None
    ):  # a secret in it could be guessed from the hash, which is on record
        content = run.setup.redact(content.decode()).encode()
    return hashlib.sha256(content).hexdigest()[:12]


class QuietTurn:
    """A turn that nobody reads along with."""

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
