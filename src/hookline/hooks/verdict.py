"""What can be decided at a point, and what was. What a hook may return is `HookOutcome` in `outcome.py`."""

from __future__ import annotations

import enum

import msgspec


class Kind(enum.IntEnum):
    """What was decided, the strictest highest."""

    ALLOW = -1
    PROCEED = 0
    ASK = 1
    BLOCK = 2
    STOP = 3
    FAILED = 4
    """A hook failed where that is an error. Hooks cannot answer this; observers see it."""

    @property
    def label(self) -> str:
        """The word for it in journals and messages."""
        return self.name.lower()


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What was decided at a point, and by which hook. Observers see it."""

    kind: Kind = Kind.PROCEED
    reason: str = ""
    decided_by: str = ""

    @property
    def label(self) -> str:
        """`proceed`, `ask`, `block`, `stop`, or `failed` when a hook failed where that is an error."""
        return self.kind.label
