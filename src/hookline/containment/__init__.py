"""What can happen at all: the shell policy, the file jail, the sandbox. Each works alone, without an agent.

Each is loaded when its name is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME: dict[str, str] = {}
"""Where each name lives in this room."""

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
