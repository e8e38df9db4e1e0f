"""Runs one command in a sandbox, for a test that wants it done by another user: JSON in, JSON out.

It needs nothing but the standard library and the sources, so that any interpreter the user may run will do.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def run_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Run what a plan says, and return the outcome."""
    from hookline.containment.sandbox import (
        Sandbox,
        SandboxGrant,
        SandboxLimits,
        SandboxPaths,
        limits,
    )

    if plan["watched"]:  # as on a machine that lets us make no control groups
        limits.homes = lambda *_: {}
        limits.kernel_counts_processes = lambda: False
    sandbox = Sandbox(
        plan["root"],
        "required",
        paths=SandboxPaths(**{name: tuple(value) for name, value in plan["paths"].items()}),
        limits=SandboxLimits(**plan["limits"]),
    )
    result = sandbox.run_sync(
        plan["command"],
        timeout=plan["timeout"],
        grant=SandboxGrant(**plan["grant"]),
        place=plan["place"],
    )
    return {
        "exit_code": result.exit_code,
        "text": result.text,
        "ended": result.ended,
        "contained": result.contained,
        "left_out": result.left_out,
        "duration": result.duration,
    }


if __name__ == "__main__":
    print(json.dumps(run_plan(json.loads(sys.argv[1]))))
