"""Runs with the `Bash` capability, and somebody who answers its questions."""

from __future__ import annotations

from typing import Any

from hookline import AgentBuilder, RunResult
from hookline.testing import ScriptedDriver, say


class Approver:
    """Answers every question alike, and remembers them."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.reasons: list[str] = []

    def __call__(self, question: Any) -> bool:
        self.reasons.append(question.reason)
        return self.answer


def run(bash: Any, *turns: Any, approver: Any) -> RunResult:
    """A run in which the model makes these turns."""
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(bash)
    return builder.with_approver(approver).build().run_sync("Go.")
