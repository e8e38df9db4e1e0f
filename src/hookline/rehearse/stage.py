"""Playing a recorded run: the one loop, with a model and tools that give what they gave.

The hooks are whoever the cast says: those of an agent, or stand-ins that say what is on record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from hookline.agent import RunResult
from hookline.agent.children import ChildWaits
from hookline.agent.loop import drive
from hookline.agent.run import Run
from hookline.blueprint import Definition, Plans
from hookline.drivers import Turn
from hookline.errors import HookError, ToolError, UnknownRunError
from hookline.hooks import Plan, Registration
from hookline.journal import Durable, Record, StepFinished
from hookline.lifecycle import HookPoint
from hookline.rehearse.past_errors import past_error
from hookline.rehearse.playing import PlayedClock, Playing, Unwritten
from hookline.rehearse.props import leave
from hookline.rehearse.recording import Part, Recording, Use
from hookline.state import (
    AgentState,
    InferenceRequest,
    InferenceResponse,
    PendingApproval,
    ResultStatus,
    RunStatus,
    ToolCall,
    ToolResult,
    UserMessage,
)
from hookline.tools import ToolContext

Read = Callable[[str], list[Record]]
"""The records of a run, by its id; raises UnknownRunError when there is no such run."""

_UNKNOWN = "it did not run when this was recorded, so what it would have given is not known"


class Cast(Protocol):
    """Who the hooks are."""

    def definition(self, stage: Stage, playing: Playing, name: str | None) -> Definition:
        """What plays a run. For a child run `name` is its name."""
        ...

    def plans(self, run: Rehearsed) -> Plans:
        """The points that are asked at all."""
        ...

    def plan(self, run: Rehearsed, plan: Plan, ctx: Any) -> Plan:
        """Who is asked this time."""
        ...


class Rehearsed(Run):
    """A run that is played."""

    __slots__ = ("playing", "stage")

    def __init__(self, stage: Stage, playing: Playing, definition: Definition, like: Like) -> None:
        super().__init__(
            definition,
            like.state,
            like.durable,
            drive=stage.drive_child,
            parent=like.parent,
            inherited=like.inherited,
        )
        self.playing = playing
        self.stage = stage
        playing.run = self
        self.plans = stage.cast.plans(self)

    def recalled(self, plan: Plan, ctx: Any) -> Plan:
        """Whoever the cast says."""
        return self.stage.cast.plan(self, plan, ctx)


class Like(Protocol):
    """What a run begins with: what is in a child run that its parent has made, say."""

    @property
    def state(self) -> AgentState:
        """Where it begins."""
        ...

    @property
    def durable(self) -> Durable:
        """Its record."""
        ...

    @property
    def parent(self) -> Run | None:
        """The run above it."""
        ...

    @property
    def inherited(self) -> tuple[Registration, ...]:
        """The hooks from above."""
        ...


class _Root(msgspec.Struct):
    """A run that nobody is above of."""

    state: AgentState
    durable: Durable
    parent: Run | None = None
    inherited: tuple[Registration, ...] = ()


class Parting(msgspec.Struct, frozen=True):
    """Where it stopped being the same run."""

    playing: Playing
    at: int
    """The number of the fact."""
    instead: str = ""
    """What came now, where that is no fact: the model was asked and has no answer on record."""


class Stage:
    """One recorded run with its children, being played."""

    def __init__(self, read: Read, cast: Cast) -> None:
        self.read = read
        self.cast = cast
        self.clock = PlayedClock()
        self.played: dict[str, Playing] = {}
        self.parting: Parting | None = None
        self.missing: list[str] = []
        """Child runs that are not in the journal."""
        self.root: Run | None = None
        self.is_whole = True
        """The record told how everything went on."""

    def playing(self, run_id: str) -> Playing:
        """A run that is part of this."""
        if run_id not in self.played:
            self.played[run_id] = Playing(Recording(self.read(run_id)), self.clock)
        return self.played[run_id]

    # --- driving ----------------------------------------------------------------------------------

    async def play(self, run_id: str) -> RunResult:
        """Play a run from its beginning to where its record ends, pauses included."""
        playing = self.playing(run_id)
        self.clock.time = playing.recording.records[0].at
        root = _Root(_first_state(playing.recording), Unwritten(playing, self.playing))
        while True:
            part = playing.next_part()
            assert part is not None
            self.clock.move_to(part.started.at)
            definition = self.cast.definition(self, playing, None)
            self.root = run = Rehearsed(self, playing, self._prepared(definition, part), root)
            _set_session(run, part, playing.recording)
            result = await self._drive(run, _prompt(part))
            is_last = part is playing.recording.parts[-1]
            if self.parting or is_last or result.status is not RunStatus.PAUSED:
                self.is_whole = self.is_whole and playing.recording.is_finished
                self._compare_ends()
                return result
            root.state = result.state

    async def drive_child(self, child: Run, prompt: str | UserMessage | None) -> RunResult:
        """The loop, as the children of this run get to see it."""
        playing = self.playing(child.run_id)
        part = playing.next_part()
        if part is None:
            self.differ(Parting(playing, len(playing.now), "it is sent back to work"))
            await leave(self._top, "it is no longer the same run")
        assert part is not None
        self.clock.move_to(part.started.at)
        run = Rehearsed(self, playing, self._prepared(child.definition, part), child)
        return await self._drive(run, prompt)

    async def _drive(self, run: Rehearsed, prompt: str | UserMessage | None) -> RunResult:
        run.on_step = lambda _: self._after_step(run)
        result = await drive(run, prompt)
        self._compare(run.playing)
        return result

    def _prepared(self, definition: Definition, part: Part) -> Definition:
        """A definition with which nothing outside is touched."""
        return msgspec.structs.replace(
            definition,
            driver=Player(self),
            approver=self._approve if part.approved else None,
            clock=self.clock,
            listeners=(),
            journal=None,
            on_in_doubt="tell",
        )

    def _approve(self, approval: PendingApproval) -> Any:
        return self.playing(approval.run_id).approve(approval)

    @property
    def _top(self) -> Run:
        assert self.root is not None
        return self.root

    # --- comparing --------------------------------------------------------------------------------

    async def _after_step(self, run: Rehearsed) -> None:
        """A step is settled: if it is what it was, what was spent is set to what it was, and it goes on."""
        playing = run.playing
        self._compare(playing)
        if self.parting is not None:
            self._top.token.cancel("it is no longer the same run")
            return
        then = playing.recording.steps.get(run.step_index or 0)
        if then is not None:
            _spend_as_then(run, then)
        if playing.recording.is_cancelled and playing.compared >= len(playing.then) - 1:
            self._cancel_as_then(run)

    def _compare(self, playing: Playing) -> None:
        at = playing.first_difference() if self.is_whole else None
        if at is not None:
            self.differ(Parting(playing, at))

    def _compare_ends(self) -> None:
        """Everything was played: what is on record and has not come, is missing."""
        for playing in self.played.values():
            if self.is_whole and playing.is_cut_short:
                self.differ(Parting(playing, playing.compared))

    def differ(self, parting: Parting) -> None:
        """It is no longer the same run; only the first difference counts."""
        self.parting = self.parting or parting

    # --- ending as it ended -----------------------------------------------------------------------

    def _cancelled_run(self, run: Run) -> tuple[Run, str]:
        """Of a run and those above it, the topmost that was cancelled, and why."""
        found, why = run, ""
        above: Run | None = run
        while above is not None:
            recording = self.playing(above.run_id).recording
            if recording.is_cancelled:
                found, why = above, recording.status.reason if recording.status else ""
            above = above.parent
        return found, why

    def _cancel_as_then(self, run: Run) -> None:
        cancelled, why = self._cancelled_run(run)
        cancelled.token.cancel(why)

    async def stop_here(self, run: Run) -> Any:
        """Nothing more is on record: the run was cancelled here, or its process died here."""
        recording = self.playing(run.run_id).recording
        if recording.is_cancelled:
            await leave(*self._cancelled_run(run))
        self.is_whole = False
        await leave(self._top, "the record ends here")

    async def part_ways(self, playing: Playing, instead: str) -> Any:
        """Something is asked for that was not asked for then."""
        if not playing.recording.is_finished:
            await self.stop_here(self._top)
        self.differ(Parting(playing, len(playing.now), instead))
        await leave(self._top, "it is no longer the same run")

    # --- tools ------------------------------------------------------------------------------------

    async def use(self, context: ToolContext) -> Any:
        """A tool call: what came of it then, its children and its questions included."""
        playing = self.playing(context.state.run_id)
        step, call = context.state.step_count, context.call
        use = playing.recording.uses[step, call.id]
        if use.intent is None:
            return ToolResult(None, None, ResultStatus.NOT_RUN, reason=_UNKNOWN)
        for question in use.questions:
            asked = ToolCall(call.id, question.tool_call.name, question.tool_call.args)
            await context.ask(asked, question.reason, asked_by=question.asked_by)
        await self._spawn(context, use)
        number = playing.tries["use", step, call.id]
        playing.tries["use", step, call.id] += 1
        return await self._result(playing, step, use, number)

    async def _result(self, playing: Playing, step: int, use: Use, number: int) -> Any:
        assert playing.run is not None
        if use.result is None:
            return await self.stop_here(playing.run)
        if use.result.status is ResultStatus.CANCELLED:
            await _others_settled(playing, step)
            return await self.stop_here(playing.run)
        self.clock.move_to(use.at)
        playing.tries["settled", step] += 1
        errors = use.errors[-1:] if use.intent and use.intent.effect == "once" else use.errors
        if number < len(errors) or (errors and errors[-1].action != "retry"):
            recorded = errors[min(number, len(errors) - 1)].error
            assert recorded is not None
            raise past_error(playing.recording.in_full(recorded, step, use))
        return use.result

    async def _spawn(self, context: ToolContext, use: Use) -> None:
        """Start the children that were started then. Whether they waited is theirs to say."""
        for together in use.children:
            known = [child for child in together if self._is_known(child.child_run_id)]
            started = [
                context.spawn(self._child(child.child_run_id, child.name), prompt, name=child.name)
                for child in known
                for prompt in [self._prompt_of(child.child_run_id)]
            ]
            for outcome in await asyncio.gather(*started, return_exceptions=True):
                if isinstance(outcome, ChildWaits | HookError | asyncio.CancelledError):
                    raise outcome
                if isinstance(outcome, ToolError):  # no such child was kept from starting then
                    await self.part_ways(self.playing(context.state.run_id), str(outcome))

    def _is_known(self, run_id: str) -> bool:
        try:
            self.playing(run_id)
        except UnknownRunError:
            self.missing.append(run_id)
            return False
        return True

    def _child(self, run_id: str, name: str) -> Any:
        return _Child(self.cast.definition(self, self.playing(run_id), name))

    def _prompt_of(self, run_id: str) -> str:
        prompt = self.playing(run_id).recording.parts[0].prompt
        return prompt.text if prompt is not None else ""


class Player:
    """A model that answers what it answered then."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:  # noqa: ARG002 - a driver's signature
        """The answer on record, after the failures on record."""
        playing = self._stage.playing(turn.state.run_id)
        step = turn.state.step_count
        then = playing.recording.turns[step]
        is_over = playing.recording.is_finished and not playing.recording.is_cancelled
        if is_over and not then.is_asked:
            await self._stage.part_ways(playing, "the model is asked")
        while (number := playing.tries["turn", step]) < len(then.errors):
            playing.tries["turn", step] += 1
            failed = then.errors[number]
            assert failed.error is not None
            error = past_error(failed.error)
            if failed.action != "fallback":
                raise error
            turn.record_fallback(error, failed.reason)
        if then.response is not None and not then.response.supplied:
            self._stage.clock.move_to(then.response.at)
            return _response(then.response)
        if then.is_lost:
            return InferenceResponse()
        if is_over:
            await self._stage.part_ways(playing, "the model is asked again")
        assert playing.run is not None
        return await self._stage.stop_here(playing.run)  # type: ignore[no-any-return]


class _Child(msgspec.Struct, frozen=True):
    """An agent, as far as starting it as a child is concerned."""

    definition: Definition


def _response(record: Any) -> InferenceResponse:
    return InferenceResponse(
        record.text,
        record.calls,
        record.usage,
        record.model,
        record.reasoning,
        record.finish,
    )


def _first_state(recording: Recording) -> AgentState:
    """The state the run began with."""
    started = recording.parts[0].started
    if started.initial is not None:
        return AgentState.from_json(msgspec.json.encode(started.initial))
    return AgentState(
        agent_id=started.agent_id,
        run_id=started.run_id,
        session_id=started.session_id,
        parent_run_id=started.parent_run_id,
        parent_agent_id=started.parent_agent_id,
    )


def _prompt(part: Part) -> UserMessage | None:
    prompt = part.prompt
    if prompt is not None:
        return UserMessage(prompt.text, "", prompt.attachments)
    # One that was refused is not on record; that it was refused is.
    was_refused = HookPoint.PROMPT_SUBMIT.value in part.occasions.places()
    return UserMessage("") if was_refused else None


def _set_session(run: Run, part: Part, recording: Recording) -> None:
    """Whether a session began and ends with this run, as far as the record tells."""
    is_own = run.state.session_id == run.run_id
    asked = HookPoint.SESSION_START.value in part.occasions.places()
    run.starts_session = part is recording.parts[0] and not part.started.resumed
    run.starts_session = run.starts_session and (asked or part.started.initial is None)
    run.ends_session = is_own


def _spend_as_then(run: Run, then: StepFinished) -> None:
    """What tools, models and hooks used that are not asked now, was used all the same."""
    now, counters = run.state.counters, then.counters
    used = counters.usage - now.usage
    steps, calls = counters.steps - now.steps, counters.tool_calls - now.tool_calls
    more = (used.input_tokens, used.output_tokens, used.cost or 0, steps, calls)
    if min(more) >= 0 < max(more):
        run.ledger.carry(counters, now)
        run.uncounted = run.uncounted + used
        run.child_steps += steps
        run.uncounted_calls += calls
    run.ledger.started = run.now - (counters.active_seconds - run.ledger.seconds_before)


async def _others_settled(playing: Playing, step: int) -> None:
    """Wait for the calls of a step that had their result before it was cancelled."""
    unsettled = (ResultStatus.CANCELLED, ResultStatus.NOT_RUN)
    others = sum(
        use.intent is not None and use.result is not None and use.result.status not in unsettled
        for (index, _), use in playing.recording.uses.items()
        if index == step
    )
    while playing.tries["settled", step] < others:  # noqa: ASYNC110 - they are on their way already
        await asyncio.sleep(0)
