"""Back-test: what would other hooks have said to the runs that were recorded?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from hookline.agent import Agent, AgentBuilder
from hookline.agent.records.rounds import Place
from hookline.definition import Definition, default_guards
from hookline.errors import HooklineError, UsageError, in_words
from hookline.flow import RunLimits
from hookline.hooks import HookStack, Registration
from hookline.journal import JournalStore, Record
from hookline.playback.counterfactual import BacktestSource, Counterfactual, Judged, names_of
from hookline.playback.findings import (
    Change,
    HookCounts,
    HookKey,
    HookReport,
    Unfollowed,
    Unjudged,
    latency,
)
from hookline.playback.hook_source import Agents
from hookline.playback.report import BacktestReport
from hookline.playback.rulings import Ruling, is_same
from hookline.playback.runs import Wanted, reader_of, wanted_runs
from hookline.playback.source import Playback
from hookline.state import EMPTY, RunStatus


async def backtest(
    journal: JournalStore | Iterable[Record] | Iterable[Iterable[Record]],
    hooks: Agent | HookStack,
    *,
    children: Mapping[str, Agent] = EMPTY,
    runs: Sequence[str] | None = None,
    session: str | None = None,
    status: RunStatus | None = None,
    since: datetime | timedelta | None = None,
    limit: int | None = None,
    run_hooks: bool = False,
) -> BacktestReport:
    """Ask hooks about everything that was decided in recorded runs, and say where they would decide otherwise.

    An agent's hooks take the place of those on record; those of a HookStack are added to them. Every decision is
    judged as it was: nothing that changes changes what comes after it. No model is asked, no tool runs, nothing is
    written. Hooks in Python do run; those that are commands, addresses or models say what is on record, and are started
    with `run_hooks=True` only. `runs`, `session`, `status`, `since` and `limit` say which runs, newest first.
    """
    registrations, definition = _under_test(hooks)
    agents = Agents(definition, _definitions(children), runs_hooks=run_hooks)
    others = Counterfactual(registrations, agents, is_added=isinstance(hooks, HookStack))
    read = reader_of(journal)
    wanted = Wanted(runs=runs, session=session, status=status, since=since, limit=limit)
    test = _Test(others, agents, names_of(default_guards(RunLimits(tool_calls=0))))
    for run_id in wanted_runs(journal, wanted):
        await test.run(Playback(read, partial(BacktestSource, others, agents)), run_id)
    return test.report()


def _under_test(hooks: object) -> tuple[tuple[Registration, ...], Definition]:
    if isinstance(hooks, Agent):
        return hooks.definition.registrations, hooks.definition
    if isinstance(hooks, HookStack):
        return hooks.registrations, AgentBuilder().build().definition
    raise UsageError(
        f"backtest takes an agent, or a HookStack, not {hooks!r}.",
        remedy='Write HookStack().with_hook(rule, "before_tool_use"), say.',
    )


def _definitions(children: object) -> dict[str, Definition]:
    given: Mapping[str, Any] = children if isinstance(children, Mapping) else {"": children}
    for agent in given.values():
        if not isinstance(agent, Agent):
            raise UsageError(
                f"children= takes agents by name, not {children!r}.",
                remedy='Write children={"name": agent}.',
            )
    return {name: agent.definition for name, agent in given.items()}


class _Test:
    """A back-test under way."""

    def __init__(
        self, others: Counterfactual, agents: Agents, defaults: Collection[HookKey]
    ) -> None:
        self.others = others
        self.agents = agents
        self.defaults = defaults
        """The guards that every agent has. They are told of only where they make a difference."""
        self.recorded = HookCounts()
        self.tiers: dict[HookKey, str] = {}
        self.changes: list[Change] = []
        self.unjudged: list[Unjudged] = []
        self.unfollowed: list[Unfollowed] = []
        self.runs = self.children = self.decisions = self.calls = 0

    async def run(self, playback: Playback, run_id: str) -> None:
        """One run and its children. What is wrong with it is in the report, and the others go on."""
        self.runs += 1
        self.others.forget()
        try:
            await playback.play(run_id)
        except Exception as error:
            words = in_words(error) if isinstance(error, HooklineError) else repr(error)
            self.unfollowed.append(Unfollowed(run_id, words))
        if playback.parting is not None:
            at, then = playback.parting.at, playback.parting.progress.then
            where = (
                f"{then[at].what} in step {(then[at].step or 0) + 1}"
                if at < len(then)
                else "its end"
            )
            why = f"what is on record could not be followed beyond {where}"
            self.unfollowed.append(Unfollowed(playback.parting.progress.run_id, why))
        self._take_in(playback)

    def _take_in(self, playback: Playback) -> None:
        self.children += max(len(playback.played) - 1, 0)
        for progress in playback.played.values():
            for ran in progress.recording.hooks:
                self.recorded.count((ran.point, ran.hook), ran.duration, ran.verdict)
                self.tiers[ran.point, ran.hook] = ran.tier
        changed: dict[tuple[str, Place], str] = {}
        for judged in self.others.judged:
            where = (judged.run_id, judged.place)
            self.decisions += 1
            self.calls += judged.place[0] == "before_tool_use" and not judged.is_anew
            self._note_unjudged(judged)
            # What would not have come this far, or is judged once more as it is, has been told of.
            is_told = judged.is_anew or changed.get(where) in ("block", "stop")
            if not (where in changed and is_told) and not is_same(judged.old, judged.new):
                self.changes.append(_change(judged, is_first=not changed))
                changed[where] = judged.new.verdict
        self.others.judged.clear()

    def _note_unjudged(self, judged: Judged) -> None:
        if judged.unasked:
            point, step, call_id = judged.place
            self.unjudged.append(
                Unjudged(
                    run=judged.run_id,
                    step=step,
                    point=point,
                    call_id=call_id,
                    hooks=judged.unasked,
                )
            )

    def report(self) -> BacktestReport:
        """What was found."""
        registrations = self.others.registrations
        return BacktestReport(
            runs=self.runs,
            children=self.children,
            decisions=self.decisions,
            calls=self.calls,
            changes=tuple(self.changes),
            hooks=tuple(self._hooks()),
            unjudged=tuple(self.unjudged),
            unfollowed=tuple(self.unfollowed),
            not_asked=tuple(self.agents.not_asked),
            around=tuple(each.name for each in registrations if each.point.around),
        )

    def _hooks(self) -> Iterator[HookReport]:
        """First those under test, then those that are only on record."""
        now = self.others.known
        for key, registration in now.items():
            if key not in self.defaults or self._is_named(key):
                status = "kept" if key in self.recorded else "added"
                yield self._hook(key, status, registration.tier.value, shadow=registration.shadow)
        for key in [key for key in self.recorded if key not in now]:
            stays = self.others.is_added or key in self.others.kept
            if not (stays and key in self.defaults):
                yield self._hook(key, "kept" if stays else "removed", self.tiers[key])

    def _is_named(self, key: HookKey) -> bool:
        return any((change.point, change.hook) == key for change in self.changes)

    def _hook(self, key: HookKey, status: str, tier: str, *, shadow: bool = False) -> HookReport:
        now, then = self.others.counts[key], self.recorded[key]
        point, hook = key
        return HookReport(
            hook=hook,
            point=point,
            tier=tier,
            status=status,
            shadow=shadow,
            calls=now.calls,
            verdicts=dict(now.verdicts),
            latency=latency(now.seconds),
            usage=now.usage,
            recorded_calls=then.calls,
            recorded_verdicts=dict(then.verdicts),
            recorded_latency=latency(then.seconds),
        )


def _change(judged: Judged, *, is_first: bool) -> Change:
    point, step, _ = judged.place
    old, new = judged.old, judged.new
    said = old.says != new.says and old.verdict == new.verdict
    old_word, new_word = (
        (old.says or "proceed", new.says or "proceed") if said else (old.verdict, new.verdict)
    )
    hook, why = _whose(old, new, said=said)
    return Change(
        run=judged.run_id,
        step=step,
        point=point,
        call=judged.call,
        old=old_word,
        new=new_word,
        hook=hook,
        why=why,
        old_hook=old.said_by if said else old.hook,
        old_why=old.said_why if said else old.reason,
        is_first=is_first,
    )


def _whose(old: Ruling, new: Ruling, *, said: bool) -> tuple[str, str]:
    """The hook that makes the difference, and why it says so."""
    now = (new.said_by, new.said_why) if said else (new.hook, new.reason)
    if now[0]:
        return now
    then, why = (old.said_by, old.said_why) if said else (old.hook, old.reason)
    return then, f"no longer says: {why}" if why else "no longer says so"
