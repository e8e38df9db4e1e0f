"""Output as progress messages: told soon, and not for every line."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

from hookline.capabilities.bash.text import readable

_PAUSE = 0.05
"""Seconds between two messages."""
_LONGEST = 8_000
"""Characters in one message; of more than that its end is told."""


class Telling:
    """Gathers what is printed, and tells it a few times a second."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Take what was printed."""
        self._text += self._decoder.decode(data)
        if len(self._text) > 2 * _LONGEST:
            self._left_out += len(self._text) - _LONGEST
            self._text = self._text[-_LONGEST:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._now)

    def _now(self) -> None:
        self._timer = None
        text = readable(self._text.encode(errors="replace"))
        if self._left_out:
            text = f"[{self._left_out:,} characters not shown here]\n{text}"
        self._text, self._left_out = "", 0
        if text:
            self._tell(text)

    def finish(self) -> None:
        """Tell what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._now()
