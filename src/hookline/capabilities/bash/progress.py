"""Output of a command as progress messages: soon, and not for every line."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Callable

from hookline.capabilities.bash.text import readable

_PAUSE = 0.05
"""Seconds between two messages."""
_SILENCE = 0.5
"""Seconds after which a line that has not ended is reported: it may be a question."""
_LONGEST = 8_000
"""Characters in one message. Of more than that, the end is reported."""
_HELD = 8
"""Characters of a word that has not ended from which on it waits for its end: half a secret cannot be recognised."""


_LINE_END = re.compile(r"[\r\n]")


class ProgressMessages:
    """Collects what a command prints, and reports it a few times a second, in whole lines."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._left_out = 0
        self._is_cut = False
        """Whether what comes next is the rest of a line of which the beginning was left out."""
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        """When the last message was sent, or the first output after it came."""

    def add(self, data: bytes) -> None:
        """Take what was printed."""
        loop = asyncio.get_running_loop()
        if not self._text:
            self._last = loop.time()
        self._text += self._decoder.decode(data)
        if len(self._text) > 2 * _LONGEST or self._is_cut:
            self._leave_out_beginning()
        if self._timer is not None and self._timer.when() > loop.time() + _PAUSE:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_later(_PAUSE, self._send_due)

    def _leave_out_beginning(self) -> None:
        """Keep the end, from a line's beginning: the rest of a cut line may be a secret whose name is not shown."""
        kept = self._text[-_LONGEST:]
        found = _LINE_END.search(kept)
        kept = "" if found is None else kept[found.end() :]
        self._is_cut = found is None
        self._left_out += len(self._text) - len(kept)
        self._text = kept

    def _send_due(self) -> None:
        """Report the lines that have ended. The rest follows once nothing has come for a while."""
        self._timer = None
        loop = asyncio.get_running_loop()
        end = max(self._text.rfind("\n"), self._text.rfind("\r")) + 1
        is_waiting = True
        if not end and loop.time() - self._last >= _SILENCE:
            end = len(self._text) - len(_unfinished(self._text))
            is_waiting = False
        due, self._text = self._text[:end], self._text[end:]
        self._send(due)
        if due:
            self._last = loop.time()
        if self._text and is_waiting:
            self._timer = loop.call_later(_SILENCE, self._send_due)

    def _send(self, text: str, *, is_last: bool = False) -> None:
        text = readable(text.encode(errors="replace"))
        if (text or is_last) and self._left_out:
            text = f"[{self._left_out:,} characters not shown here]\n{text}"
            self._left_out = 0
        if text:
            self._report(text)

    def finish(self) -> None:
        """Report what is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._send(self._text, is_last=True)
        self._text = ""


def _unfinished(text: str) -> str:
    """The last word of a text, if it may be half of a secret. Dots, as test runners print them, are not."""
    word = text[max(map(text.rfind, " \t\r\n")) + 1 :]
    return word if len(word) >= _HELD and any(map(str.isalnum, word)) else ""
