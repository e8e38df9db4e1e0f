"""The record: append-only, typed, one for everything that happens in a run; and the stores that keep it.

The stores are loaded when they are first used: a run in memory needs neither SQLite nor hashes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookline.journal.durable import Durable, InMemory, Key, Listener
from hookline.journal.fold import Story, counted_on, fold, with_changes
from hookline.journal.record import (
    RECORD_VERSION,
    AnyRecord,
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallDelta,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    Evaluated,
    HookRan,
    HooksPassed,
    PromptSubmitted,
    ReasoningDelta,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
    StepPaused,
    StepStarted,
    TextDelta,
    ToolProgress,
    decode,
    encode,
    hooks_in,
)
from hookline.journal.store import Claim, JournalStore, RunInfo
from hookline.journal.stored import Stored, begin, reopen

if TYPE_CHECKING:
    from hookline.journal.chain import Damage
    from hookline.journal.memory import MemoryJournal
    from hookline.journal.report import CheckReport
    from hookline.journal.sqlite import SQLiteJournal

__all__ = [
    "RECORD_VERSION",
    "AnyRecord",
    "ApprovalAnswered",
    "ApprovalAsked",
    "CallAdmitted",
    "CallDelta",
    "CallSettled",
    "CheckReport",
    "ChildFinished",
    "ChildStarted",
    "Claim",
    "Damage",
    "Durable",
    "ErrorRaised",
    "Evaluated",
    "HookRan",
    "HooksPassed",
    "InMemory",
    "JournalStore",
    "Key",
    "Listener",
    "MemoryJournal",
    "PromptSubmitted",
    "ReasoningDelta",
    "Record",
    "RequestSent",
    "ResponseReceived",
    "RunFinished",
    "RunInfo",
    "RunStarted",
    "RunTakenUp",
    "SQLiteJournal",
    "StatusChanged",
    "StepFinished",
    "StepPaused",
    "StepStarted",
    "Stored",
    "Story",
    "TextDelta",
    "ToolProgress",
    "begin",
    "counted_on",
    "decode",
    "encode",
    "fold",
    "hooks_in",
    "reopen",
    "with_changes",
]

_STORES = {
    "CheckReport": "report",
    "Damage": "chain",
    "MemoryJournal": "memory",
    "SQLiteJournal": "sqlite",
}


def __getattr__(name: str) -> Any:
    if name not in _STORES:
        raise AttributeError(f"module 'hookline.journal' has no attribute {name!r}")
    value = getattr(import_module(f"hookline.journal.{_STORES[name]}"), name)
    globals()[name] = value
    return value
