"""What can happen at all: the shell policy, the file jail, the sandbox. Each works alone, without an agent.

Each is loaded when its name is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookline.containment.jail import PROTECTED, Entry, FileJail
    from hookline.containment.sandbox import (
        CommandResult,
        RunningCommand,
        Sandbox,
        SandboxGrant,
        SandboxLimits,
        SandboxPaths,
        SandboxStatus,
    )

_HOME: dict[str, str] = {
    "PROTECTED": "jail",
    "CommandResult": "sandbox",
    "Entry": "jail",
    "FileJail": "jail",
    "RunningCommand": "sandbox",
    "Sandbox": "sandbox",
    "SandboxGrant": "sandbox",
    "SandboxLimits": "sandbox",
    "SandboxPaths": "sandbox",
    "SandboxStatus": "sandbox",
}
"""Where each name lives in this room."""

__all__ = [
    "PROTECTED",
    "CommandResult",
    "Entry",
    "FileJail",
    "RunningCommand",
    "Sandbox",
    "SandboxGrant",
    "SandboxLimits",
    "SandboxPaths",
    "SandboxStatus",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
