"""The stored form of a run's records, in which the result of a call is written once.

Whoever reads a journal gets every record whole. In a store, the result is in the `tool_result` record; the record of
its step names the call and leaves out the result, its files and the message about it. A result that a hook gave is in
the record of the hook. An error is in the first record that has it: the `error` record, or the `tool_result` record
where hooks could have withheld its words. Rejected: records that leave it out in memory too, because every listener
would have to put them together again.

Of the child runs of a step that pauses again, only what has changed since its last pause is written. Rejected: to name
the records that a child has of its own. They hold all of it, but then one run could not be read without others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.journal.json_changes import apply_changes, find_changes
from hookline.journal.record import (
    CallSettled,
    ErrorRaised,
    HookRan,
    Record,
    StepFinished,
    StepPaused,
    StepStarted,
)
from hookline.journal.record_json import PLAIN_RECORDS, decode, encode, encode_readable
from hookline.state import (
    ErrorInfo,
    Message,
    PendingCall,
    PendingStep,
    ToolMessage,
    ToolResult,
    tool_message,
)

_CUT = "\n[cut here: "
"""Where `tool_message` cuts a long text."""


class StoredForm:
    """Encodes or decodes the records of one run, in their order."""

    def __init__(self) -> None:
        self._results: dict[str, ToolResult] = {}
        """Of the step so far, by call id."""
        self._given: dict[str, Any] = {}
        """What hooks last made of the result of a call, as JSON."""
        self._errors: dict[int, ErrorInfo] = {}
        """Of the step so far, by the number of the record."""
        self._children: list[Any] = []
        """Of each call, where the step paused last."""

    def see(self, records: Iterable[Record]) -> None:
        """Take note of records that were written before, by somebody else."""
        for record in records:
            self._note(record)

    def encode(self, record: Record) -> bytes:
        """The next record as one line of JSON. Raises ValueError for a record that could not be read back."""
        # Every record passes here. After a wait the caches are cold, and each function costs microseconds.
        kind = type(record)
        if kind in PLAIN_RECORDS:
            if kind is StepStarted:
                self._begin_step()
            return encode(record)
        stored = record
        if kind is StepFinished:
            return encode_readable(self._shorten_step(record))  # type: ignore[arg-type]
        if kind is CallSettled:
            stored = self._shorten_result(record)  # type: ignore[arg-type]
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
            self._note_error(record.seq, result.error)
        elif kind is ErrorRaised:
            self._note_error(record.seq, record.error)  # type: ignore[attr-defined]
        elif kind is HookRan:
            changes = record.changes  # type: ignore[attr-defined]
            if changes is not None and "execution" in changes:
                self._given[record.call_id] = changes["execution"]  # type: ignore[attr-defined]
        elif kind is StepPaused:
            self._children = _children_in(record.pending)  # type: ignore[attr-defined]
        elif kind is StepStarted:
            self._begin_step()

    def _begin_step(self) -> None:
        self._results, self._given, self._errors, self._children = {}, {}, {}, []

    def _note_error(self, seq: int, error: ErrorInfo | None) -> None:
        if error is not None:
            self._errors[seq] = error

    def _whole(self, record: Record) -> Record:
        """A record with what its stored form leaves out."""
        kind = type(record)
        if kind is CallSettled:
            return self._whole_result(record)  # type: ignore[arg-type]
        if kind is StepFinished:
            return self._whole_step(record)  # type: ignore[arg-type]
        if kind is StepPaused:
            return self._whole_pause(record)  # type: ignore[arg-type]
        return record

    def _whole_result(self, record: CallSettled) -> CallSettled:
        if record.error_of is not None:
            result = replace(record.result, error=self._errors.get(record.error_of))
            return replace(record, result=result, error_of=None)
        if not record.is_of_hook:
            return record
        call_id, name = record.result.call_id, record.result.name
        given = msgspec.convert(self._given.get(call_id, {}), ToolResult)
        return replace(record, result=replace(given, call_id=call_id, name=name), is_of_hook=False)

    def _whole_step(self, record: StepFinished) -> StepFinished:
        if record.errors_of:
            step = replace(record.step, errors=self._errors_of(record.errors_of))
            record = replace(record, step=step, errors_of=())
        if record.cuts is None:
            return record
        step, cuts = record.step, record.cuts
        return replace(
            record,
            step=replace(step, results=tuple(map(self._result, step.results))),
            messages=tuple(self._message(each, cuts) for each in record.messages),
            cuts=None,
        )

    def _whole_pause(self, record: StepPaused) -> StepPaused:
        pending = record.pending
        if pending is None:
            return record
        if record.errors_of:
            pending = replace(pending, errors=self._errors_of(record.errors_of))
        if record.is_short:
            calls = tuple(
                each if each.result is None else replace(each, result=self._result(each.result))
                for each in pending.calls
            )
            pending = replace(pending, calls=calls)
        if record.child_changes is not None:
            children = apply_changes(self._children, record.child_changes)
            pending = _with_children(pending, children)
        return replace(record, pending=pending, is_short=False, errors_of=(), child_changes=None)

    def _errors_of(self, numbers: Sequence[int]) -> tuple[ErrorInfo, ...]:
        return tuple(self._errors[number] for number in numbers if number in self._errors)

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
        if result.call_id in self._given:
            named = ToolResult(call_id=result.call_id, name=result.name)
            short = replace(record, result=named, is_of_hook=True)
            # What a hook gave may be no result.
            with suppress(msgspec.ValidationError, ValueError, TypeError):
                if self._whole(short) == record:
                    return short
        if result.error is not None and (numbers := self._find_errors((result.error,))):
            return replace(record, result=replace(result, error=None), error_of=numbers[0])
        return record

    def _shorten_step(self, record: StepFinished) -> StepFinished:
        step = record.step
        if step.errors and (numbers := self._find_errors(step.errors)):
            step = replace(step, errors=())
            record = replace(record, step=step, errors_of=numbers)
        if not step.results or not self._results:
            return record
        named = self._name_known(step.results, record.messages)
        if named is None:
            return record
        results, messages, cuts = named
        return replace(record, step=replace(step, results=results), messages=messages, cuts=cuts)

    def _shorten_pause(self, record: StepPaused) -> StepPaused:
        pending = record.pending
        if pending is None:
            return record
        if pending.errors and (numbers := self._find_errors(pending.errors)):
            pending = replace(pending, errors=())
            record = replace(record, pending=pending, errors_of=numbers)
        if any(self._children):
            changes = find_changes(self._children, _children_in(pending))
            pending = _with_children(pending, [])
            record = replace(record, pending=pending, child_changes=changes)
        if not self._results:
            return record
        calls: list[PendingCall] = []
        for call in pending.calls:
            named = self._name_known(() if call.result is None else (call.result,), ())
            if named is None:
                return record
            results, _, _ = named
            calls.append(replace(call, result=results[0]) if results else call)
        return replace(record, pending=replace(pending, calls=tuple(calls)), is_short=True)

    def _find_errors(self, errors: Sequence[ErrorInfo]) -> tuple[int, ...]:
        """The numbers of the records that have these errors; none if one of them is in no record."""
        numbers = {error: number for number, error in self._errors.items()}
        if any(error not in numbers for error in errors):
            return ()
        return tuple(numbers[error] for error in errors)

    def _name_known(
        self, results: Sequence[ToolResult], messages: Sequence[Message]
    ) -> tuple[tuple[ToolResult, ...], tuple[Message, ...], dict[str, int]] | None:
        """These results and messages; of those that are written already, only the call, and where messages are cut.

        A message that is not what the model reads of a result is written. None if one could be taken for a named one.
        """
        known, cuts = self._results, dict[str, int]()
        named_results: list[ToolResult] = []
        for result in results:
            written = known.get(result.call_id)
            if written is not None and (written is result or written == result):
                named_results.append(ToolResult(call_id=result.call_id))
            elif result == ToolResult(call_id=result.call_id):
                return None
            else:
                named_results.append(result)
        named_messages: list[Message] = []
        for message in messages:
            if type(message) is not ToolMessage:
                named_messages.append(message)
                continue
            written = known.get(message.call_id)
            if written is not None and (
                message == tool_message(written) or _is_cut(message, written, cuts)
            ):
                named_messages.append(ToolMessage(message.call_id, "", ""))
            elif message == ToolMessage(message.call_id, "", ""):
                return None
            else:
                named_messages.append(message)
        return tuple(named_results), tuple(named_messages), cuts


def _children_in(pending: PendingStep | None) -> list[Any]:
    """The children of each call."""
    return [] if pending is None else [call.children for call in pending.calls]


def _with_children(pending: PendingStep, children: Sequence[Any]) -> PendingStep:
    """The step with these children of its calls, as far as there are any."""
    each = zip_longest(pending.calls, children[: len(pending.calls)])
    return replace(pending, calls=tuple(replace(call, children=its) for call, its in each))


def _is_cut(message: ToolMessage, result: ToolResult, cuts: dict[str, int]) -> bool:
    """Whether a message is the beginning of the result of its call. Where it was cut is noted."""
    limit = message.text.rfind(_CUT)
    if limit < 0 or tool_message(result, limit) != message:
        return False
    cuts[message.call_id] = limit
    return True
