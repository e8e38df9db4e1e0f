"""Fakes that ship with Hookline, for testing hooks and agents without a model."""

from hookline.drivers import ScriptedDriver, call, calls, say
from hookline.testing.clock import FakeClock
from hookline.testing.conformance import HookOptions, check_hook, check_hook_sync
from hookline.testing.recorder import Blocked, Recorder, Visit
from hookline.testing.report import Difference, Report
from hookline.testing.transcript import transcript

__all__ = [
    "Blocked",
    "Difference",
    "FakeClock",
    "HookOptions",
    "Recorder",
    "Report",
    "ScriptedDriver",
    "Visit",
    "call",
    "calls",
    "check_hook",
    "check_hook_sync",
    "say",
    "transcript",
]
