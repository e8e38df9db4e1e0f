"""The environment a command gets: a few names that are no secrets, and what the user allows by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

from hookline.containment.links import real_path
from hookline.containment.sandbox.command import can_be_bytes
from hookline.containment.sandbox.tables import ENVIRONMENT, PROXIES
from hookline.errors import UsageError

_PATH = "/usr/local/bin:/usr/bin:/bin"
_EXTRA: ContextVar[Mapping[str, str] | None] = ContextVar("hookline_variables", default=None)


@contextlib.contextmanager
def extra_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Give these variables to all commands that are started inside of it.

    It is for a hook around a tool, which does not start the command itself.
    """
    token = _EXTRA.set({**(_EXTRA.get() or {}), **check_variables(variables)})
    try:
        yield
    finally:
        _EXTRA.reset(token)


def environment(
    allowed: Iterable[str] = (), given: Mapping[str, str] | None = None, *, network: bool = False
) -> dict[str, str]:
    """The variables of a command: from our own environment by name, those of the sandbox, and those of a hook."""
    names = ENVIRONMENT | set(allowed)
    ours = {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith("LC_") or (network and _is_plain_proxy(name, value))
    }
    return {
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **ours,
        **check_variables(given or {}),
        **(_EXTRA.get() or {}),
    }


def check_variables(given: Mapping[str, str]) -> dict[str, str]:
    """Variables that a process can be given, or an error that names the one that cannot."""
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise UsageError(f"the variable {name!r} is {value!r}.", remedy="Both have to be text.")
        if not name or "=" in name or "\0" in name + value or not can_be_bytes(name + value):
            raise UsageError(
                f"{name!r} cannot be a variable of the environment.",
                remedy="A name must not contain '=', a NUL byte or an incomplete character.",
            )
    return dict(given)


def trusted_path(path: str, writable: Sequence[Path], shown: Sequence[Path] = ()) -> str:
    """A search path without the directories in which a contained command could have put programs of its own.

    What is `shown` in one of them cannot be written, unless it holds what can.
    """
    return os.pathsep.join(trusted_entries(path, writable, shown)) or _PATH


def trusted_entries(path: str, writable: Sequence[Path], shown: Sequence[Path] = ()) -> list[str]:
    """The entries of a search path that are whole paths, and that a contained command could not have written in."""
    return [each for each in path.split(os.pathsep) if _is_trusted(each, writable, shown)]


def _is_trusted(each: str, writable: Sequence[Path], shown: Sequence[Path]) -> bool:
    real = Path(real_path(each))
    inside = [root for root in writable if real.is_relative_to(root)]
    over = [place for place in shown if real.is_relative_to(place)]
    deepest = max(map(len, map(str, inside)), default=0)
    is_over = any(len(str(place)) > deepest for place in over)
    return os.path.isabs(each) and (not inside or is_over)


def _is_plain_proxy(name: str, value: str) -> bool:
    return name.lower() in PROXIES and "@" not in value
