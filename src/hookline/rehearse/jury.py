"""Other hooks, asked beside a run that goes as it went: what would they have said?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from hookline.blueprint import Definition, Plans, for_child
from hookline.hooks import Entry, Plan, Registration, Tier
from hookline.journal import HookRan
from hookline.lifecycle import HookPoint
from hookline.rehearse.asking import Beside, Notes, Watch, ask_beside, untold
from hookline.rehearse.casts import is_own
from hookline.rehearse.occasions import Occasion, Place
from hookline.rehearse.rulings import UNKNOWN, Ruling
from hookline.rehearse.stage import Rehearsed
from hookline.rehearse.stand_ins import (
    as_far_as_seen,
    joined,
    limited,
    stand_ins,
    standing_in,
    unseen,
)
from hookline.rehearse.tallies import HookKey, Tallies
from hookline.state import ToolCall


class Judged(msgspec.Struct, frozen=True):
    """One occasion: what was decided then, and what is decided now."""

    place: Place
    run_id: str
    call: ToolCall | None
    old: Ruling
    new: Ruling
    is_anew: bool = False
    """It was judged before the run paused, and policies judge it once more."""
    unasked: tuple[str, ...] = ()
    """Hooks that could not be asked, because what they would be shown is not on record."""


class Candidate(msgspec.Struct, frozen=True):
    """The hooks that are asked about one run."""

    plans: Plans
    registrations: tuple[Registration, ...] = ()
    """All of them; a child inherits those whose scope is the tree."""
    keeps: str = "none"
    """Which hooks on record stay, and say what they said: none, the run's `own`, or `all`."""


def names_of(registrations: Iterable[Registration]) -> dict[HookKey, Registration]:
    """The hooks that decide something, by point and the name they have there."""
    plans = Plans(tuple(registrations))
    found: dict[HookKey, Registration] = {}
    for point in HookPoint:
        plan = None if point.around else plans.of(point.value)
        for entry in plan.judges if plan is not None else ():
            found[entry.point, entry.name] = entry.registration
    return found


class Jury:
    """The hooks under test, over many runs."""

    def __init__(self, registrations: tuple[Registration, ...], *, is_added: bool) -> None:
        self.registrations = registrations
        self.is_added = is_added
        """They come to those on record, instead of taking their place."""
        self.tallies = Tallies()
        self.judged: list[Judged] = []
        self.known: dict[HookKey, Registration] = names_of(registrations)
        """The hooks that decide something, those of the children that were given included."""
        self.kept: set[HookKey] = set()
        """Hooks on record that stay, because their agent was not given."""
        self._candidates: dict[str, Candidate] = {}
        self._notes: dict[str, Notes] = {}
        self._asks: dict[tuple[str, Place], bool] = {}

    def forget(self) -> None:
        """The next run has nothing to do with the last."""
        self._candidates.clear()
        self._notes.clear()
        self._asks.clear()

    def candidate(self, run: Rehearsed, own: Definition | None) -> Candidate:
        """Who is asked about a run: the hooks under test, or what a child has of them."""
        if run.run_id not in self._candidates:
            self._candidates[run.run_id] = self._made(run, own)
            self._notes[run.run_id] = Notes(run.state.metadata, is_added=self.is_added)
        return self._candidates[run.run_id]

    def _made(self, run: Rehearsed, own: Definition | None) -> Candidate:
        if self.is_added:
            return Candidate(Plans(self.registrations), self.registrations, "all")
        parent = run.parent
        if parent is None:
            is_child = run.state.parent_run_id is not None
            if not is_child:
                return Candidate(Plans(self.registrations), self.registrations)
            mine = tuple(each for each in self.registrations if each.scope == "tree")
            return Candidate(Plans((), mine), mine, "own")
        inherited = for_child(self._candidates[parent.run_id].registrations)
        if own is None:
            return Candidate(Plans((), inherited), inherited, "own")
        registrations = (*inherited, *own.registrations)
        self.known = {**names_of(own.registrations), **self.known}
        return Candidate(Plans(own.registrations, inherited), registrations)

    # --- asking -----------------------------------------------------------------------------------

    def aside(
        self, run: Rehearsed, place: Place, occasion: Occasion
    ) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Two hooks that ask the jury and let things be: one among the hooks, one among the policies.

        The second does so only when the first was not called: then policies alone are asked.
        """
        asked = False

        async def ask(ctx: Any) -> None:
            nonlocal asked
            asked = True
            await self._judge(run, ctx, place, occasion, policies_only=False)

        async def ask_policies(ctx: Any) -> None:
            if not asked:
                await self._judge(run, ctx, place, occasion, policies_only=True)

        return ask, ask_policies

    async def _judge(
        self, run: Rehearsed, ctx: Any, place: Place, occasion: Occasion, *, policies_only: bool
    ) -> None:
        candidate = self._candidates[run.run_id]
        plan = candidate.plans.of(place[0])
        is_needed = plan is not None or (occasion and not self.is_added)
        if not is_needed or self._is_moot(run, place):
            return
        if not run.playing.recording.goes_beyond(place, occasion):
            return
        then = standing_in(ctx.point, stand_ins(run.playing.recording, ctx.point, occasion))
        watch = Watch()
        old = await ask_beside(run, then, ctx, watch, policies_only=policies_only)
        now, unasked, missing = self._now(run, candidate, plan, place, occasion, then)
        if missing:
            gone = f"hook '{missing}' is not there any more, and what it was shown is not on record"
            new = Ruling(verdict=UNKNOWN, hook=missing, reason=gone)
        else:
            new = await self._ask_now(run, now, ctx, watch.context, policies_only=policies_only)
        if place[0] == "before_tool_use":
            self._asks[run.run_id, place] = new.verdict == "ask"
        call = getattr(ctx, "tool_call", None)
        self.judged.append(Judged(place, run.run_id, call, old, new, policies_only, unasked))

    def _is_moot(self, run: Rehearsed, place: Place) -> bool:
        """Whether a permission is asked for that nobody of now would ask for."""
        before = ("before_tool_use", *place[1:])
        return place[0] == "permission_request" and not self._asks.get((run.run_id, before), True)

    def _now(
        self,
        run: Rehearsed,
        candidate: Candidate,
        plan: Plan | None,
        place: Place,
        occasion: Occasion,
        then: Plan,
    ) -> tuple[Plan, tuple[str, ...], str]:
        """Who is asked now; who cannot be; and who would have to be there, and is not."""
        recording = run.playing.recording
        if plan is None:
            plan = standing_in(then.point, ())
        if candidate.keeps == "all":
            return joined(plan, (*then.judges, *plan.judges)), (), ""
        hidden = unseen(place[0], occasion, is_kept=recording.keeps(run.playing.part, place))
        if hidden and candidate.keeps == "own":
            return then, tuple(entry.name for entry in plan.judges), ""
        if hidden:
            seen = as_far_as_seen(recording, plan, occasion, hidden)
            return seen.plan, seen.unasked, seen.missing
        own: Sequence[HookRan] = ()
        if candidate.keeps == "own":
            own = [ran for ran in occasion if self._is_own(run, ran, plan)]
            self.kept.update((ran.point, ran.hook) for ran in own)
        stand = [Entry(made) for made in stand_ins(recording, plan.point, own)]
        return joined(plan, (*limited(recording, plan, occasion).judges, *stand)), (), ""

    def _is_own(self, run: Rehearsed, ran: HookRan, plan: Plan) -> bool:
        """Whether a recorded hook of a child is the child's own: not one of now, nor one its parent had then."""
        parent = run.parent
        if not is_own(ran, plan):
            return False
        if ran.tier != Tier.POLICY or not isinstance(parent, Rehearsed):
            return (
                True  # what is no policy holds in its own run only, unless somebody said otherwise
            )
        above = parent.playing.recording.hooks()
        return (ran.point, ran.hook) not in {(known.point, known.hook) for known in above}

    async def _ask_now(
        self, run: Rehearsed, plan: Plan, ctx: Any, then: Any, *, policies_only: bool
    ) -> Ruling:
        """Ask the hooks of now about what was, with the metadata that they themselves have written."""
        watch = Watch(self.tallies)
        notes = self._notes[run.run_id]
        state = msgspec.structs.replace(ctx.state, metadata=notes.shown(ctx.state.metadata))
        shown = msgspec.structs.replace(ctx, state=state, live=Beside(run, watch))
        quiet = plan.recalling(untold)
        quiet.observers = ()
        ruling = await ask_beside(run, quiet, shown, watch, policies_only=policies_only)
        if watch.context is not None and then is not None:
            notes.take(then.state.metadata, watch.context.state.metadata)
        return ruling
