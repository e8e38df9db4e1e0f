"""Answers of hooks with `updatedPermissions`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline import RunStatus
from hookline.capabilities import Approval
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
    "update",
    [
        {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "git push:*"}]},
        {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "deny"},
        {"type": "setMode", "mode": "bypassPermissions"},
        {"type": "addRules", "rules": "Bash"},
        {"type": "addRules", "rules": [7, {}, {"toolName": 7}, "Bash(("]},
        "addRules",
    ],
)
def test_a_yes_is_for_this_call_only(stage: Any, update: Any) -> None:
    """Whatever rules, modes or nonsense the hook adds."""
    assert ended(stage, answering(stage, update)) is RunStatus.PAUSED
