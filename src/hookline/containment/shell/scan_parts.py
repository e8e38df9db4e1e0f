"""What has been read of one command, while the strict reader is at it."""

from __future__ import annotations

from hookline.containment.shell.scan_redirects import cannot_fail
from hookline.containment.shell.words import Command, Redirect, Word


class Parts:
    """The words of a command, with where they lie, and what stands around them."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.spans: list[tuple[int, int]] = []
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []

    def command(self, text: str, *, piped: bool, again: bool, plain: bool = True) -> Command:
        """The command that they make. `plain`: it is a simple one, and so bash would run just these words."""
        static = plain and not self.assignments and all(word.exact for word in self.words)
        static = static and all(cannot_fail(redirect) for redirect in self.redirects)
        return Command(
            tuple(word.text for word in self.words) if static else None,
            text,
            tuple(self.words),
            tuple(self.assignments),
            tuple(self.redirects),
            piped,
            again,
        )
