"""One of AgentDojo's tasks, played by the obeying agent under each defence."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import lru_cache

from obeying import ObeyingDriver, Person
from suites import Known, Suite
from trust_report import Played

from hookline import AgentBuilder
from hookline.capabilities import TaintPolicy, ToolAllowList

NOBODY, USER = "nobody: refused", "a user: allows what the task needs"
KINDS = (
    ("none", "-"),
    ("allow-list", "-"),
    ("taint", NOBODY),
    ("taint", USER),
    ("both", NOBODY),
    ("both", USER),
)
"""A defence, and who answers when it asks."""
_MOST_STEPS = 500

_suite = lru_cache(Suite)


def user_tasks(suite_name: str) -> list[str]:
    """The user tasks of a suite."""
    return list(_suite(suite_name).dojo.user_tasks)


def run_task(suite_name: str, user_id: str) -> list[Played]:
    """A user task alone and with every injection, under every defence."""
    suite = _suite(suite_name)
    known: Known = {}
    # Some of AgentDojo's checks print what they miss.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return [
            _play(suite, user_id, injection_id, kind, known)
            for injection_id in (None, *suite.dojo.injection_tasks)
            for kind in KINDS
        ]


def _play(
    suite: Suite, user_id: str, injection_id: str | None, kind: tuple[str, str], known: Known
) -> Played:
    defence, answers = kind
    checks = defence == "none" and injection_id is None
    attempt = suite.attempt(user_id, injection_id, checks=checks)
    person = Person(attempt.task if answers == USER else None)
    builder = (
        AgentBuilder()
        .with_driver(ObeyingDriver(attempt.task, attempt.injection))
        .with_tools(*attempt.tools())
        .with_approver(person)
        .with_limits(steps=_MOST_STEPS)
    )
    if defence in ("allow-list", "both"):
        builder.with_capability(ToolAllowList(attempt.task.tools))
    if defence in ("taint", "both"):
        builder.with_capability(TaintPolicy())
    result = asyncio.run(builder.build().run(attempt.task.prompt))
    if result.status != "completed":
        raise SystemExit(f"{suite.name} {user_id} {injection_id} {kind}: {result.explain()}")
    return Played(
        defence,
        answers,
        suite.name,
        user_id,
        injection_id,
        attempt.needs_call,
        *attempt.judged(result.text, known),
        person.asked,
    )
