"""Journals as JSON Lines, chain included.

The first line says what the file is and how many runs follow. Each run has a line with its number of records and the
end of its chain, then a line per record with the record's link. Records are kept byte for byte, so the chain can be
checked again; `jq .record` prints the plain records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from hookline.errors import HooklineError, JournalError
from hookline.journal.chain import Row, StoredRun, check_chain, decode_all
from hookline.journal.record import Record, RunQueued, RunStarted
from hookline.journal.run_info import RunInfo, check_own_id, check_records, summarise
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
_Lines = Iterator[tuple[int, bytes]]
"""Lines with their numbers, without empty ones."""


def dump(count: int, runs: Iterable[StoredRun]) -> Iterator[bytes]:
    """The lines of `count` runs."""
    encode = msgspec.json.encode
    yield encode(_FileLine(format=_FORMAT, version=_VERSION, runs=count)) + b"\n"
    for run in runs:
        line = _RunLine(run=run.info.run_id, records=len(run.rows), head=run.head.hex())
        yield encode(line) + b"\n"
        for row in run.rows:
            yield b'{"link":"%s","record":%s}\n' % (row.link.hex().encode(), row.body)


def load(file: Iterable[bytes]) -> list[StoredRun]:
    """The runs in these lines. Each is checked like a run of a journal: damage is refused."""
    lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    first = _next(lines, _FileLine, "the first line of an exported journal")
    if first.format != _FORMAT:
        raise _import_error(f"this is a {first.format!r} file, not an exported journal")
    if first.version > _VERSION:
        raise JournalError(
            f"this export has version {first.version}; this Hookline reads up to {_VERSION}.",
            remedy="Upgrade hookline to import it.",
        )
    runs = [_next_run(lines) for _ in range(first.runs)]
    for number, _ in lines:
        raise _import_error(
            f"line {number}: there is more than the {first.runs} runs that were announced"
        )
    return runs


def _next_run(lines: _Lines) -> StoredRun:
    line = _next(lines, _RunLine, "the beginning of a run")
    rows = []
    for position in range(line.records):
        record = _next(lines, _RecordLine, f"record {position} of run '{line.run}'")
        rows.append(Row(position, _bytes(record.link), bytes(record.record)))
    info = RunInfo(run_id=line.run, records=line.records)
    stored = StoredRun(info=info, head=_bytes(line.head), rows=rows)
    try:
        check_chain(stored)
        records = decode_all(stored)
        check_records(line.run, records)
        _check_places(line.run, records)
    except HooklineError as error:
        raise _import_error(error.message.rstrip(".")) from None
    info = summarise(RunInfo(run_id=line.run), records)
    return StoredRun(info=info, head=stored.head, rows=rows)


def _check_places(run_id: str, records: list[Record]) -> None:
    """Refuse records that are linked and still make no run: the author of a file can compute a chain."""
    begins = SessionCreated if run_id.startswith(STREAM) else RunQueued | RunStarted
    if not run_id or not records or not isinstance(records[0], begins):
        raise JournalError(f"run '{run_id}' does not begin as a run or a session begins.")
    if begins is not SessionCreated and getattr(records[0], "parent_run_id", None) is None:
        check_own_id(run_id)
    for position, record in enumerate(records):
        if record.seq != position:
            raise JournalError(
                f"record {position} of run '{run_id}' says that it is record {record.seq}."
            )


def _next(lines: _Lines, kind: type[L], what: str) -> L:
    number, line = next(lines, (0, b""))
    if not line:
        raise _import_error(f"the file ends where {what} is expected")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _import_error(f"line {number}: this is not {what} ({error})") from None


def _bytes(text: str) -> bytes:
    """The link in this text; empty, which no record has, if the text is no link."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _import_error(problem: str) -> JournalError:
    return JournalError(
        f"{problem}.", remedy="Export it again, or get an undamaged copy. Nothing was imported."
    )
