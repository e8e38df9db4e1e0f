"""The readings of a text: what is decoded, and where it is in the text itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.redaction import Redactor, redact
from hookline.redaction.readings import Span, find_in_readings


def readings(text: str) -> list[str]:
    """All readings of a text."""
    seen: list[str] = []

    def find(reading: str, _: bool) -> Iterator[Span]:
        seen.append(reading)
        yield from ()

    list(find_in_readings(text, find))
    return seen


def places(text: str, word: str) -> list[str]:
    """What is written where a word is read."""

    def find(reading: str, _: bool) -> Iterator[Span]:
        for found in re.finditer(re.escape(word), reading):
            yield *found.span(), "x"

    return [text[start:end] for start, end, _ in find_in_readings(text, find)]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("plain text, 100 % of it", "plain text, 100 % of it"),
        (r"a\nb\tc\"d\"", 'a\nb\tc"d"'),
        (r"a\\nb", "a\nb"),
        (r"\u0041\x42\103", "ABC"),
        (r"C:\Users\dan", r"C:\Users\dan"),
        ("a\\\nb", "ab"),
        ("a%20b%253Dc", "a b=c"),
        ("&lt;a&gt; &#38;&#x26;", "<a> &&"),
        ("\x1b[31ma\x1b[0mb", "ab"),
        (r"\u001b[31ma\033[0mb\e[Kc", "abc"),
        ("^[[31ma^[[0mb", "ab"),
        ("%5Cn%5C%22", '\n"'),
    ],
)
def test_a_text_is_decoded(text: str, last: str) -> None:
    """Escapes, letters of addresses and of HTML, and colours, level by level."""
    assert readings(text)[-1] == last


def test_a_colour_separates_and_does_not() -> None:
    """There is a reading of each kind: programs colour words and parts of words."""
    assert readings("a\x1b[31mb") == ["a\x1b[31mb", "a\x1bb", "ab"]


@given(st.text('ab"\\\n%=é\x1b', max_size=20), st.text('xyz"\\\n =', min_size=1, max_size=5))
def test_what_is_read_is_where_it_is_written(around: str, word: str) -> None:
    """A span in a reading is a span in the text, and holds the word as it is written there."""
    written = json.dumps(word)[1:-1]
    assert written in places(json.dumps(around)[1:-1] + "|" + written + "|", word)
    encoded = quote(word, safe="")
    assert encoded in places(f"|{quote(around)}|{encoded}|", word)


@pytest.mark.parametrize("depth", range(5))
def test_a_number_behind_a_quoted_name_becomes_a_text(depth: int) -> None:
    """The mark is quoted as the name is, so that JSON in JSON stays JSON."""
    text = json.dumps({"password": 123456, "user": "ann"})
    for _ in range(depth):
        text = json.dumps(text)
    shown = redact(text)
    for _ in range(depth):
        shown = json.loads(shown)
    assert json.loads(shown) == {"password": "[redacted:secret]", "user": "ann"}


@pytest.mark.parametrize("depth", range(4))
def test_a_quote_in_a_value_does_not_end_it(depth: int) -> None:
    """At each level, an escaped quote is part of the value."""
    text = json.dumps({"password": 'ab"hunter2', "user": "ann"})
    for _ in range(depth):
        text = json.dumps(text)
    shown = redact(text)
    for _ in range(depth):
        shown = json.loads(shown)
    assert json.loads(shown) == {"password": "[redacted:secret]", "user": "ann"}


FILLER = "x = compute(y)  # nothing to see here, 12345\n" * 40
PARTS = st.sampled_from([
    FILLER, FILLER, '"\\nghp_A1b2C3d4E5f6G7h8I9j0A1b2C3d4E5f6G7h8"', "\\t", "%3D", "\x1b[31m", "&quot;", "a" * 1_500,
    "DB_PASSWORD=hunter2%32", "password: |\n  one1\\n\n" + "  two2\n" * 300, "\\n-----BEGIN PRIVATE KEY-----\nQUJD",
    "\nQUJD" * 400, "\n-----END PRIVATE KEY-----", "kind: Secret\ndata:\n", "  a: YWJj\\n\n", "\n", '"', "\\",
    "mysql -u a \\\n  -phunter22", "sk-ant-" + "A1b2" * 400, "%41" * 20, "token=%22A1b2C3d4E5f6G7%22", " ",
])  # fmt: skip


@settings(deadline=None)
@given(st.lists(PARTS, max_size=8))
def test_to_search_near_the_changes_is_to_search_all(parts: list[str]) -> None:
    """What is found in a decoded text away from all that was decoded was found before."""
    text = "".join(parts)
    whole = Redactor(patterns={"none": "(?!)"})
    assert Redactor().text(text) == whole.text(text)
