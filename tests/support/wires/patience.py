"""How long a provider under test waits for its far end."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.testing import Failure, WireTurn


def timeout_for(turns: Iterable[WireTurn], otherwise: float = 600.0) -> float:
    """Not long where the far end is to take too long."""
    return 0.2 if any(turn.failure is Failure.TIMEOUT for turn in turns) else otherwise
