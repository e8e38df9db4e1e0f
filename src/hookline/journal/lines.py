"""Journals as JSON Lines: to look at, to move, to keep. Nothing is lost on the way, the chain included.

The first line says what the file is and how many runs follow. Each run has a line of its own, with its number
of records and the end of its chain, and then a line per record with the record's link. The record is there to the
byte as it was written, so that the chain can be checked again; `jq .record` gives the plain records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from hookline.errors import HooklineError, JournalError
from hookline.journal.chain import Row, Stored, anchor, link
from hookline.journal.codec import decode
from hookline.journal.record import Record, RunStarted
from hookline.journal.session import STREAM
from hookline.journal.session_record import SessionCreated
from hookline.journal.store import RunInfo
from hookline.journal.summary import check_records, summarise

_FORMAT = "hookline.journal"
_VERSION = 1


class _FileLine(msgspec.Struct):
    format: str
    version: int
    runs: int


class _RunLine(msgspec.Struct):
    run: str
    records: int
    head: str


class _RecordLine(msgspec.Struct):
    link: str
    record: msgspec.Raw


L = TypeVar("L")
_FILE_LINE = msgspec.json.Decoder(_FileLine)
_RUN_LINE = msgspec.json.Decoder(_RunLine)
_RECORD_LINE = msgspec.json.Decoder(_RecordLine)


def dump(count: int, runs: Iterable[Stored]) -> Iterator[bytes]:
    """The lines of so many runs."""
    encode = msgspec.json.encode
    yield encode(_FileLine(_FORMAT, _VERSION, count)) + b"\n"
    for run in runs:
        yield encode(_RunLine(run.info.run_id, len(run.rows), run.head.hex())) + b"\n"
        for row in run.rows:
            yield b'{"link":"%s","record":%s}\n' % (row.link.hex().encode(), row.body)


def load(lines: Iterable[bytes], is_known: Callable[[str], bool]) -> list[Stored]:
    """The runs in these lines, checked. What is damaged or known already is refused, with the number of the line."""
    return _Loader(lines, is_known).load()


def _check_place(record: Record, position: int) -> None:
    """Refuse a record that stands where it cannot stand, however well it is linked."""
    if record.seq != position:
        raise JournalError(f"it says that it is record {record.seq}.")
    begins = SessionCreated if record.run_id.startswith(STREAM) else RunStarted
    if position == 0 and (not record.run_id or not isinstance(record, begins)):
        raise JournalError(f"a '{record.type}' record is not how this begins.")


class _Loader:
    def __init__(self, lines: Iterable[bytes], is_known: Callable[[str], bool]) -> None:
        self._lines = iter(lines)
        self._is_known = is_known
        self._number = 0
        self._seen: dict[str, int] = {}
        """The runs so far, and their lines."""

    def load(self) -> list[Stored]:
        first = self._next(_FILE_LINE, "the first line of an exported journal")
        if first.format != _FORMAT:
            raise self._wrong(f"this is a {first.format!r} file, not an exported journal")
        if first.version > _VERSION:
            raise JournalError(
                f"line 1: this export has version {first.version}; this Hookline reads up to {_VERSION}.",
                remedy="Upgrade hookline to import it.",
            )
        runs = [self._run() for _ in range(first.runs)]
        for line in self._lines:
            self._number += 1
            if line.strip():
                raise self._wrong(f"there is more here than the {first.runs} runs announced")
        return runs

    def _run(self) -> Stored:
        line = self._next(_RUN_LINE, "the beginning of a run")
        run_id, head = line.run, anchor(line.run)
        if run_id in self._seen:
            raise self._wrong(f"run '{run_id}' is in line {self._seen[run_id]} already")
        if self._is_known(run_id):
            raise JournalError(
                f"line {self._number}: run '{run_id}' is in this journal already.",
                remedy="Delete it there first, or import into another journal. Nothing was imported.",
            )
        self._seen[run_id] = self._number
        rows: list[Row] = []
        records: list[Record] = []
        for position in range(line.records):
            row, record = self._record(run_id, position, head)
            head = row.link
            rows.append(row)
            records.append(record)
        if not records or head.hex() != line.head:
            number = self._seen[run_id]
            raise self._wrong(f"run '{run_id}' does not end as line {number} says it does")
        return Stored(summarise(RunInfo(run_id=run_id), records), head, rows)

    def _record(self, run_id: str, position: int, previous: bytes) -> tuple[Row, Record]:
        what = f"record {position} of run '{run_id}'"
        line = self._next(_RECORD_LINE, what)
        body = bytes(line.record)
        row = Row(position, link(previous, body), body)
        if row.link.hex() != line.link:
            raise self._wrong(f"{what} was edited, or does not follow the one before it")
        try:
            record = decode(body)
            check_records(run_id, [record])
            _check_place(record, position)
        except HooklineError as error:
            raise self._wrong(f"{what}: {error.message.rstrip('.')}") from None
        return row, record

    def _next(self, decoder: msgspec.json.Decoder[L], what: str) -> L:
        self._number += 1
        line = next(self._lines, b"")
        if not line.strip():
            raise self._wrong(f"it ends here, where {what} is expected")
        try:
            return decoder.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self._wrong(f"this is not {what} ({error})") from None

    def _wrong(self, words: str) -> JournalError:
        return JournalError(
            f"line {self._number}: {words}.",
            remedy="Export it anew, or get an undamaged copy. Nothing was imported.",
        )
