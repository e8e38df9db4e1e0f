"""How a fetch shows on a terminal: one line that fills up, and is gone afterwards."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_PAUSE = 0.1


class ProgressBar:
    """Draws how far a fetch is. Where nobody looks at a terminal it stays silent."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._drawn_at = 0.0
        self._is_drawn = False
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Draw it, if it was not drawn just now."""
        now = time.monotonic()
        if not self._is_shown or (now - self._drawn_at < _PAUSE and done < total):
            return
        self._drawn_at = now
        self._is_drawn = True
        filled = _WIDTH * done // max(1, total)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        megabytes = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        sys.stderr.write(f"\r{self._what}  {bar}  {megabytes}  ")
        sys.stderr.flush()

    def end(self) -> None:
        """Wipe the line."""
        if self._is_drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
