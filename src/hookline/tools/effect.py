"""What running a tool a second time would do."""

from __future__ import annotations

import enum


class Effect(enum.StrEnum):
    """How often a tool may run for one call. Retries and recovery after a crash ask this."""

    PURE = "pure"
    """It changes nothing: run it as often as you like."""
    IDEMPOTENT = "idempotent"
    """Running it again with the same idempotency key changes nothing more."""
    ONCE = "once"
    """Every run has its own effect: it is never run again unless it is known not to have run."""
