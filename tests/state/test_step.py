from __future__ import annotations

import msgspec
import pytest

from hookline.state import (
    ContinuationOutcome,
    ErrorInfo,
    ResultStatus,
    Step,
    StepType,
    ToolCall,
    ToolResult,
    Usage,
)

ERROR = ErrorInfo("ValueError", "bad", "tool")


def test_a_step_is_counted_from_zero_and_from_one() -> None:
    """The index is for machines, the number for people."""
    assert (Step(0).number, Step(41).number) == (1, 42)


@pytest.mark.parametrize("kind", StepType)
def test_only_an_answer_without_calls_is_a_final_response(kind: StepType) -> None:
    """The type says so."""
    assert Step(0, kind).is_final_response is (kind is StepType.FINAL_RESPONSE)


def test_a_step_knows_whether_something_failed_in_it() -> None:
    """Errors of the step and of its calls count; a block is no error."""
    call = ToolCall("1", "add")
    failed = ToolResult(None, ERROR, ResultStatus.ERROR)
    blocked = ToolResult(status=ResultStatus.BLOCKED, reason="no")
    assert not Step(0).has_errors
    assert not Step(0, calls=(call,), results=(blocked,)).has_errors
    assert Step(0, calls=(call,), results=(failed,)).has_errors
    assert Step(0, errors=(ERROR,)).has_errors


def test_a_step_survives_json() -> None:
    """With its calls, results, usage, errors and outcome."""
    step = Step(
        3,
        StepType.TOOL_USE,
        "let me see",
        (ToolCall("1", "add", {"a": [1]}),),
        (ToolResult(None, ERROR, ResultStatus.ERROR, "1", "add", duration=0.25),),
        Usage(1, 2, 1, 0.5),
        1_700_000_000.25,
        1.5,
        (ERROR,),
        ContinuationOutcome.from_evaluations([]),
    )
    assert msgspec.json.decode(msgspec.json.encode(step), type=Step) == step
