"""Whole numbers within bounds, as an expression of a grammar."""

from __future__ import annotations

_DIGITS = 16
"""The most digits a number has where no bound says otherwise: what a JSON reader keeps exactly."""


def between(least: int | None, most: int | None) -> str:
    """The integers from `least` to `most`, either of which may be missing; empty when there are none."""
    largest = 10**_DIGITS - 1
    low = min(-largest, most or 0) if least is None else least
    high = max(largest, least or 0) if most is None else most
    if low > high:
        return ""
    parts = []
    if low < 0:
        # Zero has no sign of its own here: "-0" would be a second way to write it.
        parts += [f'"-" {body}' for body in _positive(max(1, -min(high, -1)), -low)]
    if high >= 0:
        parts += _positive(max(0, low), high)
    return " | ".join(parts)


def _positive(low: int, high: int) -> list[str]:
    """The ways to write a number from `low` to `high`, neither below zero: one length after the other."""
    parts = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        last = min(high, 10**length - 1)
        parts.append(_same_length(str(first), str(last)))
    return parts


def _same_length(low: str, high: str) -> str:
    """Digits from `low` to `high`, which are equally long."""
    if not low:
        return '""'
    if low[0] == high[0]:
        rest = _same_length(low[1:], high[1:])
        return f'"{low[0]}"' if rest == '""' else f'"{low[0]}" ( {rest} )'
    length = len(low) - 1
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        return f"[{low[0]}-{high[0]}]{_any(length)}"
    parts = []
    first, last = int(low[0]), int(high[0])
    if set(low[1:]) - {"0"}:
        parts.append(f'"{first}" ( {_same_length(low[1:], "9" * length)} )')
        first += 1
    if set(high[1:]) - {"9"}:
        parts.append(f'"{last}" ( {_same_length("0" * length, high[1:])} )')
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}]{_any(length)}")
    return f"( {' | '.join(parts)} )"


def _any(length: int) -> str:
    return "" if not length else f" [0-9]{{{length}}}"
