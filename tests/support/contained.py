"""Runs commands in sandboxes, for tests that want it done by another user: a line of JSON in, a line of JSON out.

It needs nothing but the standard library and the sources, so that any interpreter the user may run will do. It is for
many commands: to start Python, and the sandbox's test of itself, take longer than the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from typing import Any

from hookline.containment.sandbox import (
    CommandResult,
    Sandbox,
    SandboxGrant,
    SandboxLimits,
    SandboxPaths,
    limits,
)


def run_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Run what a plan says, and return the outcome."""
    os.environ.clear()
    os.environ.update(plan["env"])
    os.chdir(plan["cwd"])
    if plan["watched"]:  # as on a machine that lets us make no control groups: from now on
        limits.homes = lambda *_: {}
        limits.kernel_counts_processes = lambda: False
    sandbox = Sandbox(
        plan["root"],
        "required",
        paths=SandboxPaths(**{name: tuple(value) for name, value in plan["paths"].items()}),
        limits=SandboxLimits(**plan["limits"]),
    )
    result = asyncio.run(_run(sandbox, plan))
    return {
        "exit_code": result.exit_code,
        "text": result.text,
        "ended": result.ended,
        "contained": result.contained,
        "left_out": result.left_out,
        "duration": result.duration,
        "set_aside": result.set_aside,
    }


async def _run(sandbox: Sandbox, plan: dict[str, Any]) -> CommandResult:
    """Run the command, beside another one that has printed something and goes on, if there is one."""
    other = None
    if plan["beside"]:
        printed = asyncio.Event()
        other = await sandbox.start(plan["beside"], on_output=lambda _: printed.set())
        await printed.wait()
    try:
        return await sandbox.run(
            plan["command"],
            timeout=plan["timeout"],
            grant=SandboxGrant(**plan["grant"]),
            place=plan["place"],
        )
    finally:
        if other is not None:
            other.kill()
            await other.wait()


def main() -> None:
    """Run each plan that is written to standard input."""
    while line := sys.stdin.readline():
        try:
            answer = run_plan(json.loads(line))
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
