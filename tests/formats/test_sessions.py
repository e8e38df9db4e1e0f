"""Sessions that an earlier version wrote are read, and continue."""

from __future__ import annotations

from pathlib import Path

from outcomes import sessions
from recorded import expected, unpack


async def test_sessions_are_what_they_were_and_continue(tmp_path: Path) -> None:
    """Title, status, version, runs and conversation; the one that waits, the one that was cut off, and another run."""
    (tmp_path / "data").mkdir()
    path = unpack("sessions.db", tmp_path / "data")
    assert await sessions(path, tmp_path) == expected("sessions")
