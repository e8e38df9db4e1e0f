"""An immutable sequence whose append costs the same at any length and shares structure when it branches.

Items live in a chain of full blocks, newest first, and a short tail. Appending copies the tail
(at most one block of pointers) and never the chain, so a state that is derived and dropped costs
what a state that is kept costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

import msgspec

T = TypeVar("T")
BLOCK = 32
_new = object.__new__  # a log made of its parts, without the work of sorting items into blocks


class _Block(msgspec.Struct, frozen=True, gc=False):
    """A full block of items and the blocks before it. Holds leaf values only, so it needs no GC."""

    before: _Block | None
    items: tuple[Any, ...]
    length: int


class Log(Sequence[T], Generic[T]):
    """An append-only sequence: `log.append(x)` gives a longer one and leaves this one as it is."""

    __slots__ = ("_blocks", "_tail")

    _blocks: _Block | None
    _tail: tuple[T, ...]

    def __init__(self, items: Iterable[T] = ()) -> None:
        blocks: _Block | None = None
        rest = tuple(items)
        start = 0
        while len(rest) - start > BLOCK:
            length = BLOCK + (blocks.length if blocks else 0)
            blocks = _Block(blocks, rest[start : start + BLOCK], length)
            start += BLOCK
        self._blocks = blocks
        self._tail = rest[start:]

    def append(self, item: T) -> Log[T]:
        """This log and one more item."""
        return self.extend((item,))

    def extend(self, items: tuple[T, ...]) -> Log[T]:
        """This log and more items."""
        tail = self._tail + items
        blocks = self._blocks
        while len(tail) > BLOCK:
            blocks = _Block(
                blocks, tail[:BLOCK], BLOCK + (blocks.length if blocks is not None else 0)
            )
            tail = tail[BLOCK:]
        log: Log[T] = _new(Log)
        log._blocks = blocks
        log._tail = tail
        return log

    def with_last(self, item: T) -> Log[T]:
        """This log with its last item replaced."""
        log: Log[T] = _new(Log)
        log._blocks = self._blocks
        log._tail = (*self._tail[:-1], item)
        return log

    def since(self, earlier: Log[T]) -> tuple[T, ...] | None:
        """What was appended to `earlier` to make this log; None when this log is not a continuation of it.

        Costs what was appended, not what was there before.
        """
        if self is earlier:
            return ()
        added: list[tuple[T, ...]] = []
        blocks, part = self._blocks, self._tail
        kept = earlier._blocks
        kept_length = kept.length if kept is not None else 0
        while blocks is not kept:
            if blocks is None or blocks.length <= kept_length:
                return None
            added.append(part)
            part = cast("tuple[T, ...]", blocks.items)
            blocks = blocks.before
        shared = earlier._tail
        if part[: len(shared)] != shared:
            return None
        added.append(part[len(shared) :])
        return tuple(item for piece in reversed(added) for item in piece)

    def __len__(self) -> int:
        blocks = self._blocks
        return len(self._tail) + (blocks.length if blocks is not None else 0)

    def __iter__(self) -> Iterator[T]:
        parts: list[tuple[Any, ...]] = [self._tail]
        blocks = self._blocks
        while blocks is not None:
            parts.append(blocks.items)
            blocks = blocks.before
        for part in reversed(parts):
            yield from part

    def __reversed__(self) -> Iterator[T]:
        yield from reversed(self._tail)
        blocks = self._blocks
        while blocks is not None:
            yield from reversed(blocks.items)
            blocks = blocks.before

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        position = index if index >= 0 else len(self) + index
        blocks = self._blocks
        start = blocks.length if blocks is not None else 0
        if position >= start:
            return self._tail[position - start]
        if position < 0:
            raise IndexError("index out of range")
        while blocks is not None and position < blocks.length - BLOCK:
            blocks = blocks.before
        assert blocks is not None  # position < start, so a block holds it
        return cast(T, blocks.items[position - (blocks.length - BLOCK)])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Log):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        raise TypeError("a Log is compared by value and holds JSON, which cannot be hashed")

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"


EMPTY_LOG: Log[Any] = Log()
