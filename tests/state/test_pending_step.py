from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline import Decision, ToolCall
from hookline.errors import NotJSONError, UsageError
from hookline.state import (
    Answer,
    CallStage,
    ErrorInfo,
    FrozenDict,
    PendingApproval,
    PendingCall,
    PendingStep,
)

CALL = ToolCall("1", "bash", {"command": "rm x"})


def approval(call_id: str) -> PendingApproval:
    """A question about a call."""
    call = ToolCall(call_id, "bash")
    return PendingApproval(f"run/0/{call_id}", call, "sure?", "careful", call.fingerprint(), "run")


def pending(call_id: str, stage: CallStage = CallStage.ASKED, **more: object) -> PendingCall:
    """A call of a paused step."""
    return PendingCall(ToolCall(call_id, "bash"), stage, **more)  # type: ignore[arg-type]


def test_a_decision_is_one_of_three_answers() -> None:
    """Allow, deny or edit, with a reason, for once or for the session."""
    assert Decision.allow() == Decision(Answer.ALLOW)
    assert Decision.allow("fine", remember=True) == Decision(Answer.ALLOW, "fine", None, True)
    assert Decision.deny("no") == Decision(Answer.DENY, "no")
    assert Decision.edit(command="ls").args == {"command": "ls"}


def test_a_decision_can_be_made_from_plain_data() -> None:
    """As a web page sends it: text that names an answer is that answer."""
    for answer in Answer:
        args = {"command": "ls"} if answer is Answer.EDIT else None
        made = Decision(answer.value, "why", args)  # type: ignore[arg-type]
        assert made.answer is answer
    assert Decision("deny", args={}) == Decision.deny()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"answer": "no"}, "'no' is not an answer.* allow, deny, edit"),
        ({"answer": True}, "True is not an answer"),
        ({"answer": "deny", "reason": 5}, "text, not 5"),
        ({"answer": "allow", "reason": {"why": "so"}}, "text, not"),
        ({"answer": "allow", "remember": "yes"}, "remember='yes'"),
        ({"answer": "allow", "args": {"command": "ls"}}, "allow cannot have the arguments"),
        ({"answer": "edit"}, "edit cannot have the arguments None"),
        ({"answer": "edit", "args": ["ls"]}, "edit cannot have the arguments"),
    ],
)
def test_what_is_no_clear_answer_is_no_decision(fields: dict[str, Any], problem: str) -> None:
    """It would be taken for a yes somewhere, or could not be read back from a journal."""
    with pytest.raises(UsageError, match=problem):
        Decision(**fields)


def test_edited_arguments_are_frozen_json() -> None:
    """They go into state, so they must be JSON."""
    decision = Decision.edit(paths=["a"])
    assert type(decision.args) is FrozenDict
    with pytest.raises(NotJSONError, match="an edited argument"):
        Decision.edit(command=object())


def test_the_questions_of_a_step_are_those_that_wait() -> None:
    """In call order, those of child runs included; what is answered or needs no answer is left out."""
    step = PendingStep(
        0,
        "",
        (),
        (
            pending("a", CallStage.ADMITTED),
            pending("b", approval=approval("b")),
            pending("c", CallStage.ADMITTED, approval=approval("c"), decision=Decision.allow()),
            pending("d", CallStage.SUSPENDED, child_approvals=(approval("d1"), approval("d2"))),
        ),
    )
    assert [question.tool_call.id for question in step.approvals()] == ["b", "d1", "d2"]


def test_a_paused_step_survives_json() -> None:
    """With everything that waits in it, and read-only again."""
    step = PendingStep(
        2,
        "let me see",
        (CALL,),
        (
            pending("b", approval=approval("b"), decision=Decision.edit(command="ls")),
            pending(
                "d",
                CallStage.SUSPENDED,
                children={"d/1": {"state": "{}", "output": None}},
                errors=(1,),
            ),
        ),
        active=1.5,
        errors=(ErrorInfo("KeyError", "no"), ErrorInfo("OSError", "dead", "tool")),
    )
    read = msgspec.json.decode(msgspec.json.encode(step), type=PendingStep)
    assert read == step
    children = read.calls[1].children
    assert children is not None
    with pytest.raises(TypeError, match="read-only"):
        children["d/1"] = {}
    with pytest.raises(TypeError, match="read-only"):
        children["d/1"]["output"] = "forged"


def test_a_rule_is_text() -> None:
    """What a web page sends as a rule must be one that can be read."""
    with pytest.raises(UsageError, match="the rule of a decision is text"):
        Decision("allow", rule=["bash"])  # type: ignore[arg-type]
    assert Decision.allow(rule="bash(ls)").remember
