"""What records say to those who read them: each hook that ran, and a final answer in the words it was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hookline.journal.record import (
    HookRan,
    HooksPassed,
    Record,
    ResponseReceived,
    StepFinished,
    StepStarted,
)
from hookline.state import AssistantMessage, Message


def hooks_in(records: Iterable[Record]) -> Iterator[HookRan]:
    """Every hook that ran, one by one, whatever it said."""
    for record in records:
        if isinstance(record, HooksPassed):
            yield from record.each()
        elif isinstance(record, HookRan):
            yield record
        elif isinstance(record, StepStarted | StepFinished) and record.guard:
            yield _guard(record)


def _guard(record: StepStarted | StepFinished) -> HookRan:
    """A default guard that stood alone at its point: it has no record of its own."""
    head = (record.run_id, record.seq, record.at)
    if isinstance(record, StepStarted):
        return HookRan(*head, "before_step", record.guard, 0.0, record.step)
    outcome = record.step.outcome
    said = outcome.evaluations if outcome is not None else ()
    point, index = "should_continue", record.step.index
    return HookRan(*head, point, record.guard, 0.0, index, evaluations=said)


def retold(record: Record, text: str) -> Record:
    """A record of a model's final answer as it is told to those who only get to know the answer's final text."""
    if isinstance(record, ResponseReceived):
        return msgspec.structs.replace(record, text=text)
    if isinstance(record, StepFinished):
        return msgspec.structs.replace(
            record,
            step=msgspec.structs.replace(record.step, text=text),
            messages=_retold(record.messages, record.step.text, text),
            replaced=_retold(record.replaced, record.step.text, text) if record.replaced else None,
        )
    return record


def _retold(messages: tuple[Message, ...], was: str, text: str) -> tuple[Message, ...]:
    return tuple(
        msgspec.structs.replace(message, text=text)
        if isinstance(message, AssistantMessage) and not message.calls and message.text == was
        else message
        for message in messages
    )
