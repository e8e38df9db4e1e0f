"""The sandbox: what a command can do at all. Works alone, without an agent.

`sandbox.py` is what is used; `bubblewrap.py` and `host.py` are its drivers, and `tables.py` has what is hidden and
protected."""

from hookline.containment.sandbox.command import CommandResult, SandboxGrant
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.output import Excerpt
from hookline.containment.sandbox.paths import SandboxPaths, emptied, inside_any
from hookline.containment.sandbox.running import RunningCommand
from hookline.containment.sandbox.sandbox import Sandbox, SandboxMode, SandboxStatus

__all__ = [
    "CommandResult",
    "Excerpt",
    "RunningCommand",
    "Sandbox",
    "SandboxGrant",
    "SandboxLimits",
    "SandboxMode",
    "SandboxPaths",
    "SandboxStatus",
    "emptied",
    "inside_any",
]
