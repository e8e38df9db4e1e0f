"""What hooks say to the model: labelled, so that it is known whose words they are, and never too long."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from hookline.state import UserMessage

LONGEST = 10_000
"""Characters that reach the model; the whole of it goes into a file."""
_LABEL = "<hook name="
_CLOSING = re.compile(r"</(?=hook\b)", re.IGNORECASE)


class Spill:
    """Where texts go that are too long to show: files of a private directory."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def cut(self, text: str) -> str:
        """A text that is short enough, with a note where the rest is."""
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
    """What a hook tells the model. It cannot end its own label and go on as somebody else."""
    name = hook.replace('"', "'").replace("<", "(").replace(">", ")")
    inside = _CLOSING.sub(r"<\\/", text)
    return f'{_LABEL}"{name}">\n{inside}\n</hook>'


def is_labelled(message: UserMessage) -> bool:
    """Whether a message is what a hook told the model, and no person's."""
    return bool(message.by) and message.text.startswith(_LABEL)
