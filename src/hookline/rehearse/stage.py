"""Playing a recorded run: the one loop, with a model and tools that give what they gave.

The hooks are whoever the cast says: those of an agent, or stand-ins that say what is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from hookline.agent import RunResult
from hookline.agent.loop import drive
from hookline.agent.run import Run
from hookline.blueprint import Definition, Plans
from hookline.errors import ModelError, UnknownRunError, UsageError
from hookline.hooks import Plan, Registration
from hookline.journal import ChildStarted, Durable, Record, RunStarted, StepFinished
from hookline.lifecycle import HookPoint
from hookline.rehearse.players import Player, leave, use_as_then
from hookline.rehearse.playing import PlayedClock, Playing, Unwritten
from hookline.rehearse.reading import Read
from hookline.rehearse.recording import Part, Recording
from hookline.rehearse.stand_ins import stand_ins, standing_in
from hookline.state import (
    AgentState,
    InferenceResponse,
    PendingApproval,
    ResultStatus,
    RunStatus,
    UserMessage,
)
from hookline.tools import ToolContext

_LOST = "it is asked what came of a call, and that is missing from the record"


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

    is_played = True

    def __init__(self, stage: Stage, playing: Playing, definition: Definition, like: Like) -> None:
        super().__init__(
            definition,
            like.state,
            like.durable,
            drive=stage.drive_child,
            parent=like.parent,
            inherited=like.inherited,
        )
        self.recalls = True
        self.playing = playing
        self.stage = stage
        playing.run = self
        self.plans = stage.cast.plans(self)

    async def consulted(self, name: str, digest: str) -> InferenceResponse | None:
        """What the model answered a hook then: to the very same, or else the next thing it was asked."""
        recording = self.playing.recording
        then = [
            record
            for record in recording.consulted
            if (record.step, record.name) == (self.step_index, name)
        ]
        known = next((each for each in then if each.digest == digest), then[0] if then else None)
        if known is not None:
            recording.consulted.remove(known)
            self.charge(known.response.usage)
            return known.response
        if not recording.is_finished:
            await self.stage.stop_here(self)
        raise ModelError(f"what a model would tell '{name}' here is not on record.")

    def aside_key(self, asked: str) -> str:
        """The key of a child that a hook started then, the so-maniest that asked this."""
        place = f"{self.run_id}/{self.step_index}/{asked}/"
        then = [
            record.child_run_id.removeprefix(place)
            for record in self.playing.recording.records
            if isinstance(record, ChildStarted) and record.child_run_id.startswith(place)
        ]
        taken = self.playing.tries["aside", self.step_index, asked]
        self.playing.tries["aside", self.step_index, asked] += 1
        return f"{asked}/{then[taken] if taken < len(then) else taken + 1}"

    def child_definition(self, definition: Definition, child_id: str, name: str) -> Definition:  # noqa: ARG002 - its tools would be used for real
        """What plays a child run that a hook started then."""
        played = self.stage.child(child_id, name)
        if played is None:
            raise UsageError(f"the child run '{child_id}' that a hook starts is not on record.")
        return played

    def taken_up_then(self) -> list[Plan]:
        """What the hooks said to each process that took the run up here. Nobody is asked: it is one process now."""
        again = self.playing.part.occasions.again.get(
            -1 if self.step_index is None else self.step_index, ()
        )
        point = HookPoint.EXECUTION_START
        made = (stand_ins(self.playing.recording, point, said) for said in again)
        return [standing_in(point, each) for each in made]

    def was_in_doubt(self, call_id: str) -> bool:
        """Whether it had started then: whoever refuses it now cannot say that it did not run, either."""
        use = self.playing.recording.uses.get((self.step_index or 0, call_id))
        if use is None or use.intent is None or use.result is None:
            return False
        return use.result.status is ResultStatus.IN_DOUBT

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
            records = tuple(self.read(run_id))
            above = self.played.get(_run_above(records))
            recording = Recording(records, above.recording if above is not None else None)
            self.played[run_id] = Playing(recording, self.clock)
        return self.played[run_id]

    # --- driving ----------------------------------------------------------------------------------

    async def play(self, run_id: str) -> RunResult:
        """Play a run from its beginning to where its record ends, pauses included."""
        playing = self.playing(run_id)
        self.clock.time = playing.recording.records[0].at
        root = _Root(playing.recording.first_state(), Unwritten(playing, self.playing))
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
            assert child.parent is not None
            if not self.playing(child.parent.run_id).recording.tells_end_of(child.run_id):
                await self.stop_here(child.parent)  # its hooks may have sent it back then, too
            self.differ(Parting(playing, len(playing.now), "it is sent back to work"))
            await leave(partial(self._top.token.cancel, "it is no longer the same run"))
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
            cancel_sources=(),
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
            self._cancelling(run)()

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

    def _cancelling(self, run: Run) -> Callable[[], object]:
        """What cancels, of a run and those above it, the topmost that was cancelled, for the reason it had."""
        found, why, out_of_time = run, "", False
        above: Run | None = run
        while above is not None:
            recording = self.playing(above.run_id).recording
            if recording.is_cancelled:
                found, why = above, recording.status.reason if recording.status else ""
                out_of_time = recording.is_out_of_time
            above = above.parent
        return partial(found.token.cancel, why, out_of_time=out_of_time)

    def cancel_as_then(self, playing: Playing, step: int) -> None:
        """Cancel the run, if it was cancelled when this much of the step was done."""
        then = playing.recording
        is_done = playing.tries["settled", step] == then.settled(step)
        if playing.run is not None and is_done and then.is_cancelled_in(step):
            self._cancelling(playing.run)()

    async def stop_here(self, run: Run) -> Any:
        """Nothing more is on record: the run was cancelled here, or its process died here."""
        recording = self.playing(run.run_id).recording
        if recording.is_cancelled:
            await leave(self._cancelling(run))
        if recording.is_finished:
            self.differ(Parting(self.playing(run.run_id), len(self.playing(run.run_id).now), _LOST))
        self.is_whole = self.is_whole and recording.is_finished
        await leave(partial(self._top.token.cancel, "the record ends here"))

    async def part_ways(self, playing: Playing, instead: str) -> Any:
        """Something is asked for that was not asked for then."""
        if not playing.recording.is_finished:
            await self.stop_here(self._top)
        self.differ(Parting(playing, len(playing.now), instead))
        await leave(partial(self._top.token.cancel, "it is no longer the same run"))

    # --- what plays -------------------------------------------------------------------------------

    async def use(self, context: ToolContext) -> Any:
        """A tool call: what came of it then."""
        return await use_as_then(self, context)

    def child(self, run_id: str, name: str) -> Definition | None:
        """What plays a child run; None when it is not in the journal."""
        try:
            return self.cast.definition(self, self.playing(run_id), name)
        except UnknownRunError:
            self.missing.append(run_id)
            return None


def _run_above(records: Sequence[Record]) -> str:
    """The run that a run is a child of, if it is one."""
    started = records[0] if records else None
    return (started.parent_run_id or "") if isinstance(started, RunStarted) else ""


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
