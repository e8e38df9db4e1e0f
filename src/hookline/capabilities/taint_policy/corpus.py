"""Texts of one kind, kept so that it is soon known whether something is in them, and in which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookline.capabilities.taint_policy.words import (
    has_digit,
    identifiers,
    numbers,
    readings,
    spelled,
    squeezed,
    words,
    written_number,
)

PHRASE = 4
"""Words in a row that are rarely said twice by chance."""
_LONG = 8
"""Letters and digits that are found wherever they stand, parted or not."""

_NUMBER = "#"


def as_number(value: int | float) -> str:
    """The form of a number, however it is written; empty if it is none."""
    number = written_number(value)
    return number and f"{_NUMBER}{number}"


class Corpus:
    """What was read. Adding a text costs its own length; asking costs a search through what is kept, or less."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str, str]] = []
        """Where each text comes from, its words, and what is left of them without what parts them."""
        self._known: set[int] = set()
        self._words: set[str] = set()
        self._numbers: set[str] = set()
        self._phrases: set[int] = set()
        self.long_identifiers: dict[str, str] = {}
        """Identifiers that can be told without what parts them, by their squeezed form."""

    def add(self, text: str, source: str = "") -> None:
        """One more text. What is known already is kept once."""
        for reading in readings(text):
            key = hash(reading)
            if key in self._known:
                continue
            self._known.add(key)
            found = words(reading)
            if not found:
                continue
            self._texts.append((source, spelled(found), "".join(found)))
            self._words.update(found)
            self._numbers.update(numbers(reading))
            self._phrases.update(_phrases(found))
            self._keep_identifiers(reading)

    def _keep_identifiers(self, text: str) -> None:
        for form in identifiers(text):
            letters = squeezed(form)
            if len(letters) >= _LONG and has_digit(form):
                self.long_identifiers.setdefault(letters, form)

    def has(self, form: str) -> bool:
        """Whether these words are in a text, one after the other; an identifier also when it is parted otherwise."""
        return self.where(form) is not None

    def where(self, form: str) -> str | None:
        """Where the first text with these words, or with this `as_number`, comes from; None if there is none."""
        if form.startswith(_NUMBER):
            return self._where_number(form.removeprefix(_NUMBER))
        if not form:
            return None
        if self._words.issuperset(form.split()):
            for source, text, _ in self._texts:
                if form in text:
                    return source
        letters = squeezed(form)
        if len(letters) >= _LONG and has_digit(letters):
            for source, _, text in self._texts:
                if letters in text:
                    return source
        return None

    def _where_number(self, number: str) -> str | None:
        if number not in self._numbers:
            return None
        # Which text it is matters to people only, and it may be written in another way there.
        return self.where(spelled(words(number))) or self._texts[0][0]

    def copied(self, found: list[str]) -> set[int]:
        """Which of these words, by their places, are part of a phrase that is in a text."""
        places = set[int]()
        for place, phrase in enumerate(_phrases(found)):
            if phrase in self._phrases:
                places.update(range(place, place + PHRASE))
        return places

    def __bool__(self) -> bool:
        return bool(self._texts)


def _phrases(found: list[str]) -> Iterator[int]:
    runs: Any = zip(*(found[start:] for start in range(PHRASE)), strict=False)
    return map(hash, runs)
