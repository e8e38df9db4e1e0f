"""What the policy says."""

from __future__ import annotations

from typing import Literal

import msgspec

Decision = Literal["allow", "ask", "deny"]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A decision, why, and which part of the command it is about."""

    decision: Decision
    reason: str
    """One sentence that names the part it is about."""
    command: str = ""
    """That part."""
    asks_in_sandbox: bool = False
    """Whether a person is asked even where a sandbox contains the command: what it removes cannot be restored."""
    env_files: tuple[str, ...] = ()
    """The environment files (`.env`) that a word of the command names, as whole paths."""
