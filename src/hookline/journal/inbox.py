"""The inbox of a run: answers and cancellations from outside, as rows that belong to the store.

A row says what somebody wants; it is not the truth of what happened. An answer that counted is an `ApprovalAnswered`
record, and a cancellation is the status of the run. So a row can be read as often as you like, and one that comes too
late changes nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from hookline.errors import UsageError
from hookline.state import Answer, Decision

FROM_INBOX = "inbox: "
"""What `ApprovalAnswered.by` begins with for an answer from the inbox. Who answered follows."""


def _new_id() -> str:
    return uuid.uuid4().hex


class InboxAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="answer", omit_defaults=True):
    """An answer to a question of a run. It is void if the question or the call is another one by then."""

    run_id: str
    """The outermost run, also for a question of a child."""
    question: str
    fingerprint: str
    """Of the tool and the arguments that were shown to whoever answers."""
    decision: Decision
    by: str
    at: float = msgspec.field(default_factory=time.time)
    id: str = msgspec.field(default_factory=_new_id)
    role: str = ""
    """Who was connected to the database, as the server says it. What is posted with a message does not count."""

    @property
    def who(self) -> str:
        """Who answered: the name that was given, and the role."""
        return _who(self)


class InboxCancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel", omit_defaults=True):
    """Somebody wants the run to end."""

    run_id: str
    by: str
    reason: str = ""
    at: float = msgspec.field(default_factory=time.time)
    id: str = msgspec.field(default_factory=_new_id)
    role: str = ""

    @property
    def words(self) -> str:
        """Why the run ended."""
        return f"cancelled by {_who(self)}" + (f": {self.reason}" if self.reason else "")


InboxMessage: TypeAlias = InboxAnswer | InboxCancel


def check_message(message: InboxMessage) -> InboxMessage:
    """Refuse what is no message."""
    if not isinstance(message, InboxMessage):
        raise UsageError(
            f"{message!r} is no message for a run.",
            remedy="journal.post takes an InboxAnswer or an InboxCancel. post_answer and post_cancel make one.",
        )
    return message


def _who(message: InboxMessage) -> str:
    """The role stands last: the server wrote it, and the name is what somebody says."""
    return f"{message.by} (database role {message.role})" if message.role else message.by


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[InboxMessage] = msgspec.json.Decoder(InboxMessage)


def encode_message(message: InboxMessage) -> bytes:
    """A message as a store keeps it."""
    return _encoder.encode(message)


def decode_message(run_id: str, text: str | bytes, role: str = "") -> InboxMessage:
    """A message for a run from a store, which may know the role of whoever posted it.

    One that cannot be read cancels the run: perhaps it was to do so. Rejected: an error, which kept the messages for
    other runs from their process, and let a worker try a run for ever. `journal.check()` reports the damage.
    """
    try:
        message = _decoder.decode(text)
    except (msgspec.DecodeError, UsageError) as error:
        by = "a message that cannot be read"
        return InboxCancel(run_id=run_id, by=by, reason=str(error), at=0.0, id="", role=role)
    return message if message.role == role else msgspec.structs.replace(message, role=role)


def is_new(message: InboxMessage, known: Iterable[InboxMessage]) -> bool:
    """Whether a store adds a message to the ones it has of the run. False when one of them says the same.

    Every store asks this before it adds one, where nobody else can add one at the same time. Raises UsageError for an
    answer that differs from the first one to the same question.
    """
    if isinstance(message, InboxCancel):
        return not any(isinstance(each, InboxCancel) for each in known)
    if message.decision.answer is Answer.EDIT:
        raise UsageError(
            f"the answer to '{message.question}' changes the call, but an answer in the inbox can only be yes or no.",
            remedy="Pass an edit to the run: agent.resume(run_id, {question: Decision.edit(...)}).",
        )
    for each in known:
        if isinstance(each, InboxAnswer) and (each.question, each.fingerprint) == (
            message.question,
            message.fingerprint,
        ):
            FirstAnswer(each.decision, each.who).check_same(message.question, message.decision)
            return False
    return True


class FirstAnswer(NamedTuple):
    """The answer to a question that was given first, and who gave it."""

    decision: Decision
    by: str

    def check_same(self, question: str, decision: Decision) -> None:
        """Raise UsageError if a later answer differs. The same one may be given again."""
        if decision == self.decision:
            return
        first = self.decision
        by = f" by {self.by.removeprefix(FROM_INBOX)}" if self.by else ""
        why = f": {first.reason}" if first.reason else ""
        raise UsageError(
            f"question '{question}' was answered already ({first.answer.value}){by}{why}.",
            remedy="The first answer counts. Continue the run without another one.",
        )
