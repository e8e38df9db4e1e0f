"""Checks of options. Each error names whose option it is, the option and what was given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Any, TypeVar

from hookline.errors import BuildError

T = TypeVar("T")
_REMEDY = "Give one, or leave it out."


def check_count(
    who: str,
    option: str,
    given: Any,
    least: int = 1,
    *,
    remedy: str = _REMEDY,
    error: type[BuildError] = BuildError,
) -> int:
    """A whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise error(
            f"{who}: {option}={given!r} is not a whole number of at least {least}.", remedy=remedy
        )
    return given


def check_positive(
    who: str,
    option: str,
    given: Any,
    most: float = math.inf,
    *,
    remedy: str = _REMEDY,
    error: type[BuildError] = BuildError,
) -> float:
    """A number above zero."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not (is_number and 0 < given <= most and math.isfinite(given)):
        limit = "" if most == math.inf else f" and at most {most:g}"
        raise error(f"{who}: {option}={given!r} is not a number above 0{limit}.", remedy=remedy)
    return float(given)


def check_choice(who: str, option: str, given: T, known: Sequence[T]) -> T:
    """One of a few values."""
    if given not in known:
        raise BuildError(
            f"{who}: {option}={given!r} is not valid.",
            remedy=f"Use {' or '.join(map(repr, known))}.",
        )
    return given


def check_names(
    who: str, option: str, given: Any, example: str, kind: type | UnionType = str
) -> tuple[Any, ...]:
    """Names or patterns in a list, and not one text."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    names = tuple(given) if is_list else (None,)
    if not all(isinstance(each, kind) and str(each) for each in names):
        raise BuildError(
            f"{who}: {option}={given!r} is not a list of names.",
            remedy=f"For example: {option}=[{example}].",
        )
    return names
