"""The inbox of a store in memory, for the stores of tests."""

from __future__ import annotations

from hookline.errors import UnknownRunError
from hookline.journal import InboxMessage, Record, is_new


class PlainInbox:
    """Keeps messages in a list."""

    messages: tuple[InboxMessage, ...] = ()

    def read(self, run_id: str) -> list[Record]:
        raise UnknownRunError(f"there is no run '{run_id}' in the journal.")

    def post(self, message: InboxMessage) -> None:
        self.read(message.run_id)  # of runs that are there
        if is_new(message, self.inbox(message.run_id)):
            self.messages = (*self.messages, message)

    def inbox(self, *run_ids: str) -> list[InboxMessage]:
        return [each for each in self.messages if each.run_id in run_ids]
