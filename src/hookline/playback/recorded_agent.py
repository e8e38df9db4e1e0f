"""An agent of which only the record is left: hooks that answer from it, and tools that are never used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hookline.agent.agent import Agent
from hookline.agent.recovery import answer_as_recorded, answer_nothing
from hookline.agent.run_index import Round, restore_exception
from hookline.definition import Definition
from hookline.definition.guards import SOURCE as DEFAULT
from hookline.errors import UsageError
from hookline.hooks import Entry, Plan, Point, Registration, Shape, Tier
from hookline.journal import HookRan
from hookline.lifecycle import AgentContext
from hookline.playback.recorded_run import RecordedRun
from hookline.state import (
    EMPTY,
    FrozenDict,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolSpec,
    freeze_dict,
)
from hookline.tools import AnyTool, Effect, Tool, Toolbox, ValidArguments
from hookline.tools.arguments import GivenArguments

_SHOWN = {
    "prompt_submit": "prompt",
    "after_inference": "response",
    "after_tool_use": "execution",
    "subagent_start": "prompt",
}
"""What hooks are shown at these points is on record only as they left it."""


class RecordedHook:
    """A hook that says what is on record."""

    __slots__ = ("_answer",)

    def __init__(self, ran: HookRan) -> None:
        self._answer = answer_as_recorded(ran)

    def __call__(self, ctx: AgentContext) -> Any:
        """What it said."""
        return self._answer(ctx)


def is_recorded(entry: Entry) -> bool:
    """Whether a hook is not called, and says what is on record."""
    return isinstance(entry.registration.hook, RecordedHook)


def make_recorded_hook(recording: RecordedRun, point: Point[Any], ran: HookRan) -> Registration:
    """A hook that says what is on record."""
    closed = ran.verdict == "failed" and recording.has_failed_closed(ran.hook, ran.point)
    return Registration(
        point=point,
        hook=RecordedHook(ran),
        name=ran.hook,
        tier=Tier(ran.tier),
        on_failure="closed" if closed else "open",
        source=_source(recording, ran) if ran.source is None else ran.source,
    )


def _source(recording: RecordedRun, ran: HookRan) -> str:
    """Whose hook it was, where an older record does not say.

    An allow lifts an ask unless both are of one capability. So if nobody was asked in the end, they were not; else they
    are taken to be, and what was decided comes out as it did.
    """
    was_asked = recording.call(ran.step or 0, ran.call_id).asked
    return "unknown" if was_asked or ran.verdict != "allow" else ""


def make_recorded_hooks(
    recording: RecordedRun, point: Point[Any], said: Iterable[HookRan]
) -> list[Registration]:
    """One for each hook of a round, in order. What hooks in shadow said had no effect, and has none now."""
    return [make_recorded_hook(recording, point, ran) for ran in said if not ran.shadow]


class PlayedAgents(msgspec.Struct):
    """The agents that are there, and what could not be asked of them, over all runs that are played."""

    own: Definition
    children: dict[str, Definition]
    runs_hooks: bool = False
    """Commands, addresses and models that are hooks are started."""
    unknown: set[str] = msgspec.field(default_factory=set)
    """The child runs whose agents were not given."""
    not_asked: dict[str, None] = msgspec.field(default_factory=dict)
    """Those that were not, and might say something else than on record."""
    from_record: dict[str, None] = msgspec.field(default_factory=dict)
    """Hooks that answered from the record at least once, because what they were shown is not on record."""

    @staticmethod
    def of(own: Definition, children: object, *, runs_hooks: bool) -> PlayedAgents:
        """The agents that somebody gave. Nobody cancels their runs from outside."""
        given: Mapping[str, Any] = children if isinstance(children, Mapping) else {"": children}
        if not all(isinstance(agent, Agent) for agent in given.values()):
            raise UsageError(
                f"children= takes agents by name, not {children!r}.",
                remedy='Write children={"name": agent}.',
            )
        named = {name: agent.definition for name, agent in given.items()}
        own, *others = (
            msgspec.structs.replace(each, cancel_sources=()) for each in (own, *named.values())
        )
        return PlayedAgents(own, dict(zip(named, others, strict=True)), runs_hooks)

    def without_external(self, recording: RecordedRun, plan: Plan, round_: Round) -> Plan:
        """A plan in which no command, address or model is asked, unless that is wanted: they say what is on record.

        Those are noted that may say something else now: what they are made of has changed, or is not on record, or
        they were not asked then.
        """
        if self.runs_hooks or not any(entry.registration.external for entry in plan.entries):
            return plan
        is_cut = any(ran.verdict in ("block", "stop") and not ran.shadow for ran in round_)

        def recall(entry: Entry) -> Entry:
            registration, not_asked = entry.registration, self.not_asked
            if not registration.external:
                return entry
            said = next((ran for ran in round_ if ran.hook == entry.name), None)
            if said is not None and not said.shadow:
                if said.external != registration.external:
                    not_asked[entry.name] = None
                return Entry(make_recorded_hook(recording, plan.point, said))
            is_same = recording.externals.get(entry.name) == registration.external

            def note(_: Any) -> None:
                if is_cut or not is_same:
                    not_asked[entry.name] = None

            quiet = msgspec.structs.replace(
                registration, hook=note, external="", timeout=None, shape=Shape.PLAIN
            )
            return Entry(quiet)

        observers = tuple(each for each in plan.observers if not each.registration.external)
        return plan.with_entries((*map(recall, plan.judges), *observers))

    def child(self, recording: RecordedRun, name: str) -> Definition | None:
        """The agent of a child run, by its name or the agent's id."""
        return self.children.get(name) or self.children.get(recording.started.agent_id)


def count_unseen(point: str, round_: Round, *, is_kept: bool) -> int:
    """How many hooks of a round were shown something that is not on record.

    The journal keeps what hooks left of an answer or a result, and nothing of what they withheld. So all hooks up
    to the first that changed it saw something that nobody can see again; those after it saw what that one left.
    """
    shown = _SHOWN.get(point)
    if shown is None:
        return 0
    for position, ran in enumerate(round_):
        if ran.shadow:
            continue
        if shown in (ran.changes or {}):
            return position + 1
        if not is_kept and ran.verdict in ("block", "stop", "failed"):
            return position + 1
    return 0


class PartialPlan(msgspec.Struct, frozen=True):
    """The plan of a round of hooks, and which hooks are not in it because not everything is on record."""

    plan: Plan
    from_record: tuple[str, ...] = ()
    """Hooks of now that are not asked, because what they would be shown is not on record."""
    missing: str = ""
    """The hook that changed or withheld it, when there is no such hook now."""


def ask_unhidden(recording: RecordedRun, plan: Plan, round_: Round, hidden: int) -> PartialPlan:
    """A plan in which the first `hidden` hooks of a round answer from the record, and only later ones are asked."""
    point = plan.point
    last = round_[hidden - 1]
    played = [Entry(made) for made in make_recorded_hooks(recording, point, round_[:hidden])]
    places = [place for place, entry in enumerate(plan.judges) if entry.name == last.hook]
    skipped = plan.judges[: places[0] + 1] if places else plan.judges
    if any(entry.is_middleware for entry in skipped):
        skipped = plan.judges  # what it made of the rest cannot be told from what the rest did
        played = [Entry(made) for made in make_recorded_hooks(recording, point, round_)]
    seen = with_judges(plan, (*played, *plan.judges[len(skipped) :]))
    from_record = tuple(entry.name for entry in skipped)
    return PartialPlan(seen, from_record, "" if places else last.hook)


def with_recorded_limits(recording: RecordedRun, plan: Plan, round_: Round) -> Plan:
    """A plan in which hooks answer from the record where they looked at what nobody can know exactly again.

    That is the time, what other children of the same run had used by then, that somebody wanted it to end, and which
    process it was.
    """
    is_ended = any(map(_is_end_from_outside, round_))
    if not any(
        _is_guard_above(entry) or _is_of_process(entry) or is_ended for entry in plan.judges
    ):
        return plan

    def recall(entry: Entry) -> Entry:
        if _is_of_process(entry):
            said = next((ran for ran in round_ if ran.hook == entry.name), None)
            return (
                entry.with_answer(answer_nothing)
                if said is None
                else Entry(make_recorded_hook(recording, plan.point, said))
            )
        from_above = _is_guard_above(entry)
        for ran in round_:
            is_it = ran.hook == entry.name and ran.reason.endswith(_OF_TREE) is from_above
            if is_it and (is_limit_on_record(ran) or _is_end_from_outside(ran)):
                return Entry(make_recorded_hook(recording, plan.point, ran))
        return entry.with_answer(answer_nothing) if from_above else entry

    return plan.map_entries(recall)


_OF_TREE = "by this run and its children"
"""How a guard of a run above ends its reason."""


def is_limit_on_record(ran: HookRan) -> bool:
    """Whether a hook stopped a run for the time, or for what it and the runs beside it had used."""
    is_time = ran.stop_reason == StopReason.TIME_LIMIT
    return ran.verdict == "stop" and (is_time or ran.reason.endswith(_OF_TREE))


def _is_guard_above(entry: Entry) -> bool:
    """Whether this is a default guard of a run above."""
    registration = entry.registration
    return registration.source == DEFAULT and getattr(registration.hook, "levels", 0) > 0


def _is_of_process(entry: Entry) -> bool:
    """Whether a hook is asked by every process that continues a run. A run that is played has one."""
    return entry.registration.each_process


def _is_end_from_outside(ran: HookRan) -> bool:
    """Whether a hook ended the run because time was up, or because somebody wanted it to end: Ctrl-C, say."""
    said = (ran.stop_reason, *(each.stop_reason for each in ran.evaluations))
    return any(reason in (StopReason.TIME_LIMIT, StopReason.CANCELLED) for reason in said)


def with_judges(plan: Plan, judges: tuple[Entry, ...]) -> Plan:
    """A plan with these judges, in this order in each tier, and with the plan's observers."""
    return plan.with_entries((*judges, *plan.observers))


def is_own(ran: HookRan, above: Plan) -> bool:
    """Whether a recorded hook of a child is the child's own, and not one of those from above."""
    for entry in above.judges:
        if entry.name == ran.hook:
            return entry.registration.source == DEFAULT  # every agent has these, each its own
    return True


# --- tools: there is one for every name that was called -------------------------------------------


async def _never(**_: Any) -> Any:
    """The function of a tool that no longer exists."""


def freeze_args(call: ToolCall) -> FrozenDict:
    """The arguments as they are."""
    return freeze_dict(call.args, f"an argument of the call to '{call.name}'")


class RecordedTool(Tool[..., Any], frozen=True, eq=False, weakref=True):
    """A tool of which only the record is left. It takes a call for what it was taken for then."""

    check: Callable[[ToolCall], FrozenDict] = freeze_args

    def validate_call(self, call: ToolCall) -> ValidArguments:
        """The arguments as they were then; what was refused then is refused again."""
        args = self.check(call)
        return ValidArguments(args, args)


def make_recorded_tools(recording: RecordedRun, step: Callable[[], int], now: Toolbox) -> Toolbox:
    """A tool for every name that was called, whether or not there still is one. `step` is the step that is made."""
    made: dict[str, AnyTool] = {}

    def check(call: ToolCall) -> FrozenDict:
        return _find_recorded_args(recording, step(), now, call)

    effects = {
        call.intent.call.name: Effect(call.intent.effect)
        for calls in recording.calls.values()
        for call in calls.values()
        if call.intent is not None
    }
    limits = dict(_limits(recording))

    def get(name: str) -> AnyTool:
        if name not in made:
            tool = now.get(name)
            made[name] = RecordedTool(
                function=_never if tool is None else tool.function,  # a guard may look whose it is
                spec=ToolSpec(name, "", EMPTY),
                arguments=GivenArguments(name, dict),  # `validate_call` knows which call it is
                origin="the record",
                is_async=True,
                context_name="",
                timeout=None,
                concurrency=None,
                alone=False,
                effect=effects.get(name, Effect.ONCE),
                max_chars=limits.get(name),
                root="" if tool is None else tool.root,
                served_by=() if tool is None else tool.served_by,
                pure_with={} if tool is None else tool.pure_with,
                defaults={} if tool is None else tool.defaults,
                check=check,
            )
        return made[name]

    toolbox = Toolbox(now)
    toolbox.get = get
    return toolbox


def _find_recorded_args(
    recording: RecordedRun, step: int, now: Toolbox, call: ToolCall
) -> FrozenDict:
    """What the arguments of a call were validated to. What hooks of now make of them, the tools of now check."""
    then, turn = recording.call(step, call.id), recording.turn(step)
    response = None if turn is None else turn.answer
    verdicts = recording.verdicts_on(step, call.id)
    is_made = response is not None and call in response.calls
    # Refused as the model made it, when no hook was asked; else as a person had edited it.
    if then.refusal is not None and is_made is not bool(verdicts):
        raise restore_exception(then.refusal)
    changes = [ran.changes or {} for ran in verdicts]
    changed = [each["tool_call"] for each in changes if "tool_call" in each]
    known = [version.args for version in then.versions]
    if is_made and known and not changed:
        return freeze_dict(known[0], "an argument")
    known += [made.get("args", {}) for made in changed]
    tool = now.get(call.name)
    if call.args in known or tool is None:
        return freeze_args(call)
    return tool.validate_call(call).args


_CUT = re.compile(r"\n\[cut here: ([\d,]+) of [\d,]+ characters are shown")


def _limits(recording: RecordedRun) -> Iterator[tuple[str, int]]:
    """How much of a tool's results the model was shown, where something was cut off."""
    for record in recording.steps.values():
        for message in record.messages:
            cut = _CUT.search(message.text) if isinstance(message, ToolMessage) else None
            if isinstance(message, ToolMessage) and cut is not None:
                yield message.name, int(cut[1].replace(",", ""))
