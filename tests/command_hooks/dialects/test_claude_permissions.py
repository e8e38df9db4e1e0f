"""Answers of hooks that hold for more than one call: `updatedPermissions`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline import RunStatus
from hookline.capabilities import Approval
from hookline.command_hooks.dialects.claude.protocol import granted_rules
from hookline.testing import call, say


def answering(stage: Any, *updates: Any) -> Any:
    """A hook that says yes once, and grants this besides; after that it says nothing."""
    decision = {"behavior": "allow", "updatedPermissions": list(updates)}
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    once = f"[ -e asked ] || {{ touch asked; echo '{json.dumps(said)}'; }}"
    return stage.claude("PermissionRequest", once)


def ended(stage: Any, hooks: Any) -> RunStatus:
    """How a run ends that asks about two commands."""
    turns = [call("bash", command="git push"), call("bash", command="git push -f"), say("done")]
    result = stage.run(hooks, *turns, with_capability=Approval(ask=["bash"]))
    return result.status  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "rule",
    [{"toolName": "Bash", "ruleContent": "git push:*"}, "Bash(git push *)", {"toolName": "Bash"}],
)
def test_a_rule_about_the_call_holds_for_the_session(stage: Any, rule: Any) -> None:
    """So no person is asked about the next call like it."""
    update = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
    assert ended(stage, answering(stage, update)) is RunStatus.COMPLETED


@pytest.mark.parametrize(
    "update",
    [
        {"type": "addRules", "rules": [{"toolName": "Write"}]},
        {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "deny"},
        {"type": "setMode", "mode": "bypassPermissions"},
        {"type": "addRules", "rules": "Bash"},
        {"type": "addRules", "rules": [7, {}, {"toolName": 7}, "Bash(("]},
        "addRules",
    ],
)
def test_anything_else_grants_this_call_only(stage: Any, update: Any) -> None:
    """A rule about something else, a mode, and what makes no sense."""
    assert ended(stage, answering(stage, update)) is RunStatus.PAUSED


def test_what_is_no_decision_grants_nothing() -> None:
    """Whatever it is."""
    for specific in ({}, {"decision": 1}, {"decision": {"updatedPermissions": {}}}):
        assert granted_rules(specific) == ()


def test_a_hook_may_hand_back_what_is_suggested(stage: Any) -> None:
    """The suggestion is about calls like the one in question, and holds for the session."""
    lines = [
        "import json, os, sys",
        "offered = json.load(sys.stdin)['permission_suggestions']",
        "if os.path.exists('offered.json'): sys.exit()",
        "json.dump(offered, open('offered.json', 'w'))",
        "decision = {'behavior': 'allow', 'updatedPermissions': offered}",
        "specific = {'hookEventName': 'PermissionRequest', 'decision': decision}",
        "print(json.dumps({'hookSpecificOutput': specific}))",
    ]
    stage.script("always.py", "\n".join(lines))
    assert (
        ended(stage, stage.claude("PermissionRequest", "python3 always.py")) is RunStatus.COMPLETED
    )
    (offered,) = json.loads((stage.root / "offered.json").read_text())
    assert (offered["type"], offered["destination"]) == ("addRules", "session")
    assert offered["rules"] == [{"toolName": "Bash", "ruleContent": "git push *"}]
