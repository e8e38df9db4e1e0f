"""The fields of an answer in Claude Code's protocol: which types they have, and which words they know."""

from __future__ import annotations

from typing import Any

from hookline.command_hooks.answers import UNCHANGED, refuse_wrong_types

DECISIONS = {"approve": "allow", "allow": "allow", "block": "deny", "deny": "deny"}
_FIELDS: dict[str, tuple[type, ...]] = {
    "continue": (bool,),
    "stopReason": (str,),
    "suppressOutput": (bool,),
    "systemMessage": (str,),
    "terminalSequence": (str,),
    "decision": (str,),
    "reason": (str,),
    "hookSpecificOutput": (dict,),
}
_SPECIFIC: dict[str, tuple[type, ...]] = {
    "permissionDecision": (str,),
    "permissionDecisionReason": (str,),
    "updatedInput": (dict,),
    "additionalContext": (str,),
    "sessionTitle": (str,),
}


def problem_in(found: dict[str, Any]) -> str:
    """What is wrong with an answer; keys that nobody knows are not."""
    problem = refuse_wrong_types(found, _FIELDS)
    if problem:
        return problem
    specific = found.get("hookSpecificOutput") or {}
    problem = refuse_wrong_types(specific, _SPECIFIC)
    decision, word = specific.get("permissionDecision"), found.get("decision")
    if not problem and decision not in (None, "allow", "deny", "ask", "defer"):
        problem = f"'permissionDecision' is {decision!r}"
    if not problem and word not in (None, *DECISIONS):
        problem = f"'decision' is {word!r}"
    return problem


def new_output(specific: dict[str, Any]) -> Any:
    """What a tool has given, as a hook wants it to be."""
    for key in ("updatedToolOutput", "updatedMCPToolOutput"):
        if key in specific:
            return specific[key]
    return UNCHANGED


def words(value: object) -> tuple[str, ...]:
    """What the user is told."""
    return (value,) if isinstance(value, str) and value.strip() else ()
