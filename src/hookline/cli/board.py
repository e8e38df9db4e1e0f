"""Lines of a question on the terminal, which are drawn again when the window gets another size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hookline.cli.terminal import TOGETHER, columns, is_smart, reflows, rows, width, wrapped

if TYPE_CHECKING:
    from hookline.cli.screen import Screen

_A_MOMENT = 0.15
"""Seconds without another signal: a window that is dragged sends dozens."""
_INDENT = "    "
Laid = Callable[[int], Sequence[str]]
"""What lays something out in so many columns."""


class Board:
    """What was said about a question so far. Prose is broken between words; commands and diffs stay as they are."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._said: list[tuple[str | Laid, bool]] = []
        self._drawn: list[str] = []
        self._room = width()

    def put(self, text: str = "", *, prose: bool = False) -> None:
        """One more line."""
        self._said.append((text, prose))
        for line in self._broken(text, prose):
            self._drawn.append(line)
            self._screen.say(line)

    def put_laid(self, laid: Laid) -> None:
        """Lines that are laid out for the width of the window, and laid out again for another."""
        self._said.append((laid, False))
        is_live = is_smart(self._screen.err)
        for text in laid(self._room - 1):
            fits = not is_live or columns(text) < self._room
            for line in [text] if fits else wrapped(text, self._room - 1, _INDENT):
                self._drawn.append(line)
                self._screen.say(line)

    def typed(self, text: str) -> None:
        """Somebody has typed something, and it is on the terminal: the question ends a line further down."""
        self._said.append((text, False))
        self._drawn.append(text)

    def _broken(self, text: str, prose: bool) -> list[str]:
        if not prose or not is_smart(self._screen.err):
            return [text.replace(TOGETHER, " ")]
        return wrapped(text, self._room - 1, _INDENT)

    @contextlib.contextmanager
    def kept_in_shape(self) -> Iterator[None]:
        """Draw it again, within this block, when the window gets another width."""
        number = getattr(signal, "SIGWINCH", None)
        if number is None or not is_smart(self._screen.err):
            yield
            return
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.TimerHandle] = []

        def changed() -> None:
            for timer in waiting:
                timer.cancel()
            waiting[:] = [loop.call_later(_A_MOMENT, self.redraw)]

        loop.add_signal_handler(number, changed)
        try:
            yield
        finally:
            loop.remove_signal_handler(number)
            for timer in waiting:
                timer.cancel()

    def redraw(self) -> None:
        """Take away what is there, and say it again in lines of the width of now."""
        before, self._room = self._room, width()
        if self._room == before:
            return
        self._screen.err.write(self._erased(self._drawn))
        self.repeat()

    def repeat(self) -> None:
        """Say all of it once more, where the cursor is."""
        said, self._said, self._drawn = self._said, [], []
        self._room = width()
        for what, prose in said:
            if isinstance(what, str):
                self.put(what, prose=prose)
            else:
                self.put_laid(what)

    def _erased(self, drawn: list[str]) -> str:
        room = self._room if reflows() else max(self._room, 10**6)
        above = sum(rows(line, room) for line in drawn)
        try:
            height = os.get_terminal_size(self._screen.err.fileno()).lines
        except (OSError, ValueError):
            height = 24
        # What has left the window at its top cannot be taken back.
        return f"\r\x1b[{above}A\x1b[J" if above < height else "\x1b[H\x1b[J"
