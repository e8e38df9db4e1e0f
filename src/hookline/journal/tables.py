"""The tables of a SQLite journal, read within one transaction: all of it is of the same moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from hookline.errors import JournalError
from hookline.journal.batch import Tail
from hookline.journal.chain import DAMAGE_REMEDY, LINK, Damage, Stored, unpacked
from hookline.journal.faults import told
from hookline.journal.retention import owner_of
from hookline.journal.schema import first_id, run_of
from hookline.journal.session import AS_RUN
from hookline.journal.session_record import SessionStatus
from hookline.journal.store import RunInfo, SessionInfo
from hookline.state import RunStatus

_FIELDS = RunInfo.__struct_fields__
_Kind: TypeAlias = Literal["run", "session"]
_ENTRY = tuple[str, str, str, str | None, RunStatus, str, int, int, float, float, _Kind]
"""The types of these fields: an edit may have made something else of them."""
_SESSION = tuple[str, str, SessionStatus, int, int, float, float]
_STATUS = " ".join(f"WHEN '{run}' THEN '{session}'" for session, run in AS_RUN.items())
_SESSIONS = f"""
SELECT session_id, prompt, CASE status {_STATUS} END, records, steps, started_at, updated_at
FROM runs WHERE kind = 'session' ORDER BY updated_at DESC, id DESC LIMIT ?
"""
_NEWEST_FIRST = "ORDER BY started_at DESC, id DESC"
_COLUMNS = ", ".join(_FIELDS)
# Asked for as bytes: after an edit they may be anything, also what cannot be decoded.
_LINKS = "CAST(links AS BLOB)"
_RECORDS = "CAST(records AS BLOB)"
_LAST_RUN = 2**31 - 1


class Tables:
    """Reads with the connection it is given, as long as that has its transaction open."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    def infos(
        self,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
        kind: _Kind | None = None,
    ) -> list[RunInfo]:
        """The runs and sessions, or those of one kind, newest first."""
        wanted = {"session_id": session_id, "status": status, "kind": kind}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM runs {'WHERE ' + where if where else ''} {_NEWEST_FIRST} LIMIT ?",
            *given.values(),
            -1 if limit is None else limit,
        )
        return self._entries(rows)

    def sessions(self, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        rows = self._rows(_SESSIONS, -1 if limit is None else limit)
        return [SessionInfo(*row) for row in self._converted(rows, list[_SESSION])]

    def parents(self) -> list[tuple[str, str | None]]:
        """The runs with what they belong to, newest first."""
        rows = self._rows(
            f"SELECT run_id, session_id, parent_run_id, kind FROM runs {_NEWEST_FIRST}"
        )
        return [(str(row[0]), owner_of(*row)) for row in rows]

    def stored(self, run_id: str) -> Stored | None:
        """A run with its records, unchecked."""
        entry = self._entry(run_id)
        if entry is None:
            return None
        number, head, info = entry
        first = first_id(number)
        rows = self._rows(
            f"SELECT id, {_LINKS}, {_RECORDS} FROM batches WHERE id BETWEEN ? AND ? ORDER BY id",
            first,
            first_id(number + 1) - 1,
        )
        found = [row for id, links, records in rows for row in unpacked(id - first, links, records)]
        return Stored(info, head, found)

    def end_of(self, run_id: str) -> tuple[RunInfo, Tail] | None:
        """A run's summary, and where it ends. Raises when its last record is not there."""
        entry = self._entry(run_id)
        if entry is None:
            return None
        number, head, info = entry
        first = first_id(number)
        rows = self._rows(
            f"SELECT id, {_LINKS} FROM batches WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
            first,
            first_id(number + 1) - 1,
        )
        links = [(id, _bytes(links)) for id, links in rows]
        ends = [(id - first + len(each) // LINK, each[-LINK:]) for id, each in links]
        if ends != [(info.records, head)]:
            raise JournalError(
                f"the journal '{self._path}' is damaged: run '{run_id}' does not end where it ended.",
                remedy=DAMAGE_REMEDY,
            )
        return info, Tail(number, info.records, head)

    def strays(self) -> Iterator[Damage]:
        """Records whose run is not in the list."""
        known = {number for (number,) in self._rows("SELECT id FROM runs")}
        start = -(2**63)
        while True:
            ((found,),) = self._rows("SELECT min(id) FROM batches WHERE id >= ?", start)
            if found is None:
                return
            number = run_of(found)
            if number not in known:
                words = f"there are records of a run that is not in the list (number {number})"
                yield Damage("?", "stray", words)
            if number >= _LAST_RUN:
                return
            start = first_id(number + 1)

    def file_damage(self) -> list[str]:
        """What SQLite's own check finds."""
        rows = self._rows("PRAGMA integrity_check")
        return [str(words) for (words,) in rows if words != "ok"]

    # --- rows, and what they should be -----------------------------------------------------------------

    def _rows(self, query: str, *values: object) -> list[Any]:
        with told(self._path, "read"):
            return self._connection.execute(query, values).fetchall()

    def _entry(self, run_id: str) -> tuple[int, bytes, RunInfo] | None:
        rows = self._rows(
            f"SELECT id, CAST(head AS BLOB), {_COLUMNS} FROM runs WHERE run_id = ?", run_id
        )
        if not rows:
            return None
        (number, head, *fields) = rows[0]
        (info,) = self._entries([fields])
        return number, _bytes(head), info

    def _entries(self, rows: list[Any]) -> list[RunInfo]:
        return [_info(*entry) for entry in self._converted(rows, list[_ENTRY])]

    def _converted(self, rows: list[Any], kind: Any) -> Any:
        try:
            return msgspec.convert(rows, kind)
        except msgspec.ValidationError as error:
            raise JournalError(
                f"the journal '{self._path}' is damaged: its list of runs holds {error}.",
                remedy=DAMAGE_REMEDY,
            ) from None


def _info(
    run_id: str,
    session_id: str,
    agent_id: str,
    parent_run_id: str | None,
    status: RunStatus,
    prompt: str,
    records: int,
    steps: int,
    started_at: float,
    updated_at: float,
    kind: _Kind,
) -> RunInfo:
    return RunInfo(
        run_id=run_id,
        session_id=session_id,
        agent_id=agent_id,
        parent_run_id=parent_run_id,
        status=status,
        prompt=prompt,
        records=records,
        steps=steps,
        started_at=started_at,
        updated_at=updated_at,
        kind=kind,
    )


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
