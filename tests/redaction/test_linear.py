"""Hostile text costs no more than other text: what could be read again and again is bounded."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hookline.redaction import Redactor, spellings
from hookline.redaction import commands as redaction_commands
from hookline.redaction import names as redaction_names
from hookline.redaction import readings as redaction_readings
from hookline.redaction import tokens as redaction_tokens
from hookline.secret_tables import STRONG_NAMES, TOKENS, WEAK_NAMES

parser: Any = re._parser  # type: ignore[attr-defined]


def repeats(parsed: Any, *, is_atomic: bool = False) -> Iterator[tuple[str, int]]:
    """Every repetition in a pattern: how it is made, and how often it may repeat."""
    for operation, given in parsed:
        name = str(operation)
        if name.endswith("REPEAT"):
            # One that is all of an atomic group gives nothing back either.
            yield "POSSESSIVE_REPEAT" if is_atomic and len(parsed) == 1 else name, given[1]
        for inner in inner_patterns(given):
            yield from repeats(inner, is_atomic=name == "ATOMIC_GROUP")


def inner_patterns(given: Any) -> Iterator[Any]:
    """The patterns inside an operation of a pattern."""
    if isinstance(given, parser.SubPattern):
        yield given
    elif isinstance(given, list | tuple):
        for each in given:
            yield from inner_patterns(each)


PATTERNS = [
    *(pattern for _, pattern in redaction_tokens._PATTERNS),
    *spellings("a secret/with+letters\n"),
    redaction_readings._COLOUR,
    redaction_readings._ENCODED,
    redaction_names._IN_TEXT,
    redaction_names._BARE,
    redaction_names._LINE,
    redaction_names._TAGGED,
    redaction_names._BELOW,
    redaction_names._PAIR,
    redaction_names._CHANGED,
    redaction_names._PHRASE,
    redaction_commands._WORD,
    redaction_commands._BLANK,
    redaction_commands._ITEM,
    redaction_commands._PIPED,
    redaction_tokens._IS_SECRET,
    redaction_tokens._DOCUMENT,
    redaction_tokens._FIELD,
    redaction_tokens._LINE,
    redaction_tokens._LINE_NUMBER,
    redaction_tokens._NAME,
    redaction_tokens._COMMENT,
    redaction_tokens._NOTHING,
    redaction_tokens._NO_VALUE,
    redaction_tokens._PIECE,
    redaction_tokens._QUOTE,
    redaction_tokens._COLON,
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_what_repeats_without_end_is_never_tried_again(pattern: re.Pattern[str]) -> None:
    """A repetition without a bound is possessive, so that no text makes it give back what it has read."""
    for kind, most in repeats(parser.parse(pattern.pattern)):
        assert kind == "POSSESSIVE_REPEAT" or most <= 4096, pattern.pattern


HOSTILE = [
    "a", "\\", "eyJ", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "://", "://a:", "password=", 'password="', "ghp_",
    "sk-", "Bearer ", "bearer aaaaaaaaaaaaaaaa1", "%", "&#0", "[redacted:x]", "github_pat_", "?key=", "token: ",
    "Cookie: ", "[", '\\"', "=", "key='", "AKIA", "hunter2-know", "password: '\\'",
    "\nQUJD\n-----END PRIVATE KEY-----", "\nQUJDQUJDQUJDQUJD",
    "kind: Secret\ndata:\n", "kind: Secret\ndata:\n  a: YWJj\n", '"kind":"Secret","data":{"a":"YWJj",',
    "\n---\nkind: Secret", "kind: Secret data:{", "kind: Secret data:!", "kind: Secret\ndata: {a: '", "kind: !kind: !",
    "$6$", "{sha}a", "[::1]:5432:a:b:", "localhost:5432:a a:b b:c \n",
    "$6$a$", "$argon2id$m=1,t=1,p=1$", "a:5432:b:c:", "https://a1", "M1", "okta ", "dp.pt.", "secret_", "fm2_", "a.b.",
    "\\n", "\\\\n", "\\\n", "%41", "%25", "%255C", "&#38;", "&amp;", "\x1b[31m", "\x1b[", "\\u001b[31m", "^[[", "-eyJ",
    "_ghp_",    "curl ", "curl -u ", "mysql -p", 'mysql "', "echo x ", "echo x | sudo -S ",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_twice_the_text_is_twice_the_work(piece: str) -> None:
    """The calls that are made for a text grow as the text does, and no faster."""
    redactor = Redactor(values=["hunter2-known"])
    short, long = calls_for(redactor, piece, 2**15), calls_for(redactor, piece, 2**16)
    assert long <= 2.2 * short + 500


KEYWORDS = sorted(
    {*STRONG_NAMES, *WEAK_NAMES, "cookie", "authorization", "pwd", "MY_TOKEN", "_PASS", "_PAT"}
)
JOINTS = ["", ":", "=", ": ", ":@", "='", '="', '=\\"', "=a'b'"]
TOKEN_HINTS = sorted({hint for token in TOKENS for hint in token.hints})


@pytest.mark.parametrize("joint", JOINTS)
def test_a_long_text_costs_what_short_ones_cost(joint: str) -> None:
    """A text of one keyword, again and again, costs about as much as the same letters in many texts.

    Calls do not count what a pattern reads. So the time of the processor is compared, of both at the same moment. Where
    each keyword is read to the end of the text, or of a long part of it, the long text costs eight times as much.
    """
    redactor = Redactor()
    for keyword in KEYWORDS if joint else TOKEN_HINTS:
        piece = (keyword + joint) * (256 // len(keyword + joint))
        assert any(times_as_much(redactor, piece) < 4 for _ in range(5)), keyword + joint


def times_as_much(redactor: Redactor, piece: str) -> float:
    """How much longer it takes to redact a text that is 32 times a piece than the piece 32 times."""
    start = time.process_time_ns()
    for _ in range(32):
        redactor.text(piece)
    middle = time.process_time_ns()
    redactor.text(piece * 32)
    return (time.process_time_ns() - middle) / max(1, middle - start)


@pytest.mark.parametrize(
    "piece", ["a", "\\", "eyJ", "-eyJ", "\\n", "%25", "\x1b[", "password=", "://a:", "github_pat_"]
)
def test_a_megabyte_is_done_with(piece: str) -> None:
    """Where work grew with the square of the text, this would not end."""
    redactor = Redactor(values=["hunter2-known"])
    assert redactor.text(piece * (2**20 // len(piece)))


def calls_for(redactor: Redactor, piece: str, size: int) -> int:
    """How many calls redacting a text makes, of Python's functions and of C's."""
    text = piece * (size // len(piece))
    count = 0

    def heard(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(heard)
    try:
        redactor.text(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("piece", ["API_KEY=$", "PASSWORD=$", "cookie: a=b", "key:token:"])
def test_a_long_text_of_names_does_not_change_again(piece: str) -> None:
    """However many names there are, a few passes find all that can be found."""
    redactor = Redactor()
    once = redactor.text(piece * 3_000)
    assert redactor.text(once) == once
