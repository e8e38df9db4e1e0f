"""The index of a run's records: every answer is found under its key, whoever asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.agent.records.index import RunIndex
from hookline.flow import ErrorClass
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    HookRan,
    ModelConsulted,
    Record,
    RequestSent,
    ResponseReceived,
    RunTakenUp,
)
from hookline.state import (
    Decision,
    ErrorInfo,
    InferenceResponse,
    PendingApproval,
    ToolCall,
    ToolResult,
)

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
    """One that may run again begins anew in the process that takes it up."""
    records = [CallAdmitted(*HEAD, call=CALL, effect=effect), failed(call_id="c1")]
    call = RunIndex([*records, RunTakenUp(*HEAD)]).call(0, "c1")
    assert call.is_in_doubt
    assert len(call.failures) == known
    assert call.errors == []
    settled = RunIndex([*records, CallSettled(*HEAD, result=ToolResult(7, call_id="c1"))])
    assert not settled.call(0, "c1").is_in_doubt
    assert len(settled.call(0, "c1").errors) == 1


def test_answers_are_found_by_their_question() -> None:
    """With who gave them, for whoever plays the run."""
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
    assert index.parts[0].handed_over == {"q1": Decision.allow()}


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


def test_what_models_told_hooks_is_found_by_step_and_name() -> None:
    """Each time it was asked."""
    said = [ModelConsulted(*HEAD, name="critic", step=2, digest=digest) for digest in "ab"]
    assert RunIndex(said).consultations == {(2, "critic"): said}


def test_verdicts_are_found_by_point_call_and_name() -> None:
    """Those of every tier: observers are not called again either."""
    ran = HookRan(*HEAD, point="before_tool_use", hook="rule", call_id="c1", tier="observer")
    assert RunIndex([ran]).verdicts == {("before_tool_use", "c1", "rule"): [ran]}
