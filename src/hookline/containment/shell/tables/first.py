"""Programs whose first word says whether they are asked something or told to do something."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Check
from hookline.containment.shell.words import Word


def first_word(pattern: str, *, needed: bool = True) -> Check:
    """The first word says what is asked; without `needed` there may be none."""

    def check(words: Sequence[Word]) -> str | None:
        if not words:
            return "it does more than ask" if needed else None
        asks = words[0].exact and re.fullmatch(pattern, words[0].text)
        return None if asks else "it does more than ask"

    return check


def no_files_of_words(words: Sequence[Word]) -> str | None:
    """Some programs take more words from `@file`."""
    taken = any(word.start.startswith("@") or not word.start for word in words)
    return "it takes options from a file" if taken else None
