"""Output as progress messages: told soon, and not for every line."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

from hookline.capabilities.bash.text import first_word, readable

_PAUSE = 0.05
"""Seconds between two messages."""
_SILENCE = 0.5
"""Seconds after which a line is told that has not ended: a question, perhaps. Sooner, it might be half a secret, which
nobody who takes secrets out could know."""
_LONGEST = 8_000
"""Characters in one message; of more than that its end is told."""


class Telling:
    """Gathers what is printed, and tells it a few times a second, in whole lines."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        """When a message was last told, or the first piece after it came."""

    def add(self, data: bytes) -> None:
        """Take what was printed."""
        loop = asyncio.get_running_loop()
        if not self._text:
            self._last = loop.time()
        self._text += self._decoder.decode(data)
        if len(self._text) > 2 * _LONGEST:
            kept = self._text[-_LONGEST:]
            kept = kept[len(first_word(kept)) :]
            self._left_out += len(self._text) - len(kept)
            self._text = kept
        if self._timer is not None and self._timer.when() > loop.time() + _PAUSE:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_later(_PAUSE, self._now)

    def _now(self) -> None:
        """Tell the lines that have ended, and the rest once it has waited for long enough."""
        self._timer = None
        loop = asyncio.get_running_loop()
        end = max(self._text.rfind("\n"), self._text.rfind("\r")) + 1
        if not end and loop.time() - self._last >= _SILENCE:
            end = len(self._text)
        told, rest = self._text[:end], self._text[end:]
        self._say(told)
        if told:
            self._last = loop.time()
        self._text = rest
        if rest:
            self._timer = loop.call_later(_SILENCE, self._now)

    def _say(self, text: str) -> None:
        text = readable(text.encode(errors="replace"))
        if text and self._left_out:
            text = f"[{self._left_out:,} characters not shown here]\n{text}"
            self._left_out = 0
        if text:
            self._tell(text)

    def finish(self) -> None:
        """Tell what is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._say(self._text)
        self._text = ""
