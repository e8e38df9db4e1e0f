"""The journal: a typed record for everything that happens in a run, and the stores that keep them.

The stores are imported when they are first used: a run in memory needs no SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy
from hookline.journal.durable import (
    Durable,
    Listener,
    Redact,
    RedactContent,
    Stored,
    begin,
    reopen,
)
from hookline.journal.fold import (
    Story,
    answers_on_record,
    counted_on,
    fold,
    still_waiting,
    with_changes,
    with_remembered,
)
from hookline.journal.inbox import (
    FROM_INBOX,
    FirstAnswer,
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
from hookline.journal.run_info import RunInfo, SessionInfo, session_entry, session_info
from hookline.journal.session import (
    STREAM,
    Segment,
    SessionCleared,
    SessionCreated,
    SessionPosition,
    SessionRecord,
    SessionRewound,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatus,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    fold_session,
    stream_of,
)
from hookline.journal.store import Claim, JournalStore

if TYPE_CHECKING:
    from hookline.journal.chain import CheckReport, Damage
    from hookline.journal.sqlite import MemoryJournal, SQLiteJournal

__all__ = [
    "FROM_INBOX",
    "RECORD_VERSION",
    "STREAM",
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
    "FirstAnswer",
    "HookRan",
    "HooksPassed",
    "InboxAnswer",
    "InboxCancel",
    "InboxMessage",
    "JournalStore",
    "Listener",
    "MemoryJournal",
    "ModelConsulted",
    "PromptSubmitted",
    "Questions",
    "ReasoningDelta",
    "Record",
    "Redact",
    "RedactContent",
    "RequestSent",
    "ResponseReceived",
    "RunFinished",
    "RunInfo",
    "RunStarted",
    "RunTakenUp",
    "SQLiteJournal",
    "Segment",
    "SessionCleared",
    "SessionCreated",
    "SessionInfo",
    "SessionPosition",
    "SessionRecord",
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
    "Stored",
    "Story",
    "TextDelta",
    "ToolProgress",
    "answers_on_record",
    "begin",
    "counted_on",
    "decode",
    "encode",
    "fold",
    "fold_session",
    "hooks_in",
    "is_new",
    "outermost",
    "post_answer",
    "post_cancel",
    "reopen",
    "session_entry",
    "session_info",
    "still_waiting",
    "stream_of",
    "with_changes",
    "with_remembered",
]

_STORES = {
    "CheckReport": "chain",
    "Damage": "chain",
    "MemoryJournal": "sqlite",
    "SQLiteJournal": "sqlite",
}

__getattr__ = lazy.names_from(__name__, _STORES)
