"""Known secrets of which only a part is left, or that go over several lines."""

from __future__ import annotations

import base64
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.redaction import Redactor

SECRET = "hunter2-correct-horse-battery"
LONG = "s3cr3t-" + "abcdefghij0123456789" * 5
BEFORE = ["... [514 more characters in this line]", "\n[... 1,000 bytes left out here ...]\n"]
AFTER = [
    "\n[... 9,100 bytes left out here; all 9,999 bytes are in /tmp/a b/c.txt ...]\n",
    "[20 characters not shown here]\n",
]


@given(st.integers(4, len(SECRET)), st.sampled_from(BEFORE), st.sampled_from(["", "a", "hunt"]))
def test_its_beginning_is_found_before_a_cut(length: int, note: str, text: str) -> None:
    """However much of it there is; four letters are too few to matter elsewhere."""
    shown = Redactor(values=[SECRET]).text(f"{text}{SECRET[:length].upper()}{note}more")
    assert shown == f"{text}[redacted:known-value]{note}more"


@given(st.integers(4, len(SECRET)), st.sampled_from(AFTER))
def test_its_end_is_found_behind_a_cut(length: int, note: str) -> None:
    """In the same way."""
    shown = Redactor(values=[SECRET]).text(f"text{note}{SECRET[-length:]} more")
    assert shown == f"text{note}[redacted:known-value] more"


def test_a_part_of_it_encoded_is_found_at_a_cut() -> None:
    """In hex and in base64."""
    for packed in (SECRET.encode().hex(), base64.b64encode(SECRET.encode()).decode()):
        shown = Redactor(values=[SECRET]).text(f"text {packed[:20]}{BEFORE[0]}")
        assert shown == f"text [redacted:known-value]{BEFORE[0]}"


def test_a_part_elsewhere_is_text() -> None:
    """The first letters of a secret are a word that people use."""
    text = "hunters hunt\n[exit code 0]\nhunter"
    assert Redactor(values=[SECRET]).text(text) == text


@pytest.mark.parametrize("width", [7, 10, 60])
def test_it_may_go_over_several_lines(width: int) -> None:
    """As `xxd -p`, `base64` and `fold` print it."""
    redactor = Redactor(values=[LONG])
    packed = (LONG.encode().hex(), base64.b64encode(LONG.encode()).decode(), LONG)
    for text in packed:
        for end in ("\n", "\r\n", "\\n"):
            lines = end.join(textwrap.wrap(text, width, break_on_hyphens=False))
            shown = redactor.text(f"begin {lines} end")
            assert shown.startswith("begin [redacted:known-value]")
            assert text[10:20] not in shown


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\n"])
def test_the_end_of_a_private_key_is_found_without_its_beginning(line_end: str) -> None:
    """As `tail` shows it, or a file that is read from a line on."""
    lines = textwrap.wrap(base64.b64encode(bytes(range(250))).decode(), 64)
    key = line_end.join([*lines[1:], "-----END RSA PRIVATE KEY-----"])
    shown = Redactor().text(f"[...]{line_end}{key} more")
    assert shown == f"[...]{line_end}[redacted:private-key] more"


def test_the_end_of_a_private_key_is_found_with_the_numbers_of_its_lines() -> None:
    """A file that is read is shown with them."""
    lines = [*textwrap.wrap("QUJD" * 60, 64), "-----END PRIVATE KEY-----", "more"]
    shown = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 7))
    text = Redactor().text(f"key.pem:\n{shown}")
    assert "QUJD" not in text
    assert text.endswith("more")


@pytest.mark.parametrize(
    "text", ["the line\n-----END PRIVATE KEY-----", 'x = "-----END PRIVATE KEY-----"']
)
def test_the_last_line_of_a_key_alone_is_text(text: str) -> None:
    """People and programs name it."""
    assert Redactor().text(text) == text
