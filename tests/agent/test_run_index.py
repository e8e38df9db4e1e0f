"""The records of a run by key, and what is made of them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import errors
from hookline.agent.run_index import HookRounds, Place, RunIndex, place_of, restore_exception
from hookline.errors import HookAnswerError, HookError, RateLimitError, ToolError
from hookline.flow import ErrorClass, classify
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    HookRan,
    HooksPassed,
    ModelConsulted,
    Record,
    RequestSent,
    ResponseReceived,
    RunTakenUp,
    StepFinished,
    StepStarted,
)
from hookline.state import (
    Decision,
    ErrorInfo,
    InferenceResponse,
    PendingApproval,
    Step,
    ToolCall,
    ToolResult,
)

PLACE: Place = ("before_tool_use", 0, "c1")


def ran(hook: str, verdict: str = "proceed", *, tier: str = "hook", point: str = "") -> HookRan:
    """A hook's verdict about the call, or at another point."""
    where = (point, hook, 0.0, 0, "") if point else ("before_tool_use", hook, 0.0, 0, "c1")
    return HookRan("run", 0, 0.0, *where, tier, verdict)


def passed(*hooks: str) -> HooksPassed:
    """Hooks that had nothing against the call."""
    readings = tuple(range(len(hooks) + 1))
    return HooksPassed(
        "run", 0, 0.0, "before_tool_use", hooks, readings, 0, "c1", ("hook",) * len(hooks)
    )


def heard(*records: Record) -> HookRounds:
    """The rounds of these records."""
    rounds = HookRounds()
    for record in records:
        rounds.add(record)
    return rounds


def names(rounds: HookRounds, place: Place) -> list[list[str]]:
    """The hooks of each round_ at a place."""
    found = []
    while round_ := rounds.at(place, len(found)):
        found.append([each.hook for each in round_])
    return found


def answered() -> Record:
    """Something that is no verdict."""
    return ApprovalAnswered("run", 0, 0.0)


def test_hooks_that_speak_one_after_the_other_speak_of_one_thing() -> None:
    """Whether or not they answered. Observers and hooks around the action do not count."""
    records = (passed("a", "b"), ran("c", "ask"), ran("o", tier="observer"), passed("d"))
    rounds = heard(*records, ran("x", point="around_tool_use"))
    assert names(rounds, PLACE) == [["a", "b", "c", "d"]]
    assert rounds.points() == {"before_tool_use"}


def test_a_call_that_is_judged_again_is_another_round_() -> None:
    """After an answer, or after a verdict that ended the first."""
    rounds = heard(passed("a"), answered(), passed("a"), ran("b", "block"), passed("a"))
    assert names(rounds, PLACE) == [["a"], ["a", "b"], ["a"]]
    assert [each.hook for each in rounds.all_at(PLACE)] == ["a", "a", "b", "a"]


def test_a_guard_that_stood_alone_was_asked() -> None:
    """It has no record of its own."""
    rounds = heard(StepStarted("run", 0, 0.0, 0, "limits"))
    assert names(rounds, ("before_step", 0, "")) == [["limits"]]


def test_errors_count_although_nobody_said_anything_to_them() -> None:
    """So that what is said to the second is not taken for what was said to the first."""
    error = ErrorRaised("run", 0, 0.0, None, "ignore", 0.0, 0)
    rounds = heard(error, ran("e", point="error"), error)
    assert rounds.at(("error", 0, ""), 0) == ()
    assert [each.hook for each in rounds.at(("error", 0, ""), 1)] == ["e"]


def test_what_is_said_after_a_crash_belongs_to_what_was_said_before() -> None:
    """Hooks without an answer are asked, policies answer again; another second answer is about something new."""
    policy = ran("p", "block", tier="policy")
    resumed = RunTakenUp("run", 0, 0.0)
    assert names(heard(passed("a"), resumed, passed("b")), PLACE) == [["a", "b"]]
    again = heard(passed("a"), ran("p", tier="policy"), resumed, policy)
    assert [each.verdict for each in again.at(PLACE, 0)] == ["proceed", "block"]
    assert names(heard(passed("a"), answered(), resumed, passed("a")), PLACE) == [["a"], ["a"]]
    settled = heard(passed("a"), StepFinished("run", 0, 0.0, Step(0)), resumed, passed("b"))
    assert names(settled, PLACE) == [["a"], ["b"]]


def test_points_of_the_run_belong_to_no_step() -> None:
    """Whichever was made last; and only hooks about a call are distinguished by it."""
    assert place_of("output", 3, "") == ("output", None, "")
    assert place_of("error", 3, "c1") == ("error", 3, "")
    assert place_of("after_tool_use", 3, "c1") == ("after_tool_use", 3, "c1")


HEAD = ("run", 0, 0.0)
CALL = ToolCall("c1", "pay", {"amount": 1})


def failed(error_class: ErrorClass = ErrorClass.TOOL, **fields: Any) -> ErrorRaised:
    """Something failed in the first step, and is tried again."""
    info = ErrorInfo("builtins.ValueError", "no", error_class.value)
    return ErrorRaised(*HEAD, error=info, action="retry", step=0, **fields)


def test_what_is_not_on_record_is_nothing() -> None:
    """An empty index has no answer to anything, and is false."""
    index = RunIndex()
    assert not index
    assert index.turn(0) is None
    assert (index.call(0, "c1").intent, index.call(0, "c1").result) == (None, None)
    assert index.ending is None


def test_a_turn_has_what_failed_before_its_answer() -> None:
    """Failures that were tried again come before the answer; those of an earlier first try do not count."""
    lost = failed(ErrorClass.MODEL)
    again = failed(ErrorClass.MODEL)
    records: list[Record] = [
        RequestSent(*HEAD),
        lost,
        RunTakenUp(*HEAD),
        RequestSent(*HEAD),
        again,
        RequestSent(*HEAD, attempt=2),
        ResponseReceived(*HEAD, text="hi"),
    ]
    turn = RunIndex(records).turn(0)
    assert turn is not None
    assert turn.errors == [again]
    assert turn.errors[0] is again
    assert turn.response == InferenceResponse("hi")


def test_a_failure_that_was_not_tried_again_is_the_last() -> None:
    """It is what a replay fails of, and nothing that came before an answer."""
    turn = RunIndex([RequestSent(*HEAD), failed(ErrorClass.MODEL)]).turn(0)
    assert turn is not None
    assert turn.errors == []
    assert turn.failed is not None


@pytest.mark.parametrize(("effect", "known"), [("once", 1), ("pure", 0)])
def test_a_call_in_doubt_keeps_its_failures_if_it_runs_once(effect: str, known: int) -> None:
    """A tool that may run again starts again in the process that resumes it."""
    records = [CallAdmitted(*HEAD, call=CALL, effect=effect), failed(call_id="c1")]
    call = RunIndex([*records, RunTakenUp(*HEAD)]).call(0, "c1")
    assert call.is_in_doubt
    assert len(call.failures) == known
    assert call.errors == []
    settled = RunIndex([*records, CallSettled(*HEAD, result=ToolResult(7, call_id="c1"))])
    assert not settled.call(0, "c1").is_in_doubt
    assert len(settled.call(0, "c1").errors) == 1


def test_answers_are_found_by_their_question() -> None:
    """With the names of the hooks, for replay."""
    asked = PendingApproval("q1", CALL, "sure?", "rule", CALL.fingerprint(), "run")
    index = RunIndex(
        [
            ApprovalAsked(*HEAD, approval=asked),
            ApprovalAnswered(*HEAD, approval_id="q1", decision=Decision.allow(), by="resume"),
        ]
    )
    assert index.asked == {"q1": asked}
    assert index.answers == {"q1": Decision.allow()}
    assert index.call(0, "c1").asked == {"q1": asked}
    assert index.parts[0].resume_answers == {"q1": Decision.allow()}


def test_a_hooks_child_is_found_by_what_it_was_asked() -> None:
    """In its step, in order; a tool's child belongs to its call."""
    index = RunIndex(
        [
            ChildStarted(
                *HEAD, child_run_id="run/0/critic/d1/1", name="critic", call_id="critic/d1/1"
            ),
            ChildFinished(*HEAD, child_run_id="run/0/critic/d1/1", call_id="critic/d1/1"),
            ChildStarted(*HEAD, child_run_id="run/0/c1/1", name="helper", call_id="c1"),
        ]
    )
    assert index.hook_children == {(0, "critic/d1"): ["critic/d1/1"]}
    assert [each.child_run_id for each in index.finished_hook_children] == ["run/0/critic/d1/1"]
    assert index.call(0, "c1").open_children == {"run/0/c1/1"}
    assert index.child_names["run/0/c1/1"] == "helper"


def test_model_answers_to_hooks_are_found_by_step_and_name() -> None:
    """Each time it was asked."""
    said = [ModelConsulted(*HEAD, name="critic", step=2, digest=digest) for digest in "ab"]
    assert RunIndex(said).consultations == {(2, "critic"): said}


def test_verdicts_are_found_by_point_call_and_name() -> None:
    """Those of every tier: observers are not called again either."""
    ran = HookRan(*HEAD, point="before_tool_use", hook="rule", call_id="c1", tier="observer")
    assert RunIndex([ran]).verdicts == {("before_tool_use", "c1", "rule"): [ran]}


OF_MODELS = [kind for kind in ErrorClass if kind not in ("tool", "hook", "unknown")]
error_names = st.sampled_from(
    [
        "ValueError",
        "KeyError",
        "UnicodeDecodeError",
        "SystemExit",
        "OSError",
        "hookline.errors.RateLimitError",
        "hookline.errors.ToolTimeoutError",
        "hookline.errors.HookError",
        "asyncio.exceptions.CancelledError",
        "some.library.module.Strange",
    ]
)


@given(name=error_names, words=st.text(), kind=st.sampled_from([*OF_MODELS, ErrorClass.TOOL]))
def test_an_error_has_the_name_the_words_and_the_class_it_had(
    name: str, words: str, kind: ErrorClass
) -> None:
    """So that what is recorded of it again is what was recorded of it then."""
    info = ErrorInfo(name, words, kind)
    error = restore_exception(info)
    assert ErrorInfo.from_exception(error, kind) == info
    assert kind is ErrorClass.TOOL or classify(error) is kind


class TheirError(Exception):
    """An exception of a user, whose text is made of an attribute."""

    def __init__(self, code: int) -> None:
        raise AssertionError("it is not called")

    def __str__(self) -> str:
        raise AssertionError("it is not called")

    class Inner(Exception):
        """One inside a class."""


class Closed(Exception):
    """A type of which no other can be made."""

    def __init_subclass__(cls) -> None:
        raise TypeError


@pytest.mark.parametrize(
    ("info", "base"),
    [
        (ErrorInfo("ValueError", "no", "tool"), ValueError),
        (ErrorInfo("hookline.errors.RateLimitError", "slow", "rate_limit"), RateLimitError),
        (ErrorInfo("their.RateLimit", "slow", "rate_limit"), RateLimitError),
        (ErrorInfo("their.Error", "no", "tool"), ToolError),
        (ErrorInfo("KeyError", "'x'", "model"), errors.ModelError),
        (ErrorInfo("their.Error", "no", "unknown"), Exception),
        (ErrorInfo("ExceptionGroup", "no (2 sub-exceptions)", "tool"), ToolError),
        (ErrorInfo(f"{__name__}.TheirError", "no", "tool"), TheirError),
        (ErrorInfo(f"{__name__}.TheirError.Inner", "no", "tool"), TheirError.Inner),
        (ErrorInfo(f"{__name__}.TheirError", "no", "unknown"), TheirError),
        (ErrorInfo(f"{__name__}.TheirError", "no", "rate_limit"), RateLimitError),
        (ErrorInfo(f"{__name__}.Closed", "no", "tool"), ToolError),
    ],
)
def test_an_error_is_of_a_kind_that_hooks_know(info: ErrorInfo, base: type[Exception]) -> None:
    """Its own, where that is there and can be made without arguments; else one of its class."""
    error = restore_exception(info)
    assert isinstance(error, base)
    assert ErrorInfo.from_exception(error, info.error_class) == info


@pytest.mark.parametrize(
    ("point", "kind"), [("after_step", ErrorClass.HOOK), ("around_tool_use", ErrorClass.TOOL)]
)
@pytest.mark.parametrize("error", [HookError, HookAnswerError])
def test_the_failure_of_a_hook_names_the_hook_again(
    error: type[HookError], point: str, kind: ErrorClass
) -> None:
    """A run that failed because of it names the hook, also where the failure counts as one of the tool."""
    first = error("size", point, "ValueError: no", remedy="Mend it.")
    again = restore_exception(ErrorInfo.from_exception(first, kind))
    assert type(again) is error
    assert (again.hook, again.point, str(again)) == ("size", point, str(first))


def test_the_failure_of_a_hook_around_a_tool_is_one_without_its_words_too() -> None:
    """They are not on record where a hook withheld the result of the call."""
    again = restore_exception(ErrorInfo("hookline.errors.HookError", "", "tool"))
    assert isinstance(again, HookError)
    assert (again.hook, again.point, str(again)) == ("", "around_tool_use", "")


def test_no_module_is_imported_for_an_error() -> None:
    """The type of an exception is used only if its module is there already."""
    assert "wave" not in sys.modules
    assert isinstance(restore_exception(ErrorInfo("wave.Error", "no", "tool")), ToolError)
    assert "wave" not in sys.modules
