"""What changed between two values of JSON, as JSON. A text that is an object in JSON counts as that object."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

_DEEPEST = 64
"""Levels that are compared. What lies deeper changes as a whole: a model may write any text, and Python recurses."""
Changes: TypeAlias = dict[str, Any]
"""By key, or by position in an array: `[value]` is a new one, `[]` is gone, and an object has the changes in it.

If all keys of an object are named, they stand in its order. One that has not changed is named with an empty object.
"""


def find_changes(old: list[Any], new: list[Any]) -> Changes:
    """What makes `new` of `old`."""
    return _compare(_parts(old) or {}, _parts(new) or {}, 0)


def apply_changes(old: Any, changes: Changes) -> Any:
    """What `find_changes` was given as `new`."""
    if not changes:
        return old
    parts = dict(_parts(old) or {})
    for key, change in changes.items():
        match change:
            case dict():
                parts[key] = apply_changes(parts.get(key), change)
            case [value]:
                parts[key] = value
            case _:
                parts.pop(key, None)
    if parts.keys() <= changes.keys():
        parts = {key: parts[key] for key in changes if key in parts}
    if isinstance(old, str):
        return msgspec.json.encode(parts).decode()
    return list(parts.values()) if isinstance(old, list) else parts


def _compare(before: dict[str, Any], after: dict[str, Any], depth: int) -> Changes:
    changes: Changes = {}
    for key, value in after.items():
        change = _find_change(before[key], value, depth) if key in before else [value]
        if change:
            changes[key] = change
    changes |= {key: [] for key in before if key not in after}
    # Keys that are new come last, unless all are named.
    order = [*(key for key in before if key in after), *(key for key in after if key not in before)]
    if order != list(after):
        changes = {key: changes.get(key, {}) for key in (*after, *changes)}
    return changes


def _find_change(old: Any, new: Any, depth: int) -> Changes | list[Any]:
    """The changes in a value, or the new one. Empty if it is the same."""
    if any(isinstance(old, kind) and isinstance(new, kind) for kind in (dict, list, str)):
        before, after = _parts(old), _parts(new)
        if before is not None and after is not None and depth < _DEEPEST:
            return _compare(before, after, depth + 1)
    return {} if _is_same(old, new) else [new]


def _is_same(old: Any, new: Any) -> bool:
    try:
        return repr(old) == repr(new)  # 1 == True, and 0.0 == -0.0
    except RecursionError:
        return False


def _parts(value: Any) -> dict[str, Any] | None:
    """The values in an object or array, by key or position; None for anything else."""
    if isinstance(value, list):
        return {str(position): each for position, each in enumerate(value)}
    if isinstance(value, str):
        return _read_object(value)
    return value if isinstance(value, dict) else None


def _read_object(text: str) -> dict[str, Any] | None:
    """The object that a text is in JSON. Written again, it is the same text."""
    if not text.startswith("{"):
        return None
    try:
        value = msgspec.json.decode(text, type=dict[str, Any])
        return value if msgspec.json.encode(value).decode() == text else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
