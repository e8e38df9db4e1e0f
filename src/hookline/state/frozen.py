"""JSON values that cannot be changed, at any depth, and the check of values that enter state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, Self, SupportsIndex, TypeAlias

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
        plain = msgspec.to_builtins(value, enc_hook=_plain_scalar)
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


def _plain_scalar(value: object) -> object:
    """A subclass of str, int or float as the plain value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise NotImplementedError  # msgspec would ask again for what it got back


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
