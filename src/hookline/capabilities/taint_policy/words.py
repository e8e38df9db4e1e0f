"""Texts as they are compared: the same words, however they are cased, spaced, quoted, encoded or composed."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e01ef]"
)
"""Soft hyphens, joiners, directions, selectors and tags: nobody sees them."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
"""Scripts that put no spaces between words: each letter counts as one."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ROUNDS = 3
"""How many encodings on top of each other are undone."""

_TOKEN = re.compile(r"[@#]?[^\W_](?:[\w.+@/\\:~#%&=?$*-]*[^\W_])?")
_PART = re.compile(r"[/\\:?&=#%$*~]+")
_MOMENT = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[Tt]\d\d?:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?"
    r"|\d\d?:\d\d(?::\d\d)?|\d\d?[./-]\d\d?[./-]\d{2,4}"
)
"""A date or a time of day."""
_CAMEL = re.compile(r"[a-z][A-Z]")
_INNER_JOINT = re.compile(r"[^\W_][._@+][^\W_]|[^\W_]_+[^\W_]")
_WORD_JOINT = re.compile(r"[^\W_][-/\\][^\W_]")
_NUMBER = re.compile(r"\d+(?:[.,'\u2019]\d+)*")
_SHORTEST = 5
"""Letters and digits that make an identifier out of a token with a digit or a joint in it."""

_COMMON_WORDS = """
a about above active after again all allow also always and another any are asc ascending ask at auto
automatic available back bad basic be because been before being below best better between big both bottom
but by can cancel canceled cancelled center change changed check close closed complete completed confirmed
continue could create created current custom daily dark day days debug default delete deleted desc
descending details did disabled do does done down draft each early edit either empty enabled end english
error even every everyone everything false fast few file files final find fine first folder for found friday
from full get good great had half hard has have hello help her here hers high him his home hour hours how
however html http https if important in inactive info information input inside into is it item items its
json just keep kind know large last late later latest left less let light like list little local long low
made main make many markdown max maybe me medium meeting message messages middle min minute minutes missing
mode monday month monthly more morning most much must my name near need never new next night no none normal
not note notes nothing now null number of off often ok okay old on once one only open or order other our out
outside over own page part pending people percent place plain please point previous primary public put quick
read ready really received recent regular rejected remove removed reply report request required reset
resolved response rest result results right run running same saturday save say search second see select send
sent set shared she short should show side simple since single size slow small so some someone something
soon sort standard start started state status still stop stopped string subject success such sunday sure
table tag take task text than thank thanks that the their them then there these they thing things think this
those three through thursday time title to today together tomorrow tonight too top total true try tuesday
two type under unknown unread until up update updated urgent us use used user users utc value version very
view was way we wednesday week weekly welcome well were what when where whether which while who whole why
will with within without word work would write wrong xml yaml year yearly yes yesterday yet you your zero
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that say too little to come from anywhere."""


def readings(text: str) -> tuple[str, ...]:
    """A text as it stands and, where it is encoded (JSON, HTML, percent signs), as it reads without that."""
    if text.isascii() and not ("\\" in text or "%" in text or "&" in text):
        return (text,)
    text = _INVISIBLE.sub("", text)
    found = [text]
    for _ in range(_ROUNDS):
        plain = unquote(html.unescape(_ESCAPE.sub(_unescape, found[-1])), errors="replace")
        if plain == found[-1]:
            break
        found.append(_INVISIBLE.sub("", plain))
    return tuple(found)


def _unescape(found: re.Match[str]) -> str:
    code, letter = found.groups()
    return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)


def _fold(text: str) -> str:
    """Without accents, widths, ligatures and the like."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    return "".join([letter for letter in parts if not unicodedata.combining(letter)])


def words(text: str) -> list[str]:
    """The words of a text, which are runs of letters and digits."""
    return _WORD.findall(_fold(_fold(text).casefold()))


def join_words(words: list[str]) -> str:
    """Words as a text in which one finds words, and no parts of them."""
    return f" {' '.join(words)} " if words else ""


def join_letters(form: str) -> str:
    """What is left of words without what parts them."""
    return form.replace(" ", "")


def has_digit(form: str) -> bool:
    """Whether there is a digit in it."""
    return any(letter.isdigit() for letter in form)


def is_commonplace(found: list[str]) -> bool:
    """Whether words are so few and so ordinary that they come from anywhere: `the`, `to do`, `high`, `7`."""
    return len("".join(found)) <= 1 or (len(found) <= 2 and all(map(_is_common, found)))


def trim_ordinary(found: list[str]) -> list[str]:
    """Words without the ordinary ones at both ends: those do not make something else of the others."""
    start, end = 0, len(found)
    while start < end and _is_common(found[start]):
        start += 1
    while end > start and _is_common(found[end - 1]):
        end -= 1
    return found[start:end]


def _is_common(word: str) -> bool:
    # One or two letters are not a word, except in scripts where each letter is one.
    is_short = word.isascii() and (len(word) == 1 or (len(word) == 2 and word.isalpha()))
    return is_short or word in _COMMON


def identifiers(text: str, *, in_command: bool = False) -> dict[str, str]:
    """The addresses, names of files, codes and numbers in a text, and their parts: by their words, as they stand.

    In a command line `left-pad` and `feature/login` are names; in a sentence such words are words.
    """
    return {
        join_words(words(candidate)): candidate
        for found in _TOKEN.findall(_fold(text))
        for candidate in _candidates(found)
        if _is_identifier(candidate)
        or (in_command and len(candidate) > _SHORTEST and _WORD_JOINT.search(candidate))
    }


def _candidates(token: str) -> Iterator[str]:
    yield token
    parts = _PART.split(token)
    if len(parts) > 1:
        yield from filter(None, parts)
    for part in parts:
        name, at, domain = part.partition("@")
        if at and name and domain:
            yield name
            yield domain


def _is_identifier(token: str) -> bool:
    if _MOMENT.fullmatch(token):
        return False
    form = join_letters(join_words(words(token)))
    if len(form) < _SHORTEST:
        return False
    if token[0] in "@#" or has_digit(form):
        return True
    if token.count("/") > 1 or token.count("\\") > 1:
        return True
    return bool(_INNER_JOINT.search(token) or _CAMEL.search(token))


def numbers(text: str) -> Iterator[str]:
    """The numbers in a text: each in every way its points and commas can be meant."""
    for found in _NUMBER.findall(text):
        yield from readings_of_number(found)


def readings_of_number(written: str) -> set[str]:
    """What a number may be that is written so: `1.234,50` is 1234.5, and `1.234` is 1234 or 1.234."""
    parts = re.split(r"[.,'\u2019]", written)
    whole = "".join(parts).lstrip("0") or "0"
    if len(parts) == 1:
        return {whole}
    fraction = parts[-1].rstrip("0")
    before = "".join(parts[:-1]).lstrip("0") or "0"
    return {whole, f"{before}.{fraction}" if fraction else before}


def format_number(value: int | float) -> str:
    """A number as `readings_of_number` writes it."""
    if isinstance(value, int):
        return str(abs(value))
    if not math.isfinite(value):
        return ""
    return str(abs(int(value))) if value.is_integer() else f"{abs(value):.10f}".rstrip("0")


# --- texts that were read ----------------------------------------------------------------------


PHRASE = 4
"""Words in a row that are rarely said twice by chance."""
_LONG = 8
"""Letters and digits that are found wherever they stand, parted or not."""

_NUMBER_SIGN = "#"


def as_number(value: int | float) -> str:
    """The form of a number, however it is written; empty if it is none."""
    number = format_number(value)
    return number and f"{_NUMBER_SIGN}{number}"


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
        """Identifiers that are recognised without their separators, by their squeezed form."""

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
            self._texts.append((source, join_words(found), "".join(found)))
            self._words.update(found)
            self._numbers.update(numbers(reading))
            self._phrases.update(_phrases(found))
            self._keep_identifiers(reading)

    def _keep_identifiers(self, text: str) -> None:
        for form in identifiers(text):
            letters = join_letters(form)
            if len(letters) >= _LONG and has_digit(form):
                self.long_identifiers.setdefault(letters, form)

    def has(self, form: str) -> bool:
        """Whether these words are in a text, one after the other; an identifier also when it is parted otherwise."""
        return self.where(form) is not None

    def where(self, form: str) -> str | None:
        """Where the first text with these words, or with this `as_number`, comes from; None if there is none."""
        if form.startswith(_NUMBER_SIGN):
            return self._where_number(form.removeprefix(_NUMBER_SIGN))
        if not form:
            return None
        if self._words.issuperset(form.split()):
            for source, text, _ in self._texts:
                if form in text:
                    return source
        letters = join_letters(form)
        if len(letters) >= _LONG and has_digit(letters):
            for source, _, text in self._texts:
                if letters in text:
                    return source
        return None

    def _where_number(self, number: str) -> str | None:
        if number not in self._numbers:
            return None
        # Which text it is matters to people only, and it may be written in another way there.
        return self.where(join_words(words(number))) or self._texts[0][0]

    def find_copied(self, found: list[str]) -> set[int]:
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
