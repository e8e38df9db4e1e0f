"""The questions of a run and its children, and what others post to a run: answers and cancellations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hookline.errors import UnknownRunError, UsageError
from hookline.journal.fold import drop_answered_questions, find_recorded_answers, story_of
from hookline.journal.inbox import FirstAnswer, InboxAnswer, InboxCancel
from hookline.journal.record import (
    ApprovalAnswered,
    ApprovalAsked,
    CallSettled,
    ChildFinished,
    ChildStarted,
    Record,
    StepFinished,
    parent_of,
)
from hookline.journal.store import JournalStore
from hookline.state import Decision, PendingApproval


class Questions:
    """The questions of a run and its children, and the answers to them: `await Questions.read(journal, run_id)`."""

    def __init__(self, journal: JournalStore) -> None:
        self._journal = journal
        self.answered: dict[str, FirstAnswer] = {}
        """The answers on record."""
        self.open: tuple[PendingApproval, ...] = ()
        """The questions that wait for an answer."""

    @classmethod
    async def read(cls, journal: JournalStore, run_id: str) -> Questions:
        """Read them from the records of the run and its children."""
        questions = cls(journal)
        records = await journal.read(run_id)
        story = await story_of(records, journal)
        asked = await questions._read(records)
        if story.is_finished:
            known = await find_recorded_answers(journal, story.state, records)
            asked = list(drop_answered_questions(story.state, known).pending)
        questions.open = tuple(each for each in asked if each.id not in questions.answered)
        return questions

    async def _read(self, records: Sequence[Record]) -> list[PendingApproval]:
        """Read the answers, and give the last question about each call that has no result."""
        asked: dict[str, PendingApproval] = {}
        children: dict[str, list[PendingApproval]] = {}
        for record in records:
            match record:
                case ApprovalAsked(approval=PendingApproval() as approval):
                    asked[approval.tool_call.id] = approval
                case ApprovalAnswered(decision=Decision() as decision):
                    self.answered[record.approval_id] = FirstAnswer(decision, record.by)
                case CallSettled():
                    asked.pop(record.result.call_id, None)
                case StepFinished():
                    asked.clear()
                case ChildStarted() if record.child_run_id not in children:
                    with suppress(UnknownRunError):  # it has not written anything yet
                        child = await self._journal.read(record.child_run_id)
                        children[record.child_run_id] = await self._read(child)
                case ChildFinished():
                    children[record.child_run_id] = []
                case _:
                    pass
        return [*asked.values(), *(each for child in children.values() for each in child)]


async def outermost(journal: JournalStore, run_id: str) -> str:
    """The run that a child is a part of, at the top. It has the inbox."""
    while (above := parent_of(await journal.read(run_id))) is not None:
        run_id = above
    return run_id


async def post_answer(
    journal: JournalStore, run_id: str, question: str, decision: Decision, *, by: str
) -> InboxAnswer | None:
    """Answer a question of a run that waits, or that another process drives. None: it has this answer already.

    Raises UsageError when nothing asks this, and when it has another answer; the error shows the first one.
    """
    run_id = await outermost(journal, run_id)
    questions = await Questions.read(journal, run_id)
    if question in questions.answered:
        questions.answered[question].check_same(question, decision)
        return None
    found = next((each for each in questions.open if each.id == question), None)
    if found is None:
        ids = ", ".join(sorted(each.id for each in questions.open))
        raise UsageError(
            f"no question with id '{question}' waits for an answer.",
            remedy=f"Waiting: {ids or 'nothing'}.",
        )
    message = InboxAnswer(
        run_id=run_id,
        question=question,
        fingerprint=found.fingerprint,
        decision=decision,
        by=by,
    )
    await journal.post(message)  # which adds nothing if the same answer waits there
    waiting = await journal.inbox(run_id)
    return message if any(each.id == message.id for each in waiting) else None


async def post_cancel(
    journal: JournalStore, run_id: str, *, by: str, reason: str = ""
) -> InboxCancel:
    """Cancel a run that another process drives, or that waits: whoever drives it next ends it.

    Raises UsageError when the run is over.
    """
    run_id = await outermost(journal, run_id)
    story = await story_of(await journal.read(run_id), journal)
    if story.is_over:
        ending = story.state.ending
        raise UsageError(
            f"run '{run_id}' is over ({ending.status.value if ending else 'ended'}): there is nothing to cancel."
        )
    message = InboxCancel(run_id=run_id, by=by, reason=reason)
    await journal.post(message)
    return message
