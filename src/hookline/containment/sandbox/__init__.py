"""The sandbox: what a command can do at all. Works alone, without an agent.

`sandbox.py` is what is used. `bubblewrap.py` and `running_command.py` run commands, contained and on the host, and
`tables.py` has what is hidden and protected."""

from hookline.containment.links import is_inside_any
from hookline.containment.sandbox.command import (
    PLACES,
    CommandResult,
    Excerpt,
    Place,
    SandboxGrant,
    is_looser,
)
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.paths import SandboxPaths, emptied_directories
from hookline.containment.sandbox.running_command import RunningCommand
from hookline.containment.sandbox.sandbox import Sandbox, SandboxStatus

__all__ = [
    "PLACES",
    "CommandResult",
    "Excerpt",
    "Place",
    "RunningCommand",
    "Sandbox",
    "SandboxGrant",
    "SandboxLimits",
    "SandboxPaths",
    "SandboxStatus",
    "emptied_directories",
    "is_inside_any",
    "is_looser",
]
