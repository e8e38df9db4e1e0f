"""Journals as JSON Lines, chain included.

The first line says what the file is and how many runs follow. Each run has a line with its number of records and the
end of its chain, then a line per record with the record's link. Records are kept byte for byte, so the chain can be
checked again; `jq .record` prints the plain records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from hookline.errors import HooklineError, JournalError
from hookline.journal.chain import Row, StoredRun, anchor, link
from hookline.journal.codec import decode
from hookline.journal.record import Record, RunStarted
from hookline.journal.run_info import RunInfo, check_records, summarise
from hookline.journal.session import STREAM, SessionCreated

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


def dump(count: int, runs: Iterable[StoredRun]) -> Iterator[bytes]:
    """The lines of `count` runs."""
    encode = msgspec.json.encode
    yield encode(_FileLine(format=_FORMAT, version=_VERSION, runs=count)) + b"\n"
    for run in runs:
        line = _RunLine(run=run.info.run_id, records=len(run.rows), head=run.head.hex())
        yield encode(line) + b"\n"
        for row in run.rows:
            yield b'{"link":"%s","record":%s}\n' % (row.link.hex().encode(), row.body)


def load(lines: Iterable[bytes], is_known: Callable[[str], bool]) -> list[StoredRun]:
    """The runs in these lines. Damage, and runs that are known, are refused with the number of the line."""
    return _Loader(lines, is_known).load()


def _check_place(record: Record, position: int) -> None:
    """Refuse a record at a position where it cannot be, even if its link is right."""
    if record.seq != position:
        raise JournalError(f"it says that it is record {record.seq}.")
    begins = SessionCreated if record.run_id.startswith(STREAM) else RunStarted
    if position == 0 and (not record.run_id or not isinstance(record, begins)):
        raise JournalError(f"a '{record.type}' record is not how this begins.")


class _Loader:
    """Reads lines and counts them, so that errors can name the line."""

    def __init__(self, lines: Iterable[bytes], is_known: Callable[[str], bool]) -> None:
        self._lines = iter(lines)
        self._is_known = is_known
        self._number = 0
        self._seen: dict[str, int] = {}
        """The runs so far, and their lines."""

    def load(self) -> list[StoredRun]:
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

    def _run(self) -> StoredRun:
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
        info = summarise(RunInfo(run_id=run_id), records)
        return StoredRun(info=info, head=head, rows=rows)

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
            remedy="Export it again, or get an undamaged copy. Nothing was imported.",
        )
