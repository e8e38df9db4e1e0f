"""Values that cannot be changed, at any depth: JSON, and the check of what enters state; `Log`, a sequence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, cast, overload

import msgspec

from hookline.errors import NotJSONError

JSONValue: TypeAlias = Any
"""None, bool, int, float, str, or a FrozenList / FrozenDict of these."""

_SCALARS = frozenset({int, bool, type(None)})
_LARGEST = 2**63 - 1
_DEEPEST = 128
"""How deep values may be nested: they must be readable again, however deep the stack is then."""
_SILENT = (set, frozenset, bytes, bytearray, memoryview)
"""Types that do not say how they become JSON. msgspec would make lists in any order, and base64, of them."""
_READ_ONLY = "this value is read-only; derive a changed one (ctx.with_args(...), ctx.with_metadata(...), dict(value))"


class _Frozen:
    """Refuses to change, and is its own copy."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(_READ_ONLY)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self


class FrozenDict(_Frozen, dict[str, JSONValue]):
    """A dict that equals, prints and encodes like one, and refuses to change."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _Frozen._refuse
    pop = popitem = clear = update = setdefault = _Frozen._refuse

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, JSONValue]]]:
        return FrozenDict, (dict(self),)

    def with_item(self, key: str, value: JSONValue) -> FrozenDict:
        """This dict with one entry set; `value` must be frozen already."""
        return FrozenDict({**self, key: value})


class FrozenList(_Frozen, list[JSONValue]):
    """A list that equals, prints and encodes like one, and refuses to change."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _Frozen._refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _Frozen._refuse

    def __reduce_ex__(
        self, _protocol: SupportsIndex
    ) -> tuple[type[FrozenList], tuple[list[JSONValue]]]:
        return FrozenList, (list(self),)


EMPTY = FrozenDict()


def freeze(value: object, what: str = "this value", _level: int = 0) -> JSONValue:
    """`value` as frozen JSON. `what` names it in the error when it cannot become JSON.

    JSON values pass as they are. Types that declare how they become JSON are converted: an object
    with `__json__()`, a pydantic model, a dataclass, a msgspec struct, an enum, a date, a UUID.
    """
    kind = type(value)
    if kind is str:
        return checked_text(value, what)  # type: ignore[arg-type]
    if kind is float:
        return _finite(value, what)  # type: ignore[arg-type]
    if kind is int and not -_LARGEST - 1 <= value <= _LARGEST:  # type: ignore[operator]
        raise NotJSONError(f"{what} is an integer beyond 64 bits.", remedy="Pass it as text.")
    if kind in _SCALARS or kind is FrozenDict or kind is FrozenList:
        return value
    if _level > _DEEPEST:
        raise NotJSONError(
            f"{what} is nested deeper than {_DEEPEST} levels, or contains itself.",
            remedy="Make it flatter.",
        )
    if kind is dict:
        return freeze_dict(value, what, _level)  # type: ignore[arg-type]
    if kind is list or kind is tuple:
        return FrozenList([freeze(item, what, _level + 1) for item in value])  # type: ignore[attr-defined]
    return freeze(_to_declared_json(value, what), what, _level + 1)


def freeze_dict(value: dict[str, Any], what: str = "this value", _level: int = 0) -> FrozenDict:
    """A dict of JSON values, frozen. Its keys must be strings."""
    kind = type(value)
    if kind is FrozenDict:
        return value  # type: ignore[return-value]
    for key, item in value.items():
        # Most arguments are a few plain texts, which need no check of their own.
        if type(item) is not str or not item.isascii() or type(key) is not str or not key.isascii():
            break
    else:
        return FrozenDict(value)
    frozen: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            key = _check_key(key, what)
        frozen[key] = freeze(item, what, _level + 1)
    return FrozenDict(frozen)


def _check_key(key: object, what: str) -> str:
    if not isinstance(key, str):
        raise NotJSONError(
            f"{what} has the key {key!r} ({type(key).__name__}), which is not JSON.",
            remedy="Use string keys.",
        )
    return str(freeze(key, f"a key of {what}"))


def thaw(value: JSONValue) -> Any:
    """A private, changeable copy of frozen JSON."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


def checked_text(text: str, what: str = "this text") -> str:
    """Plain text that UTF-8 can hold. Half of a surrogate pair is refused here rather than when state is saved.

    A subclass of str (markup, a member of a StrEnum) becomes plain text.
    """
    if type(text) is not str:
        if not isinstance(text, str):
            raise NotJSONError(
                f"{what} is {text!r} ({type(text).__name__}), which is not text.",
                remedy="Pass a str.",
            )
        text = str.__str__(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise NotJSONError(
                f"{what} is not valid Unicode (position {error.start}).",
                remedy='Decode bytes with errors="replace" before they become text.',
            ) from None
    return text


def _finite(value: float, what: str) -> float:
    if math.isfinite(value):
        return value
    raise NotJSONError(
        f"{what} is {value}, which is not JSON.", remedy="Use a finite number or None."
    )


def _to_declared_json(value: object, what: str) -> Any:
    """`value` as it declares itself in JSON. Refuses values that declare nothing."""
    for method in ("__json__", "model_dump"):
        declare = getattr(value, method, None)
        if callable(declare) and not isinstance(value, type):
            plain = declare() if method == "__json__" else declare(mode="json")
            if type(plain) is not type(value):
                return plain
    try:
        plain = msgspec.to_builtins(value, enc_hook=plain_scalar)
    except (TypeError, ValueError, NotImplementedError, RecursionError):
        plain = value
    silent = value if type(plain) is type(value) else _silent(value)
    if silent is not None:
        raise NotJSONError(
            f"{what} is of type {type(silent).__qualname__}, which is not JSON.",
            remedy="Convert it first, or give its class a `__json__()` method that returns JSON.",
        )
    return plain


def _silent(value: Any) -> Any:
    """A set or bytes in `value`, if there are any."""
    if isinstance(value, _SILENT):
        return value
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        fields = getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", ()))
        parts = [getattr(value, name, None) for name in fields]
    return next((found for part in parts if (found := _silent(part)) is not None), None)


def plain_scalar(value: object) -> object:
    """A subclass of str, int or float as the plain value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(
        f"{type(value).__qualname__} is not JSON"
    )  # msgspec would ask again for what it got back


def valid_text(value: Any) -> Any:
    """JSON data with text that UTF-8 cannot hold replaced, so that it can be written."""
    return map_text(value, lambda text: text.encode(errors="replace").decode())


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """JSON data with every text in it changed, also that of keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_text(key, change): map_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_text(item, change) for item in value]
    return value


# --- a sequence that grows -------------------------------------------------------------------------


T = TypeVar("T")
BLOCK = 32
_new = object.__new__  # a log made of its parts, without the work of sorting items into blocks


class _Block(msgspec.Struct, frozen=True, gc=False):
    """A full block of items and the blocks before it. Holds leaf values only, so it needs no GC."""

    before: _Block | None
    items: tuple[Any, ...]
    length: int


class Log(Sequence[T], Generic[T]):
    """An append-only sequence: `log.append(x)` gives a longer one and leaves this one as it is.

    Its items are in a chain of full blocks, newest first, and a short tail. Appending copies the tail and never the
    chain: it costs the same at any length, and logs that branch share what they have in common.
    """

    __slots__ = ("_blocks", "_tail", "length")

    _blocks: _Block | None
    _tail: tuple[T, ...]
    length: int
    """What `len` gives, for those who ask in every step: an attribute costs a tenth of the call."""

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
        self.length = len(rest)

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
        log.length = self.length + len(items)
        return log

    def with_last(self, item: T) -> Log[T]:
        """This log with its last item replaced."""
        log: Log[T] = _new(Log)
        log._blocks = self._blocks
        log._tail = (*self._tail[:-1], item)
        log.length = self.length
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
        return self.length

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


def encode_as_text(value: object) -> object:
    """What stands in the journal for a value that is not JSON: a list for a `Log`, text for everything else.

    It is the `enc_hook` of msgspec. A tool may report anything while it runs, and a hook may give any type.
    """
    if isinstance(value, str):
        return str.__str__(value)
    return list(value) if isinstance(value, Log) else repr(value)
