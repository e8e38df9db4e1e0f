"""The stored form of a run's records, in which the result of a call is written once.

Whoever reads a journal gets every record whole. In a store, the result is in the `tool_result` record; the record of
its step names the call and leaves out the result, its files and the message about it. A result that a hook gave is in
the record of the hook. Rejected: records that leave it out in memory too, because every listener would have to put
them together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from hookline.journal.record import (
    CallSettled,
    HookRan,
    Record,
    StepFinished,
    StepPaused,
    StepStarted,
)
from hookline.journal.record_json import decode, encode_readable
from hookline.state import Message, PendingCall, PendingStep, ToolMessage, ToolResult, tool_message

R = TypeVar("R", bound=Record)
_CUT = "\n[cut here: "
"""Where `tool_message` cuts a long text."""


class StoredForm:
    """Encodes or decodes the records of one run, in their order."""

    def __init__(self) -> None:
        self._results: dict[str, ToolResult] = {}
        """Of the step so far, by call id."""
        self._given: dict[str, Any] = {}
        """What hooks last made of the result of a call, as JSON."""

    def see(self, records: Iterable[Record]) -> None:
        """Take note of records that were written before, by somebody else."""
        for record in records:
            self._note(record)

    def encode(self, record: Record) -> bytes:
        """The next record as one line of JSON. Raises ValueError for a record that could not be read back."""
        stored = record
        kind = type(record)
        if kind is CallSettled:
            stored = self._shorten_result(record)  # type: ignore[arg-type]
        elif kind is StepFinished:
            stored = self._shorten_step(record)  # type: ignore[arg-type]
        elif kind is StepPaused:
            stored = self._shorten_pause(record)  # type: ignore[arg-type]
        self._note(record)
        return encode_readable(stored)

    def decode(self, line: str | bytes) -> Record:
        """The next record, as it was before it was encoded."""
        record = self._whole(decode(line))
        self._note(record)
        return record

    def _note(self, record: Record) -> None:
        kind = type(record)
        if kind is CallSettled:
            result: ToolResult = record.result  # type: ignore[attr-defined]
            self._results[result.call_id] = result
        elif kind is HookRan:
            changes = record.changes  # type: ignore[attr-defined]
            if changes is not None and "execution" in changes:
                self._given[record.call_id] = changes["execution"]  # type: ignore[attr-defined]
        elif kind is StepStarted and (self._results or self._given):
            self._results, self._given = {}, {}

    def _whole(self, record: Record) -> Record:
        """A record with what its stored form leaves out."""
        if isinstance(record, StepFinished) and record.cuts is not None:
            step, cuts = record.step, record.cuts
            return replace(
                record,
                step=replace(step, results=tuple(map(self._result, step.results))),
                messages=tuple(self._message(each, cuts) for each in record.messages),
                cuts=None,
            )
        if isinstance(record, StepPaused) and record.is_short and record.pending is not None:
            calls = tuple(
                each if each.result is None else replace(each, result=self._result(each.result))
                for each in record.pending.calls
            )
            return replace(record, pending=replace(record.pending, calls=calls), is_short=False)
        if isinstance(record, CallSettled) and record.is_of_hook:
            call_id, name = record.result.call_id, record.result.name
            given = msgspec.convert(self._given.get(call_id, {}), ToolResult)
            return replace(
                record, result=replace(given, call_id=call_id, name=name), is_of_hook=False
            )
        return record

    def _result(self, stored: ToolResult) -> ToolResult:
        if stored != ToolResult(call_id=stored.call_id):
            return stored
        return self._results.get(stored.call_id, stored)

    def _message(self, stored: Message, cuts: dict[str, int]) -> Message:
        if not isinstance(stored, ToolMessage) or stored != ToolMessage(stored.call_id, "", ""):
            return stored
        result = self._results.get(stored.call_id)
        return stored if result is None else tool_message(result, cuts.get(stored.call_id))

    # --- what is left out ---------------------------------------------------------------------------

    def _shorten_result(self, record: CallSettled) -> CallSettled:
        result = record.result
        if result.call_id not in self._given:
            return record
        named = ToolResult(call_id=result.call_id, name=result.name)
        return self._unless_lost(record, replace(record, result=named, is_of_hook=True))

    def _shorten_step(self, record: StepFinished) -> StepFinished:
        if not record.step.results or not self._results:
            return record
        cuts: dict[str, int] = {}
        short = replace(
            record,
            step=replace(record.step, results=self._name_known(record.step.results)),
            messages=tuple(self._shorten_message(each, cuts) for each in record.messages),
            cuts=cuts,
        )
        return self._unless_lost(record, short)

    def _shorten_pause(self, record: StepPaused) -> StepPaused:
        pending: PendingStep | None = record.pending
        if pending is None or not self._results:
            return record
        calls = tuple(map(self._shorten_call, pending.calls))
        short = replace(record, pending=replace(pending, calls=calls), is_short=True)
        return self._unless_lost(record, short)

    def _shorten_call(self, call: PendingCall) -> PendingCall:
        if call.result is None:
            return call
        return replace(call, result=self._name_known((call.result,))[0])

    def _name_known(self, results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
        """These results; of those that are written already, only the call."""
        return tuple(
            ToolResult(call_id=each.call_id) if self._is_known(each) else each for each in results
        )

    def _is_known(self, result: ToolResult) -> bool:
        known = self._results.get(result.call_id)
        return known is result or (known is not None and known == result)

    def _shorten_message(self, message: Message, cuts: dict[str, int]) -> Message:
        if not isinstance(message, ToolMessage) or message.call_id not in self._results:
            return message
        result, limit = self._results[message.call_id], None
        text = message.text
        if result.result != text and _CUT in text:
            limit = text.rindex(_CUT)
        if tool_message(result, limit) != message:
            return message  # somebody else wrote it
        if limit is not None:
            cuts[message.call_id] = limit
        return ToolMessage(message.call_id, "", "")

    def _unless_lost(self, record: R, short: R) -> R:
        """The short form, if the record can be made of it again."""
        try:
            return short if self._whole(short) == record else record
        except (msgspec.ValidationError, ValueError, TypeError):
            return record
