"""Records as JSON, a line each, and back."""

from __future__ import annotations

import itertools
import re
from typing import Any, TypeAlias

import msgspec

from hookline.errors import NotJSONError, StateVersionError, UsageError
from hookline.journal import record as records
from hookline.journal.record import CallSettled, Record, ResponseReceived, RunStarted, StepFinished
from hookline.journal.session import SessionCreated, SessionRecord
from hookline.state import ResultStatus, Step, ToolResult
from hookline.state.frozen import map_text, valid_text

AnyRecord: TypeAlias = (
    records.RunQueued
    | records.RunStarted
    | records.PromptSubmitted
    | records.RunTakenUp
    | records.RunReopened
    | records.StepStarted
    | records.HookRan
    | records.HooksPassed
    | records.RequestSent
    | records.ResponseReceived
    | records.ModelConsulted
    | records.EffectStarted
    | records.CallAdmitted
    | records.CallSettled
    | records.ApprovalAsked
    | records.ApprovalAnswered
    | records.Evaluated
    | records.ErrorRaised
    | records.StepFinished
    | records.StepPaused
    | records.ChildStarted
    | records.ChildFinished
    | records.StatusChanged
    | records.RunFinished
    | SessionRecord
)


def _plain(value: object) -> str:
    """A subclass of str as plain text."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"{type(value).__qualname__} cannot be written to a journal")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_DECODER = msgspec.json.Decoder(AnyRecord)
_UNREADABLE = (msgspec.DecodeError, UsageError, NotJSONError)

# UTF-8 has no half of a surrogate pair. A record with one begins with the key `halves`, whose value is a mark that is
# nowhere in its text, and each half is written as this mark and four digits. Rejected: the escape of JSON, \ud800,
# which many readers refuse, msgspec among them.
_HALVES = "halves"
_HALF = re.compile("[\ud800-\udfff]")
_TEXT_BEGIN = f'{{"{_HALVES}":'
_BEGIN = _TEXT_BEGIN.encode()


def encode(record: Record) -> bytes:
    """A record as one line of JSON, without the line break."""
    try:
        return _ENCODER.encode(record)
    except UnicodeEncodeError:
        data = msgspec.to_builtins(record, enc_hook=_plain)
        line = _encode_halves(data)
        try:
            _decode(line)
        except _UNREADABLE:
            # A value that never has halves. They are replaced, because the record matters more.
            return _ENCODER.encode(valid_text(data))
        return line


def _encode_halves(data: dict[str, Any]) -> bytes:
    text = repr(data)
    mark = next(mark for number in itertools.count() if (mark := f"half{number}-") not in text)

    def write(half: re.Match[str]) -> str:
        return f"{mark}{ord(half[0]):x}"

    return _ENCODER.encode({_HALVES: mark, **map_text(data, lambda text: _HALF.sub(write, text))})


def _decode_halves(line: str | bytes) -> AnyRecord:
    data = msgspec.json.decode(line, type=dict[str, Any])
    written = re.compile(f"{re.escape(str(data.pop(_HALVES)))}(d[89a-f][0-9a-f]{{2}})")

    def read(text: str) -> str:
        return written.sub(lambda found: chr(int(found[1], 16)), text)

    record: AnyRecord = msgspec.convert(map_text(data, read), AnyRecord, str_keys=True)
    return record


def encode_readable(record: Record) -> bytes:
    """Like `encode`. Raises ValueError for a record that could not be read back."""
    line = encode(record)
    kind = type(record)
    # Most need not be read: the runtime itself made or checked all of them.
    if kind is ResponseReceived:
        is_plain = not record.reasoning and not record.provider_tool_uses  # type: ignore[attr-defined]
    elif kind is CallSettled:
        result: ToolResult = record.result  # type: ignore[attr-defined]
        is_plain = type(result.result) is str and result.status is _OK and not result.reason
    elif kind is StepFinished:
        step: Step = record.step  # type: ignore[attr-defined]
        is_usual = len(record.messages) == 1 + len(step.results)  # type: ignore[attr-defined]
        is_plain = is_usual and not step.errors
    else:
        is_plain = kind in PLAIN_RECORDS
    if not is_plain:
        try:
            _decode(line)
        except _UNREADABLE as error:
            raise ValueError(f"a '{record.type}' record would not be readable: {error}") from None
    return line


_OK = ResultStatus.OK
PLAIN_RECORDS = frozenset(
    {records.StepStarted, records.HooksPassed, records.RequestSent, records.CallAdmitted}
)
"""Kinds of records that the runtime itself makes, so that they can always be read back."""


def _decode(line: str | bytes) -> AnyRecord:
    has_halves = (
        line.startswith(_BEGIN) if isinstance(line, bytes) else line.startswith(_TEXT_BEGIN)
    )
    return _decode_halves(line) if has_halves else _DECODER.decode(line)


def decode(line: str | bytes) -> AnyRecord:
    """The record that `encode` wrote."""
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UsageError, UnicodeError, RecursionError) as error:
        raise StateVersionError(f"this is not a journal record: {error}.") from None
    if isinstance(record, RunStarted | SessionCreated) and record.version > records.RECORD_VERSION:
        raise StateVersionError(
            f"this journal was written in record version {record.version}; "
            f"this Hookline reads up to version {records.RECORD_VERSION}.",
            remedy="Upgrade hookline to read it.",
        )
    return record
