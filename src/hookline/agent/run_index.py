"""The records of a run by key: step, point or kind, call id, name, attempt.

The one index for resume, replay and back-test. Resume reads into it the records of the step that was not settled, the
others read the whole run. Nothing in an index changes while it is used: who has read an answer counts that itself.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from hookline.errors import HookAnswerError, HookError, HooklineError
from hookline.flow import ErrorClass, classify
from hookline.flow.error_policy import exception_type
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    EffectStarted,
    ErrorRaised,
    HookRan,
    HooksPassed,
    ModelConsulted,
    PromptSubmitted,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
    StepStarted,
    hooks_in,
)
from hookline.journal.inbox import FROM_INBOX
from hookline.lifecycle import HookPoint
from hookline.state import (
    Decision,
    Ending,
    ErrorInfo,
    InferenceResponse,
    PendingApproval,
    ResultStatus,
    StopReason,
    ToolCall,
    ToolResult,
)
from hookline.tools import Effect

# --- rounds of hooks: who was asked about one thing, one after the other, and what they said ------


Place: TypeAlias = tuple[str, int | None, str]
"""Where hooks are asked: the point, the step, and the call where it is about one."""
Round: TypeAlias = tuple[HookRan, ...]
"""The hooks that were asked one after the other about one thing, with their verdicts; observers are left out."""

ABOUT_CALLS = frozenset(
    point.value for point in HookPoint if point.is_tool_event and not point.around
)
"""Points whose hooks are asked about one call."""
BEFORE_CALLS = ABOUT_CALLS - {HookPoint.AFTER_TOOL_USE.value}
"""Those of them that come before the tool runs."""
ABOUT_CHILDREN = ("subagent_start", "subagent_stop")
"""Points whose hooks are asked about one child run."""
AT_THE_END = ("output", "agent_failed", "execution_end", "session_end")
"""Points on the way out of a run."""
OUTSIDE_STEPS = frozenset({"session_start", "execution_start", "prompt_submit", *AT_THE_END})
"""Points that belong to no step, whichever was made last."""
MADE_AGAIN = "a hook around the step runs another step"
"""The reason of the outcome of a step after which a hook around it called `next` again."""
_JUDGED_AFTER_STOP = frozenset(point.value for point in HookPoint if point.judged_after_stop)


class HookRounds:
    """The rounds of one drive of a run, by place and in order."""

    def __init__(self) -> None:
        self._at: dict[Place, list[list[HookRan]]] = defaultdict(list)
        self._open: dict[Place, list[HookRan]] = {}
        self._unsettled: dict[Place, list[HookRan]] = {}
        self._taken_up: dict[Place, list[HookRan]] = {}
        """What was said of a step before its process died: what is said of it afterwards belongs to the same."""
        self._settled = -1
        self._again: list[HookRan] | None = None
        self.again: dict[int, list[list[HookRan]]] = defaultdict(list)
        """What hooks said to a process that took the run up, by the last step that was settled then, or -1."""

    def add(self, record: Record) -> None:
        """Take in the next record."""
        if isinstance(record, HookRan | HooksPassed):
            for ran in hooks_in((record,)):
                self._note(ran)
            return
        if isinstance(record, ModelConsulted | EffectStarted):
            return  # a hook is in the middle of its answer
        place = _place_before(record)
        if place is not None:
            is_known = self._taken_up.pop(place, None) is not None or place in self._open
            if not is_known:
                self._at[place].append([])
        # A child that a hook starts is in the middle of the hook's answer: only the rounds about the child are over.
        is_of_hook = isinstance(record, ChildStarted | ChildFinished) and _is_of_hook(record)
        for known in [each for each in self._open if not is_of_hook or each[0] in ABOUT_CHILDREN]:
            self._taken_up.pop(known, None)  # what a dead process began of it is complete now
            del self._open[known]
        for ran in hooks_in((record,)):  # a default guard that stood alone
            self._note(ran)
        if isinstance(record, RunTakenUp):
            self._taken_up = dict(self._unsettled)
            self._again = []
            self.again[self._settled].append(self._again)
        elif isinstance(record, StepStarted | StepFinished):
            if isinstance(record, StepFinished):
                self._settled = record.step.index
                self._unsettled.clear()
                self._taken_up.clear()
            self._open.clear()

    def _note(self, ran: HookRan) -> None:
        if ran.tier == "observer" or ran.point.startswith("around_"):
            return
        if ran.point == HookPoint.EXECUTION_START and self._again is not None:
            self._again.append(ran)
            return
        place = place_of(ran.point, ran.step, ran.call_id)
        known = self._open.get(place)
        if known is None:
            known = self._find_open_round(place, ran)
        if known is None or (known and _is_over(known, ran)):
            known = []
            self._at[place].append(known)
        known.append(ran)
        self._open[place] = self._unsettled[place] = known

    def _find_open_round(self, place: Place, ran: HookRan) -> list[HookRan] | None:
        """The round that was open when the process died, if this belongs to it.

        Policies are asked again in it about a call that has not started. Who speaks again elsewhere begins another.
        """
        known = self._taken_up.get(place)
        if known is None:
            return None
        said_before = [other for other in known if other.hook == ran.hook]
        is_anew = ran.tier == "policy" and ran.point == HookPoint.BEFORE_TOOL_USE
        if said_before and not is_anew:
            del self._taken_up[place]
            return None
        known[:] = [other for other in known if other not in said_before]
        return known

    def points(self) -> set[str]:
        """The points at which hooks were asked."""
        return {place[0] for place, rounds in self._at.items() if any(rounds)}

    def all_at(self, place: Place) -> list[HookRan]:
        """Everything that was said there."""
        return [ran for round_ in self._at.get(place, []) for ran in round_]

    def at(self, place: Place, number: int) -> Round:
        """What was said there in this round, counted from zero; nothing if that is not on record."""
        rounds = self._at.get(place, [])
        return tuple(rounds[number]) if number < len(rounds) else ()


def place_of(point: str, step: int | None, call_id: str) -> Place:
    """The place hooks are asked at. Only hooks about a call are distinguished by the call."""
    is_in_step = point not in OUTSIDE_STEPS
    return point, step if is_in_step else None, call_id if point in ABOUT_CALLS else ""


def _place_before(record: Record) -> Place | None:
    """Where hooks have been asked by the time of a record, also when there is nothing on record of it."""
    if isinstance(record, ChildStarted):
        return HookPoint.SUBAGENT_START.value, _step_of(record), ""
    if isinstance(record, ErrorRaised) and record.action != "fallback":
        return HookPoint.ERROR.value, record.step, ""
    return None


def _is_over(round_: list[HookRan], following: HookRan) -> bool:
    """Whether the last verdict ended its chain: the next one belongs to another round."""
    last = round_[-1]
    if last.shadow or last.verdict not in ("block", "stop"):
        return False
    # Where a stop undoes nothing, policies judge all the same.
    is_judged = last.verdict == "stop" and following.tier == "policy"
    return not (is_judged and following.point in _JUDGED_AFTER_STOP)


# --- the index ------------------------------------------------------------------------------------


_SPENT = frozenset({StopReason.TOKEN_LIMIT, StopReason.TIME_LIMIT, StopReason.COST_LIMIT})
"""What a run stops for when its turn leaves no room for calls."""
_CUT_SHORT = (ResultStatus.CANCELLED, ResultStatus.NOT_RUN)


def is_limit_stop(ran: HookRan) -> bool:
    """Whether a limit stopped a call before hooks were asked about it. The limit on calls comes after them."""
    is_limit = ran.hook == "limits" and ran.verdict == "stop" and ran.stop_reason in _SPENT
    return is_limit and ran.point == "before_tool_use"


class RecordedTurn(msgspec.Struct):
    """What came of asking the model in one step."""

    errors: list[ErrorRaised] = msgspec.field(default_factory=list)
    """What failed and was tried again, with what the error policy decided."""
    failed: ErrorRaised | None = None
    """What failed last, if it was not tried again."""
    answer: ResponseReceived | None = None
    is_asked: bool = False
    is_lost: bool = False
    """It answered, and a hook failed over the answer, which is not on record then."""

    @property
    def response(self) -> InferenceResponse | None:
        """The answer as the hooks left it."""
        answer = self.answer
        if answer is None:
            return None
        return InferenceResponse(
            text=answer.text,
            calls=answer.calls,
            usage=answer.usage,
            model=answer.model,
            reasoning=answer.reasoning,
            finish=answer.finish if answer.truncated else "",
            provider_tool_uses=answer.provider_tool_uses,
        )


class RecordedCall(msgspec.Struct):
    """What came of one tool call."""

    intent: CallAdmitted | None = None
    """The call as it was about to run. With an intent and no result, the call is in doubt."""
    result: ToolResult | None = None
    """As the hooks left it."""
    refusal: ErrorInfo | None = None
    """Why it was invalid, if it was. That is on record before its result is."""
    at: float = 0.0
    errors: list[ErrorRaised] = msgspec.field(default_factory=list)
    """How the tool failed, in the process that came to its result."""
    failures: list[ErrorRaised] = msgspec.field(default_factory=list)
    """The same with what hooks around it failed at, and, for a call that runs once, in every process."""
    children: list[list[ChildStarted]] = msgspec.field(default_factory=list)
    """The child runs it started; those in one list were there at the same time."""
    open_children: set[str] = msgspec.field(default_factory=set)
    """Those that were not done."""
    finished_children: list[ChildFinished] = msgspec.field(default_factory=list)
    asked: dict[str, PendingApproval] = msgspec.field(default_factory=dict)
    """Every question about it, in order, by its id."""
    questions: list[PendingApproval] = msgspec.field(default_factory=list)
    """What the tool itself asked whoever approves."""
    versions: list[ToolCall] = msgspec.field(default_factory=list)
    """The call as it was judged, asked about and run."""

    @property
    def is_in_doubt(self) -> bool:
        """The call had started, and nobody knows what came of it."""
        return self.intent is not None and self.result is None


NO_CALL = RecordedCall()


class RunPart(msgspec.Struct):
    """One drive of a run: from its start, or from a resume, to its end or to a pause."""

    started: RunStarted | None = None
    prompt: PromptSubmitted | None = None
    resume_answers: dict[str, Decision] = msgspec.field(default_factory=dict)
    """The answers that were given to `resume`, by question."""
    approved: dict[str, list[Decision]] = msgspec.field(default_factory=dict)
    """Those of an approver."""
    rounds: HookRounds = msgspec.field(default_factory=HookRounds)
    around_steps: dict[int, tuple[list[HookRan], list[HookRan]]] = msgspec.field(
        default_factory=dict
    )
    """What hooks around a step changed before it and after it, by step."""
    finished: RunFinished | None = None


class RunIndex:
    """The records of one run, or of the end of one, by key."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: Sequence[Record] = tuple(records)
        self.parts: list[RunPart] = []
        self.turns: dict[int, RecordedTurn] = {}
        self.calls: dict[int, dict[str, RecordedCall]] = {}
        """By step, and then by call id."""
        self.begun: set[int] = set()
        """The steps that began."""
        self.steps: dict[int, StepFinished] = {}
        self.errors: list[ErrorRaised] = []
        """What failed, in order, where the error policy had a say."""
        self.consultations: dict[tuple[int | None, str], list[ModelConsulted]] = {}
        """What models answered hooks, by step and name."""
        self.asked: dict[str, PendingApproval] = {}
        self.answers: dict[str, Decision | None] = {}
        """What was asked of people, and what they answered, by the id of the question."""
        self.child_names: dict[str, str] = {}
        self.ended_children: dict[str, ChildFinished] = {}
        self.hook_children: dict[tuple[int, str], list[str]] = {}
        """The keys of child runs that hooks started, by step and by what was asked."""
        self.spent_steps: set[int] = set()
        """The steps whose calls were stopped because a limit was used up."""
        self.status: StatusChanged | None = None
        self.first_status: StatusChanged | None = None
        self.raised: list[ErrorInfo] = []
        """Everything that failed, in order."""
        self.reasons: set[str] = set()
        """Every reason for something that was not let through, or failed."""
        self._waits = False
        """The model was asked, and has not answered."""
        self._is_ending = False
        """The last part of the run has ended, and is on its way out."""
        self._step = 0
        for record in self.records:
            self._read(record)

    def __bool__(self) -> bool:
        return bool(self.records)

    def turn(self, step: int) -> RecordedTurn | None:
        """What came of asking the model in a step."""
        return self.turns.get(step)

    def call(self, step: int, call_id: str) -> RecordedCall:
        """What is known of a call."""
        return self.calls.get(step, {}).get(call_id, NO_CALL)

    def count_settled_calls(self, step: int) -> int:
        """How many calls of a step had come to their end when it ended."""
        results = self.results(step)
        return sum(result.status not in _CUT_SHORT for result in results)

    def results(self, step: int) -> list[ToolResult]:
        """What came of the calls of a step that were started."""
        calls = self.calls.get(step, {}).values()
        return [
            each.result for each in calls if each.intent is not None and each.result is not None
        ]

    @property
    def ending(self) -> Ending | None:
        """How the run had ended, when only its way out is left: at first, before hooks on the way out failed."""
        first = self.first_status
        if first is None:
            return None
        assert first.stop_reason is not None
        return Ending(
            status=first.status,
            stop_reason=first.stop_reason,
            reason=first.reason,
            decided_by=first.decided_by,
        )

    @property
    def finished_hook_children(self) -> list[ChildFinished]:
        """The children that hooks had started and that were done."""
        ended = self.ended_children.values()
        return [each for each in ended if _is_of_hook(each)]

    @cached_property
    def verdicts(self) -> dict[tuple[str, str, str], list[HookRan]]:
        """What hooks said, by point, call id and name: for records of one step, in which that is enough."""
        found: dict[tuple[str, str, str], list[HookRan]] = defaultdict(list)
        for ran in hooks_in(self.records):
            found[ran.point, ran.call_id, ran.hook].append(ran)
        return found

    @cached_property
    def points(self) -> frozenset[str]:
        """The points at which hooks were asked for a verdict."""
        return frozenset(point for part in self.parts for point in part.rounds.points())

    # --- reading, once ----------------------------------------------------------------------------

    def _read(self, record: Record) -> None:
        if isinstance(record, RunStarted) or not self.parts:
            self.parts.append(RunPart(record if isinstance(record, RunStarted) else None))
            self._is_ending = False
        part = self.parts[-1]
        part.rounds.add(record)
        step = getattr(record, "step", None)
        self._step = step if isinstance(step, int) else self._step
        match record:
            case HookRan() if is_limit_stop(record):
                self.spent_steps.add(record.step or 0)
            case HookRan() if record.point == HookPoint.AROUND_STEP and not record.shadow:
                before, after = part.around_steps.setdefault(record.step or 0, ([], []))
                (after if record.is_made else before).append(record)
            case PromptSubmitted():
                part.prompt = record
            case StepStarted():
                self.begun.add(record.step)
            case RequestSent():
                turn = self._turn(record.step)
                turn.is_asked = True
                # A process that takes the run up asks again, and the failure over the answer is on record already.
                self._waits = not turn.is_lost
                if record.attempt == 1:
                    turn.errors = []
                elif turn.failed is not None:
                    turn.errors.append(turn.failed)
                turn.failed = None
            case ResponseReceived():
                self._turn(record.step).answer = record
                self._waits = False
            case ModelConsulted():
                self.consultations.setdefault((record.step, record.name), []).append(record)
            case StepFinished():
                self._settle(record)
            case StatusChanged():
                self.status = record
                self._is_ending = True
                self.first_status = self.first_status or record
                self.reasons.add(record.reason)
            case RunFinished():
                part.finished = record
            case RunTakenUp():
                self._resume()
            case ErrorRaised():
                self._fail(record)
            case ChildStarted():
                self._start_child(record)
            case ChildFinished():
                self.ended_children[record.child_run_id] = record
                call = self._call(_step_of(record), record.call_id)
                call.open_children.discard(record.child_run_id)
                call.finished_children.append(record)
            case _:
                self._read_call(part, record)

    def _turn(self, step: int) -> RecordedTurn:
        return self.turns.setdefault(step, RecordedTurn())

    def _call(self, step: int, call_id: str) -> RecordedCall:
        calls = self.calls.setdefault(step, {})
        if call_id not in calls:
            calls[call_id] = RecordedCall()
        return calls[call_id]

    def _read_call(self, part: RunPart, record: Record) -> None:
        match record:
            case CallAdmitted():
                call = self._call(record.step, record.call.id)
                call.intent, call.refusal, call.failures = record, None, []  # it runs after all
                call.versions.append(record.call)
            case CallSettled():
                call = self._call(record.step, record.result.call_id)
                call.result, call.at = record.result, record.at
                self.reasons.add(record.result.reason)
            case ApprovalAsked() if record.approval is not None:
                self.asked[record.approval.id] = record.approval
                self._ask(record.step, record.approval)
            case ApprovalAnswered():
                decision = self.answers[record.approval_id] = record.decision
                if decision is None:
                    return
                self.reasons.add(decision.reason)
                if record.by == "resume" or record.by.startswith(FROM_INBOX):
                    part.resume_answers[record.approval_id] = decision
                elif record.by in ("approver", "expiry"):
                    part.approved.setdefault(record.approval_id, []).append(decision)

    def _ask(self, step: int, approval: PendingApproval) -> None:
        call_id, is_of_tool, _ = approval.tool_call.id.partition("/ask-")
        self._call(step, approval.tool_call.id).asked[approval.id] = approval
        if is_of_tool:
            self._call(step, call_id).questions.append(approval)
        else:
            self._call(step, call_id).versions.append(approval.tool_call)

    def _settle(self, record: StepFinished) -> None:
        self.steps[record.step.index] = record
        self._waits = False
        for call in record.step.calls:
            self._call(record.step.index, call.id).versions.append(call)

    def _fail(self, record: ErrorRaised) -> None:
        info, step = record.error, record.step or 0
        assert info is not None
        self.raised.append(info)
        self.reasons.add(info.message)
        if record.action != "fallback":
            self.errors.append(record)
        if record.call_id:
            call = self._call(step, record.call_id)
            if call.intent is not None or info.error_class != ErrorClass.VALIDATION:
                call.failures.append(record)
            else:
                call.refusal = info
            if info.error_class == ErrorClass.TOOL:
                call.errors.append(record)
        elif self._waits:
            turn = self._turn(step)
            self._waits = record.action == "fallback"
            if info.error_class == ErrorClass.HOOK and " at after_inference: " in info.message:
                turn.is_lost = True
            elif self._waits:
                turn.errors.append(record)
            else:
                turn.failed = record

    def _resume(self) -> None:
        """A process died. What had failed in its last step and had come to nothing is not what fails next."""
        step = self._step
        self._waits = False
        if step in self.steps or self._is_ending:
            return
        self.parts[-1].around_steps.pop(step, None)
        turn = self._turn(step)
        lost: list[ErrorRaised | None] = []
        if turn.answer is None:
            lost += [*turn.errors, turn.failed]
            turn.errors = []
        turn.failed = None
        for call in self.calls.get(step, {}).values():
            if call.result is None:
                stays = [each for each in call.failures if _is_refusal(each)]
                lost += [each for each in call.failures if each not in stays]
                call.errors = []
                if call.intent is None or call.intent.effect != Effect.ONCE:
                    call.failures = stays
        # What hooks failed at and calls that were invalid or not let through stay: the next process does not write them
        # a second time.
        gone = set(map(id, lost))
        self.errors = [error for error in self.errors if id(error) not in gone]

    def _start_child(self, record: ChildStarted) -> None:
        step, key = _step_of(record), _key_in_step(record)
        self.child_names[record.child_run_id] = record.name
        if _is_of_hook(record):
            self.hook_children.setdefault((step, key.rpartition("/")[0]), []).append(key)
        call = self._call(step, record.call_id)
        if not call.open_children:
            call.children.append([])
        call.open_children.add(record.child_run_id)
        call.children[-1].append(record)


def _is_refusal(record: ErrorRaised) -> bool:
    """Whether a call did not run because somebody said no."""
    return record.error is not None and record.error.error_class == ErrorClass.BLOCKED


def _key_in_step(child: ChildStarted | ChildFinished) -> str:
    """The end of a child's id, which tells it from the others of its step. A hook's child has it as its call id."""
    return child.child_run_id.removeprefix(f"{child.run_id}/").partition("/")[2]


def _is_of_hook(child: ChildStarted | ChildFinished) -> bool:
    """Whether a hook started it, and not a tool."""
    return _key_in_step(child) == child.call_id


def _step_of(child: ChildStarted | ChildFinished) -> int:
    """The step is not in the record, and is in the child's id: run, step, call, number. 0 before the first."""
    step = child.child_run_id.removeprefix(f"{child.run_id}/").partition("/")[0]
    return 0 if step == "None" else int(step)


# --- exceptions as they were, made of what the journal keeps of them ------------------------------


_OF_HOOK = re.compile(r"hook '(?P<hook>.*?)' at (?P<point>\w+): (?P<problem>.*)", re.DOTALL)


def hook_error_of(info: ErrorInfo) -> HookError | None:
    """The failure of a hook, from its words; None if they are not those of one."""
    said = _OF_HOOK.fullmatch(info.message)
    return said and hook_error_class(info)(said["hook"], said["point"], said["problem"])


def hook_error_class(info: ErrorInfo | None) -> type[HookError]:
    """What the failure of a hook was: a crash, or an answer that has no meaning."""
    is_answer = info is not None and info.type.endswith(f".{HookAnswerError.__name__}")
    return HookAnswerError if is_answer else HookError


def restore_exception(info: ErrorInfo) -> Exception:
    """An exception that has the name, the words and the class of the one that was recorded, and its type if possible.

    So the error policy and the error hooks take it for what it was.
    """
    for base in (_find_type(info.type), exception_type(info.error_class)):
        try:
            made = None if base is None else _make_exception(base, info)
        except Exception:  # a type of others may refuse to be made without its arguments
            continue
        # Whatever a tool raises is an error of a tool; all others are what their type says.
        if made and info.error_class in (ErrorClass.TOOL, classify(made)):
            return made
    return _make_exception(HooklineError, info)


def _find_type(name: str) -> type[Exception] | None:
    """The type of an exception, if its module is there: none is imported for it, and no code runs."""
    parts = ("builtins." * ("." not in name) + name).split(".")
    for length in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:length]))
        for part in parts[length:]:
            found = getattr(found, "__dict__", {}).get(part)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


def _make_exception(base: type[Exception], info: ErrorInfo) -> Exception:
    module, _, name = info.type.rpartition(".")
    body = {
        "__module__": module or "builtins",
        "__qualname__": name,
        "__init__": _say_nothing,
        "__str__": lambda _: info.message,
        "message": info.message,
        "remedy": "",
        "retry_after": None,
    }
    if issubclass(base, HookError):
        of_hook = hook_error_of(info)
        if of_hook is not None:
            return of_hook
        # Its words are withheld. What is an error of a tool was the failure of a hook around one.
        is_around = info.error_class == ErrorClass.TOOL
        point = HookPoint.AROUND_TOOL_USE.value if is_around else ""
        body |= {"hook": "", "point": point, "problem": info.message}
    kind: type[Exception] = type(name, (base,), body)
    return kind()


def _say_nothing(self: Exception) -> None:
    """Whatever arguments the original took, this one needs none."""
