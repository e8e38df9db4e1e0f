"""Records as JSON, a line each, and back."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hookline.errors import NotJSONError, StateVersionError, UsageError
from hookline.journal import record as records
from hookline.journal.record import CallSettled, Record, ResponseReceived, RunStarted, StepFinished
from hookline.journal.session import SessionCreated, SessionRecord
from hookline.state import ResultStatus, Step
from hookline.state.frozen import valid_text

AnyRecord: TypeAlias = (
    records.RunQueued
    | records.RunStarted
    | records.PromptSubmitted
    | records.RunTakenUp
    | records.StepStarted
    | records.HookRan
    | records.HooksPassed
    | records.RequestSent
    | records.ResponseReceived
    | records.ModelConsulted
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


def encode(record: Record) -> bytes:
    """A record as one line of JSON, without the line break."""
    try:
        return _ENCODER.encode(record)
    except UnicodeEncodeError:
        # Half of a surrogate pair in somebody's text is replaced: the record matters more.
        return _ENCODER.encode(valid_text(msgspec.to_builtins(record, enc_hook=_plain)))


def encode_readable(record: Record) -> bytes:
    """Like `encode`. Raises ValueError for a record that could not be read back."""
    line = encode(record)
    if not _is_plain(record):
        try:
            _DECODER.decode(line)
        except (msgspec.DecodeError, UsageError, NotJSONError) as error:
            raise ValueError(f"a '{record.type}' record would not be readable: {error}") from None
    return line


def _is_plain(record: Record) -> bool:
    """Whether the runtime itself made or checked all of a record, as for most."""
    kind = type(record)
    if kind is CallSettled:
        result = record.result  # type: ignore[attr-defined]
        return type(result.result) is str and result.status is _OK and not result.reason
    if kind is StepFinished:
        step: Step = record.step  # type: ignore[attr-defined]
        is_usual = len(record.messages) == 1 + len(step.results)  # type: ignore[attr-defined]
        return is_usual and not step.errors
    if kind is ResponseReceived:
        return not record.reasoning and not record.provider_tool_uses  # type: ignore[attr-defined]
    return kind in _OWN


_OK = ResultStatus.OK
_OWN = frozenset(
    {records.StepStarted, records.HooksPassed, records.RequestSent, records.CallAdmitted}
)


def decode(line: str | bytes) -> AnyRecord:
    """The record that `encode` wrote."""
    try:
        record: AnyRecord = _DECODER.decode(line)
    except (msgspec.DecodeError, UsageError, UnicodeError, RecursionError) as error:
        raise StateVersionError(f"this is not a journal record: {error}.") from None
    if isinstance(record, RunStarted | SessionCreated) and record.version > records.RECORD_VERSION:
        raise StateVersionError(
            f"this journal was written in record version {record.version}; "
            f"this Hookline reads up to version {records.RECORD_VERSION}.",
            remedy="Upgrade hookline to read it.",
        )
    return record
