"""Which messages give way and which stay. Calls stay with their results, and everything stays in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hookline.state import Message, ToolMessage, UserMessage

BY = "summarization"
"""Who speaks in a summary."""


class Room(msgspec.Struct, frozen=True):
    """How much there is to be left, in tokens."""

    budget: int
    """For all messages together."""
    summary: int
    """Of that, for the summary."""
    keep: int
    """Of that, for the latest messages, as long as there are more than `least` of them."""
    least: int
    """So many of the latest messages are kept if the budget allows it, however long they are."""


class Cut(msgspec.Struct, frozen=True):
    """A conversation taken apart."""

    before: tuple[Message, ...]
    """What stands before the summary: the first prompt."""
    middle: tuple[Message, ...]
    """What gives way."""
    after: tuple[Message, ...]
    """What follows: the latest prompt, and the latest messages."""

    def joined(self, instead: Message) -> tuple[Message, ...]:
        """The conversation with this in the place of what gives way."""
        return (*self.before, instead, *self.after)


def is_summary(message: Message) -> bool:
    """Whether a message stands for others that gave way."""
    return isinstance(message, UserMessage) and message.by == BY


def choose(messages: Sequence[Message], size: Callable[[Message], int], room: Room) -> Cut | None:
    """Where to cut; None when nothing that was said would give way.

    The first prompt and the latest one stay, and the latest messages: the last call with its results at any rate,
    more as `keep` and `least` say and the budget allows.
    """
    starts = [at for at, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    pinned = _prompts(messages)
    sizes = [size(message) for message in messages]
    start = starts[-1] if starts else 0
    tail = sum(sizes[start:])
    beside = sum(sizes[at] for at in pinned if at < start)
    for earlier in reversed(starts[:-1]):
        tail += sum(sizes[earlier:start])
        beside -= sizes[earlier] if earlier in pinned else 0
        is_wanted = tail <= room.keep or len(messages) - earlier <= room.least
        if tail + beside + room.summary > room.budget or not is_wanted:
            break
        start = earlier
    return _taken_apart(messages, pinned, start)


def _taken_apart(messages: Sequence[Message], pinned: Sequence[int], start: int) -> Cut | None:
    middle = [message for at, message in enumerate(messages[:start]) if at not in pinned]
    if all(map(is_summary, middle)):
        return None
    stay = [messages[at] for at in pinned if at < start]
    return Cut(tuple(stay[:1]), tuple(middle), (*stay[1:], *messages[start:]))


def _prompts(messages: Sequence[Message]) -> list[int]:
    """Where the first and the latest prompt of a person stand: one place if they are the same."""
    asked = [at for at, m in enumerate(messages) if isinstance(m, UserMessage) and not m.by]
    return sorted({asked[0], asked[-1]}) if asked else []
