"""Testing without a model or a key: `ScriptedDriver` (`drivers/scripted.py`), other fakes, and suites of checks."""

from hookline.drivers import Scripted, ScriptedCall, ScriptedDriver, call, calls, say
from hookline.hooks import HookOptions
from hookline.testing.cassette import Cassette
from hookline.testing.clock import FakeClock
from hookline.testing.hook_suite import check_hook, check_hook_sync
from hookline.testing.provider_suite import (
    ProviderCase,
    check_provider,
    provider_cases,
)
from hookline.testing.recorder import BlockedAction, Recorder, Visit, transcript
from hookline.testing.report import Deviation, Report, SuiteReport
from hookline.testing.store_setup import StoreSubject
from hookline.testing.store_suite import StoreCase, check_store, store_cases
from hookline.testing.wire import (
    Failure,
    ScriptedProvider,
    ScriptedWire,
    Wire,
    WireCall,
    WireTurn,
)

__all__ = [
    "BlockedAction",
    "Cassette",
    "Deviation",
    "Failure",
    "FakeClock",
    "HookOptions",
    "ProviderCase",
    "Recorder",
    "Report",
    "Scripted",
    "ScriptedCall",
    "ScriptedDriver",
    "ScriptedProvider",
    "ScriptedWire",
    "StoreCase",
    "StoreSubject",
    "SuiteReport",
    "Visit",
    "Wire",
    "WireCall",
    "WireTurn",
    "call",
    "calls",
    "check_hook",
    "check_hook_sync",
    "check_provider",
    "check_store",
    "provider_cases",
    "say",
    "store_cases",
    "transcript",
]
