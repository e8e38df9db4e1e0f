"""Replay: a recorded run driven again, with no model and no tool, and nothing written."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from hookline.agent.agent import Agent
from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.definition import Definition
from hookline.errors import UsageError
from hookline.hooks import Plan
from hookline.journal import HookRan, JournalStore, Record, RunStarted, hooks_in
from hookline.lifecycle import AgentContext
from hookline.pages.page import visible
from hookline.playback.comparison import Comparison, Fact
from hookline.playback.recorded_agent import PlayedAgents, with_judges
from hookline.playback.report import not_asked
from hookline.playback.run_selection import recordings_of
from hookline.playback.source import Divergence, Playback, PlaybackSource, is_in_doubt
from hookline.state import EMPTY

_AROUND = 3
"""How many lines that are the same are shown around a difference."""


class Difference(msgspec.Struct, frozen=True):
    """The first thing that is not as it was recorded."""

    run: str
    step: int | None
    """Counted from zero, like `step` in the records; None before the first step and at the end."""
    what: str
    """What is compared: the model's answer, a call, its result, ..."""
    recorded: Any
    now: Any
    call_id: str = ""
    because: tuple[str, ...] = ()
    """The hooks that say something else than on record, in words."""

    @property
    def diff(self) -> str:
        """What was recorded (-) against what came now (+), line by line, with a few lines around."""
        then, now = list(_lines(self.recorded)), list(_lines(self.now))
        hunks = list(difflib.unified_diff(then, now, lineterm="", n=_AROUND))[2:]
        shown = [
            "..." if line.startswith("@@") else f"{line[0]} {line[1:]}".rstrip()
            for line in hunks
            if not line.startswith(("@@ -1,", "@@ -1 "))
        ]
        return visible("\n".join(shown))

    def __str__(self) -> str:
        where = f"step {self.step + 1}, " if self.step is not None else ""
        call = f" (call {self.call_id})" if self.call_id else ""
        body = "\n".join(f"  {line}" for line in self.diff.splitlines())
        reasons = "".join(f"\n  because {reason}" for reason in self.because)
        return f"{where}{self.what}{call}:\n{body}{reasons}"


class ReplayResult(msgspec.Struct, frozen=True):
    """What came of a replay: `assert replayed.identical, replayed`."""

    run_id: str
    result: RunResult
    """As the replay ended; cancelled where it was no longer the same run."""
    difference: Difference | None = None
    runs: tuple[str, ...] = ()
    """The runs that were played: this one and its children."""
    is_whole: bool = True
    """The record reaches the end of the run. If it does not, it was followed as far as it reaches."""
    from_record: tuple[str, ...] = ()
    """Hooks that answered from the record at least once, because what they were shown is not on record."""
    unknown: tuple[str, ...] = ()
    """Child runs whose agents were not given: their own hooks answered from the record."""
    missing: tuple[str, ...] = ()
    """Child runs that are not in the journal: what came of them was taken as it is."""
    not_asked: tuple[str, ...] = ()
    """Commands, addresses and models that were not asked, and may have changed since: they said what is on record."""

    @property
    def identical(self) -> bool:
        """The transcript is the same."""
        return self.difference is None

    def __bool__(self) -> bool:
        return self.identical

    def __str__(self) -> str:
        head = f"run '{self.run_id}' is {'identical' if self.identical else 'not the same'}"
        steps = self.result.state.step_count
        details = [f"{steps} step{'s' * (steps != 1)}"]
        if len(self.runs) > 1:
            details.append(f"{len(self.runs) - 1} child run{'s' * (len(self.runs) != 2)}")
        if not self.is_whole:
            details.append("as far as its record goes")
        lines = [f"{head} ({', '.join(details)}){not_asked(self.not_asked)}"]
        if self.difference is not None:
            of_child = f"in '{self.difference.run}', " * (self.difference.run != self.run_id)
            lines.append(f"{of_child}{self.difference}")
        for label, names in (
            ("answered from the record", self.from_record),
            ("agent not given, own hooks answered from the record", self.unknown),
            ("not in the journal", self.missing),
        ):
            lines += [f"{label}: {', '.join(names)}"] if names else []
        return "\n".join(lines)


class ReplaySource(PlaybackSource):
    """The record, with the hooks of an agent, called wherever what they are to be shown is on record."""

    def definition(self, name: str | None) -> Definition:
        """The agent of now; a child's agent, if it was given."""
        agents = self.agents
        if name is None:
            return agents.own
        child = agents.child(self.recording, name)
        if child is None:
            self.has_agent = False
            agents.unknown.add(self.run_id)
            return self.make_recorded_definition(agents.own)
        return msgspec.structs.replace(child, listeners=())

    def find_asked_points(self, run: Run) -> frozenset[str]:  # noqa: ARG002 - the interface's
        """Where the hooks of a child were asked whose agent is not there."""
        return frozenset() if self.has_agent else self.recording.points

    def hooks(self, run: Run, plan: Plan, ctx: AgentContext) -> Plan:
        """The plan of the agent, in which those answer from the record who cannot be shown what they were shown."""
        place, round_ = self.round_of(run, ctx)
        if is_in_doubt(ctx):
            return with_judges(self.agents.without_external(self.recording, plan, round_), ())
        if not self.has_agent:
            return self.who_answers(run, plan, place, round_, keeps="own").plan
        seen = self.who_answers(run, plan, place, round_)
        self.agents.from_record.update(dict.fromkeys(seen.from_record))
        if seen.missing:
            gone = (
                f"there is no hook '{seen.missing}' at {plan.point.value}, which decided about this"
            )
            self.playback.differ(self, instead=gone)
        return seen.plan


async def replay(
    journal: JournalStore | Iterable[Record],
    run_id: str,
    agent: Agent,
    *,
    children: Mapping[str, Agent] = EMPTY,
    run_hooks: bool = False,
) -> ReplayResult:
    """Drive a recorded run again, with the answers and results on record, and compare.

    No model is asked, no tool runs, nothing is written. The agent's hooks in Python do run; those that are commands,
    addresses or models say what is on record, and are started with `run_hooks=True` only. `children` are the agents of
    its child runs, by name or agent id; the own hooks of a child that is not there answer from the record.
    """
    if not isinstance(agent, Agent):
        raise UsageError(f"replay takes an Agent, not {agent!r}.", remedy="Build it: .build().")
    agents = PlayedAgents.of(agent.definition, children, runs_hooks=run_hooks)
    playback = Playback(recordings_of(journal), partial(ReplaySource, agents))
    await playback.load(run_id)
    _refuse_child(playback.source(run_id).recording.started)
    result = await playback.play(run_id)
    divergence = playback.divergence
    return ReplayResult(
        run_id=run_id,
        result=result,
        difference=None if divergence is None else _difference(divergence),
        runs=tuple(playback.sources),
        is_whole=playback.is_whole,
        from_record=tuple(agents.from_record),
        unknown=tuple(sorted(agents.unknown)),
        missing=tuple(playback.missing),
        not_asked=tuple(agents.not_asked),
    )


def _refuse_child(started: RunStarted) -> None:
    if started.parent_run_id is not None:
        raise UsageError(
            f"run '{started.run_id}' is a child run, which can only be replayed with its parent.",
            remedy=f"Replay '{started.parent_run_id}'.",
        )


# --- the text of a difference ---------------------------------------------------------------------------------


def _difference(divergence: Divergence) -> Difference:
    comparison, at = divergence.source.comparison, divergence.at
    then = comparison.then[at] if at < len(comparison.then) else None
    now = comparison.now[at] if at < len(comparison.now) else None
    shown = then or now or Fact(None, "the run", None)
    is_same_thing = then is not None and now is not None and then[:2] == now[:2]
    return Difference(
        run=divergence.source.run_id,
        step=shown.step,
        what=shown.what,
        recorded=_show_fact(then, is_same_thing or divergence.instead),
        now=divergence.instead or _show_fact(now, is_same_thing),
        call_id=shown.call_id,
        because=tuple(_because(comparison, shown)),
    )


def _show_fact(fact: Fact | None, is_same_thing: object) -> Any:
    if fact is None:
        return "nothing more: the run is over"
    if is_same_thing:
        return fact.value
    where = f"step {fact.step + 1}, {fact.what}" if fact.step is not None else fact.what
    return {where: fact.value}


def _because(comparison: Comparison, fact: Fact) -> Iterator[str]:
    """The verdicts in the step of a difference that are not the same, those about its call if there are any."""
    then = _verdicts(comparison.recording.records, fact)
    now = _verdicts(comparison.heard, fact)
    for key, said in now.items():
        if then.get(key) != said:
            yield f"hook {_of(key)} says {said}; on record: {then.get(key, 'nothing')}"
    for key, said in then.items():
        if key not in now:
            yield f"hook {_of(key)} says nothing; on record: {said}"


def _of(key: tuple[str, str, str]) -> str:
    hook, point, call_id = key
    return f"'{hook}' at {point}" + (f" ({call_id})" if call_id else "")


def _verdicts(records: Iterable[Record], fact: Fact) -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for ran in hooks_in(records):
        said = _effect_of(ran)
        is_there = ran.step == fact.step and (not fact.call_id or ran.call_id == fact.call_id)
        if said and is_there and ran.tier != "observer" and not ran.point.startswith("around_"):
            found[ran.hook, ran.point, ran.call_id] = said
    return found


def _effect_of(ran: HookRan) -> str:
    """What a hook decided or changed; empty if nothing."""
    changes = [name for name in ran.changes or {} if name != "evaluations"]
    parts = [f"{ran.verdict} ({ran.reason})" if ran.reason else ran.verdict]
    if ran.verdict == "proceed":
        parts = []
    parts += [f"changes {', '.join(changes)}"] if changes else []
    parts += [f"{said.decision.value} ({said.reason})" for said in ran.evaluations]
    return "" if ran.shadow else ", ".join(parts)


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """A JSON value as lines that can be compared."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _entry(f"{indent}{key}:", each, indent)
    elif isinstance(value, list):
        for each in value:
            yield from _entry(f"{indent}-", each, indent)
    else:
        yield from (f"{indent}{line}" for line in _text(value).split("\n"))


def _entry(label: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield label
        yield from _lines(value, indent + "  ")
        return
    first, *rest = _text(value).split("\n")
    yield f"{label} {first}"
    yield from (f"{indent}  {line}" for line in rest)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
