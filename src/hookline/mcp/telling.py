"""What the client of a served agent is told: how a run goes, what it asks, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types

from hookline.agent import RunResult
from hookline.journal import (
    ApprovalAsked,
    CallAdmitted,
    ChildStarted,
    Record,
    StepStarted,
    ToolProgress,
)
from hookline.state import Decision, PendingApproval, RunStatus, render

_LONGEST = 500

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {
            "type": "string",
            "enum": ["allow", "deny"],
            "title": "May it?",
        },
        "reason": {"type": "string", "title": "Why", "description": "The agent reads this."},
    },
    "required": ["answer"],
}
"""What a person fills in who is asked about a call."""

OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The agent's answer."},
        "status": {"type": "string", "enum": [status.value for status in RunStatus]},
        "why": {"type": "string", "description": "Why the run ended."},
        "run_id": {"type": "string"},
        "steps": {"type": "integer"},
        "pending": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What a person would have to allow for the run to go on.",
        },
    },
    "required": ["text", "status", "why", "run_id", "steps", "pending"],
}


def progress_of(record: Record) -> str:
    """What a record says about how a run goes; empty for those that are not news to the client."""
    match record:
        case StepStarted():
            return f"step {record.step + 1}"
        case CallAdmitted():
            return f"calls {record.call.name}"
        case ToolProgress():
            return _cut(f"{record.name}: {render(record.message)}")
        case ApprovalAsked(approval=PendingApproval() as approval):
            return f"asks whether it may call {approval.tool_call.name}"
        case ChildStarted():
            return f"starts {record.name}"
        case _:
            return ""


def question(approval: PendingApproval) -> str:
    """A call that waits for a person, in words."""
    call = approval.tool_call
    return (
        f"May the agent call {call.name} with {_cut(render(call.args))}? "
        f"{approval.asked_by} asks: {approval.reason}"
    )


def decided(
    approvals: Iterable[PendingApproval], answers: Mapping[str, object] | None
) -> dict[str, Decision]:
    """What the answers to the form mean; who did not answer has not decided."""
    decisions: dict[str, Decision] = {}
    for approval in approvals:
        answer = (answers or {}).get(approval.id)
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            continue
        content = answer.content or {}
        reason = str(content.get("reason") or "")
        yes = answer.action == "accept" and content.get("answer") == "allow"
        decisions[approval.id] = Decision.allow(reason) if yes else Decision.deny(reason)
    return decisions


def answered(result: RunResult) -> types.CallToolResult:
    """The result of a run as the result of the tool. A run that has no answer to give is an error."""
    is_error = result.status not in (RunStatus.COMPLETED, RunStatus.STOPPED)
    pending = [question(approval) for approval in result.pending]
    text = result.text
    if result.status is not RunStatus.COMPLETED:
        text = "\n".join(part for part in (text, f"[{result.explain()}]", *pending) if part)
    structured = {
        "text": result.text,
        "status": result.status.value,
        "why": result.explain(),
        "run_id": result.run_id,
        "steps": len(result.steps),
        "pending": pending,
    }
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=structured, is_error=is_error
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
