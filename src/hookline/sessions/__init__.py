"""Sessions: many runs, one conversation, kept in a journal."""

from hookline.journal import SessionInfo, SessionStatus
from hookline.sessions.session import Session, Sessions
from hookline.sessions.view import SessionView, ShownRun, ShownStep

__all__ = [
    "Session",
    "SessionInfo",
    "SessionStatus",
    "SessionView",
    "Sessions",
    "ShownRun",
    "ShownStep",
]
