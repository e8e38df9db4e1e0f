"""Which scripts of sed only print, delete and substitute. Those of awk are in the corpora."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment.shell.options import Call, read_call
from hookline.containment.shell.sed_awk import SED
from hookline.containment.shell.words import Word


def is_harmless(*words: str) -> bool:
    """Whether a call of sed is known to be harmless."""
    return isinstance(read_call(SED, [Word(word) for word in words]), Call)


@pytest.mark.parametrize(
    "script",
    [
        "1,20p", "$=", "10,20p;30q", "/a/,/b/p", "/x/!d", "2!d", "1~2p", "/a/,+3p", "/x/I p", "p ;; d", ";",
        "s/a/b/", "s/a/b/g", "s|/usr|/opt|", "s#a#b#", "s/[ \\t]*$//", "s/[^,]*,//2", "s/[]x]/y/", "s/a/[/",
        "s/\\x1b\\[[0-9;]*m//g", "s/[[:space:]]//", "s/\\//x/", "y/abc/xyz/", "s/a/b/\ns/c/d/",
    ],
)  # fmt: skip
def test_a_script_that_only_prints_and_substitutes(script: str) -> None:
    """It is read whole, command by command."""
    assert is_harmless("-n", script, "f")
    assert is_harmless("-e", script, "-e", "p", "f")


@pytest.mark.parametrize(
    "script",
    [
        "w f", "1w f", "e", "1e ls", "r f", "R f", "W f", "s/a/b/w f", "s/a/b/gw f", "s/a/b/e", "s/a/b/;w f", "p\nw f",
        "s/a\\/w f", "s/[/]/x/", "s/[/]/w f/", "s/[]/]/p", "s/[[.a.]/]//w f", "sxaxbx", "{p}", ":a;ba", "a\\ text",
        "s/a/b\\\nc/", "s/a/[/;s/b/]/w f/", "y/[/]/w f/", "s/a/b/}w f", "# x", "v", "s/a", "1,", "/a",
    ],
)  # fmt: skip
def test_any_other_script_asks(script: str) -> None:
    """What could write, run or read something else, and what versions of sed read differently."""
    assert not is_harmless("-n", script, "f")


@pytest.mark.skipif(shutil.which("sed") is None, reason="sed is not installed")
@given(st.text(alphabet="s/[]^wepd;{}1a\n\\ f,!$|q:", max_size=14))
def test_a_harmless_script_leaves_no_file(script: str) -> None:
    """Whatever the sed of this system makes of it."""
    if not is_harmless(script):
        return
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(subprocess.TimeoutExpired):  # `D` may go round in a circle
            subprocess.run(
                ["sed", script], cwd=folder, input=b"a\nb\n", capture_output=True, timeout=5
            )
        assert list(Path(folder).iterdir()) == []
