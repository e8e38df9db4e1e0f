"""What can happen at all: the shell policy, the file jail, the sandbox. Each works alone, without an agent.

Each is loaded when its name is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.containment.jail import FileEntry, FileJail
    from hookline.containment.protected import INSTRUCTIONS, PROJECT_CONFIGURATION, PROTECTED
    from hookline.containment.sandbox import (
        CommandResult,
        RunningCommand,
        Sandbox,
        SandboxGrant,
        SandboxLimits,
        SandboxPaths,
        SandboxStatus,
    )
    from hookline.containment.shell.command_reader import read_command
    from hookline.containment.shell.policy import ShellPolicy, ShellVerdict
    from hookline.containment.shell.words import Command, Reading, Word

_HOME = {
    "jail": "FileEntry FileJail",
    "protected": "INSTRUCTIONS PROJECT_CONFIGURATION PROTECTED",
    "sandbox": (
        "CommandResult RunningCommand Sandbox SandboxGrant SandboxLimits SandboxPaths SandboxStatus"
    ),
    "shell.command_reader": "read_command",
    "shell.policy": "ShellPolicy ShellVerdict",
    "shell.words": "Command Reading Word",
}
"""Where each name lives in this package."""

__all__ = [
    "INSTRUCTIONS",
    "PROJECT_CONFIGURATION",
    "PROTECTED",
    "Command",
    "CommandResult",
    "FileEntry",
    "FileJail",
    "Reading",
    "RunningCommand",
    "Sandbox",
    "SandboxGrant",
    "SandboxLimits",
    "SandboxPaths",
    "SandboxStatus",
    "ShellPolicy",
    "ShellVerdict",
    "Word",
    "read_command",
]

__getattr__ = lazy.names_from(__name__, _HOME)
