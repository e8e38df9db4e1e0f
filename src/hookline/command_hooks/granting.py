"""What a hook that answers for a person says besides yes or no: for how long, and whether the run is over."""

from __future__ import annotations

from typing import Any

from hookline.errors import HooklineError, UsageError
from hookline.permissions import Rule, suggest_rule
from hookline.state import ToolCall

RULES = "rules"


def interrupts(event: str, specific: dict[str, Any]) -> bool:
    """Whether a refusal ends the run, besides."""
    given = specific.get("decision")
    is_answer = event == "PermissionRequest" and isinstance(given, dict)
    return is_answer and given.get("interrupt") is True  # type: ignore[union-attr]


def granted(specific: dict[str, Any]) -> dict[str, Any] | None:
    """The rules that an answer adds for calls like the one in question, under one key; None if it adds none.

    Modes, directories and rules for files are not a hook's to change here.
    """
    decision = specific.get("decision")
    updates = decision.get("updatedPermissions") if isinstance(decision, dict) else None
    rules: list[str] = []
    for update in updates if isinstance(updates, list) else ():
        if isinstance(update, dict) and update.get("type") == "addRules":
            said = update.get("rules")
            is_allow = update.get("behavior", "allow") == "allow"
            rules += filter(None, map(_rule, said if is_allow and isinstance(said, list) else ()))
    return {RULES: rules} if rules else None


def _rule(said: Any) -> str:
    if isinstance(said, str):
        return said
    name, content = (
        (said.get("toolName"), said.get("ruleContent")) if isinstance(said, dict) else (0, 0)
    )
    if not isinstance(name, str):
        return ""
    return f"{name}({content})" if isinstance(content, str) and content else name


def suggestions(call: ToolCall, name: str, cwd: str) -> list[dict[str, Any]]:
    """What a hook may answer with to say yes to calls like this one too, for the rest of the session.

    None for files: a yes to one says little about the others.
    """
    try:
        rule = None if "path" in call.args else suggest_rule(call, cwd)
    except HooklineError:  # what reads commands is not installed
        return []
    if rule is None:
        return []
    content = {} if rule.argument is None else {"ruleContent": rule.argument}
    rules = [{"toolName": name, **content}]
    return [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]


def rule_for(call: ToolCall, extra: dict[str, Any] | None) -> str:
    """The first of the rules that is about the call; empty if none is. What is about others is not granted by it."""
    for text in (extra or {}).get(RULES, ()):
        try:
            if Rule.parse(text).covers(call):
                return str(text)
        except UsageError:
            continue
    return ""
