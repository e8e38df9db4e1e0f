"""Records as readers and listeners see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

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
    """Every hook that ran, one record each."""
    for record in records:
        if isinstance(record, HooksPassed):
            yield from record.each()
        elif isinstance(record, HookRan):
            yield record
        elif isinstance(record, StepStarted | StepFinished) and record.guard:
            yield _guard(record)


def _guard(record: StepStarted | StepFinished) -> HookRan:
    """The default guard that was the only hook at its point: it has no record of its own."""
    if isinstance(record, StepStarted):
        point, step, outcome = "before_step", record.step, None
    else:
        point, step, outcome = "should_continue", record.step.index, record.step.outcome
    return HookRan(
        run_id=record.run_id,
        seq=record.seq,
        at=record.at,
        point=point,
        hook=record.guard,
        step=step,
        evaluations=outcome.evaluations if outcome is not None else (),
    )


def with_final_text(record: Record, text: str) -> Record:
    """A record of a model's final answer, with the text that hooks made of it."""
    if isinstance(record, ResponseReceived):
        return replace(record, text=text)
    if isinstance(record, StepFinished):
        step, before = record.step, record.step.text
        return replace(
            record,
            step=replace(step, text=text),
            messages=_with_text(record.messages, before, text),
            replaced=_with_text(record.replaced, before, text) if record.replaced else None,
        )
    return record


def _with_text(messages: tuple[Message, ...], before: str, text: str) -> tuple[Message, ...]:
    return tuple(
        replace(message, text=text)
        if isinstance(message, AssistantMessage) and not message.calls and message.text == before
        else message
        for message in messages
    )
