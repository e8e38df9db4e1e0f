"""Texts of hooks for the model and the terminal: labelled, cut where they are too long, and harmless."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from hookline.state import UserMessage

LONGEST = 10_000
"""Characters that reach the model; the whole text goes into a file."""
_LABEL = "<hook name="
_CLOSING = re.compile(r"</(?=hook\b)", re.IGNORECASE)
_LONGEST_SEQUENCE = 4096
_PRINTABLE = r"[^\x00-\x1f\x7f-\x9f]*"
_SEQUENCES = re.compile(rf"(?:\x07|\x1b\](?:0|1|2|9|99|777);{_PRINTABLE}(?:\x07|\x1b\\))+")
"""Titles (OSC 0, 1, 2), notifications (OSC 9, 99, 777) and the bell."""


class Spill:
    """A private directory for texts that are too long."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def cut(self, text: str) -> str:
        """A text that is short enough, with a note about the rest."""
        text = text.encode(errors="replace").decode()
        if len(text) <= LONGEST:
            return text
        try:
            where = f"the whole of it is in {self._keep(text)}"
        except OSError:
            where = "the rest of it could not be kept"
        return f"{text[:LONGEST]}\n[cut here: {LONGEST:,} of {len(text):,} characters are shown; {where}]"

    def _keep(self, text: str) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="hookline-hooks-"))
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".txt", "output-", self._directory)  # mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return Path(name)


def labelled(hook: str, text: str) -> str:
    """A hook's words to the model, under its name. It cannot close its own label."""
    name = hook.replace('"', "'").replace("<", "(").replace(">", ")")
    inside = _CLOSING.sub(r"<\\/", text)
    return f'{_LABEL}"{name}">\n{inside}\n</hook>'


def is_labelled(message: UserMessage) -> bool:
    """Whether a message has the words of a hook."""
    return bool(message.by) and message.text.startswith(_LABEL)


def is_harmless(sequence: str) -> bool:
    """Whether a control sequence is titles, notifications and the bell only."""
    return len(sequence) <= _LONGEST_SEQUENCE and _SEQUENCES.fullmatch(sequence) is not None
