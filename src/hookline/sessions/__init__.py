"""Sessions: many runs, one conversation, kept in a journal."""

from hookline.journal import SessionInfo, SessionStatus
from hookline.sessions.session import Session
from hookline.sessions.sessions import Sessions
from hookline.sessions.streaming import SessionStream
from hookline.sessions.view import SessionView, ShownRun, ShownStep

__all__ = [
    "Session",
    "SessionInfo",
    "SessionStatus",
    "SessionStream",
    "SessionView",
    "Sessions",
    "ShownRun",
    "ShownStep",
]
