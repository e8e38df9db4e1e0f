"""The journal: a typed record for everything that happens in a run, and the stores that keep them.

The stores are imported when they are first used: a run in memory needs no SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy
from hookline.journal.durable import (
    Durable,
    Listener,
    begin,
    reopen,
)
from hookline.journal.fold import (
    Story,
    fold,
    story_of,
)
from hookline.journal.inbox import (
    InboxAnswer,
    InboxCancel,
    InboxMessage,
    is_new,
)
from hookline.journal.questions import Questions, outermost, post_answer, post_cancel
from hookline.journal.record import (
    RECORD_VERSION,
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallDelta,
    CallSettled,
    ChildFinished,
    ChildStarted,
    EarlierRun,
    EffectStarted,
    ErrorRaised,
    Evaluated,
    HookRan,
    HooksPassed,
    ModelConsulted,
    PromptSubmitted,
    ReasoningDelta,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunHandedOver,
    RunQueued,
    RunReopened,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
    StepPaused,
    StepStarted,
    TextDelta,
    ToolProgress,
    hooks_in,
)
from hookline.journal.record_json import AnyRecord, decode, encode
from hookline.journal.retention import Retention, may_continue, owner_of, with_descendants
from hookline.journal.run_info import (
    RunInfo,
    SessionInfo,
    check_limit,
    check_records,
    check_run_id,
    session_info,
    summarise,
)
from hookline.journal.session import (
    Segment,
    SessionCleared,
    SessionCreated,
    SessionRewound,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatus,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    fold_session,
)
from hookline.journal.store import Claim, JournalStore
from hookline.journal.stored_form import StoredForm

if TYPE_CHECKING:
    from hookline.journal.chain import CheckReport, Damage
    from hookline.journal.postgres import PostgresJournal
    from hookline.journal.stores import MemoryJournal, SQLiteJournal

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
    "EarlierRun",
    "EffectStarted",
    "ErrorRaised",
    "Evaluated",
    "HookRan",
    "HooksPassed",
    "InboxAnswer",
    "InboxCancel",
    "InboxMessage",
    "JournalStore",
    "Listener",
    "MemoryJournal",
    "ModelConsulted",
    "PostgresJournal",
    "PromptSubmitted",
    "Questions",
    "ReasoningDelta",
    "Record",
    "RequestSent",
    "ResponseReceived",
    "Retention",
    "RunFinished",
    "RunHandedOver",
    "RunInfo",
    "RunQueued",
    "RunReopened",
    "RunStarted",
    "RunTakenUp",
    "SQLiteJournal",
    "Segment",
    "SessionCleared",
    "SessionCreated",
    "SessionInfo",
    "SessionRewound",
    "SessionRunAdded",
    "SessionRunEnded",
    "SessionStatus",
    "SessionStatusChanged",
    "SessionStory",
    "SessionTitled",
    "StatusChanged",
    "StepFinished",
    "StepPaused",
    "StepStarted",
    "StoredForm",
    "Story",
    "TextDelta",
    "ToolProgress",
    "begin",
    "check_limit",
    "check_records",
    "check_run_id",
    "decode",
    "encode",
    "fold",
    "fold_session",
    "hooks_in",
    "is_new",
    "may_continue",
    "outermost",
    "owner_of",
    "post_answer",
    "post_cancel",
    "reopen",
    "session_info",
    "story_of",
    "summarise",
    "with_descendants",
]

_STORES = {
    "chain": "CheckReport Damage",
    "postgres": "PostgresJournal",
    "stores": "MemoryJournal SQLiteJournal",
}

__getattr__ = lazy.names_from(__name__, _STORES)
