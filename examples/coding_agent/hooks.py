"""The hook of the coding agent."""

import sys

from hookline import HookOutcome, StopHookContext
from hookline.containment import Sandbox

TESTS = [sys.executable, "-m", "unittest", "-q"]  # whatever runs the tests of your project


async def tests_pass(ctx: StopHookContext) -> HookOutcome | None:
    """Object while the tests fail. The model reads their output and continues.

    The tests are code that the agent has just written, so they run in a sandbox
    like its other commands. How often a hook may object is limited: a model that
    cannot fix it does not try for ever.
    """
    result = await Sandbox(".", "required").run(TESTS, timeout=300)
    if result.exit_code == 0:
        return None
    return HookOutcome.block(f"The tests fail:\n{result.text[-2000:]}")
