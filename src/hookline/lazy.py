"""Rooms whose names are loaded when they are first used, so that importing one costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_from(room: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """A room's `__getattr__`: `home` says which of its modules each name lives in."""

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{home[name]}"), name)
        setattr(sys.modules[room], name, value)  # so that it is looked for once
        return value

    return load
