from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.capabilities.files.patterns import alternatives, path_patterns
from hookline.errors import ToolError


def fits(pattern: str, path: str, *, hidden: bool = False, any_depth: bool = False) -> bool:
    """Whether a path fits a pattern."""
    made = path_patterns(pattern, hidden=hidden, any_depth=any_depth)
    return any(each.matches(path.split("/")) for each in made)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py.py"[1:]], ["a/b.py", "a.pyc", ".a.py"]),
        ("**/*.py", ["a.py", "a/b/c.py"], ["a/.b/c.py", ".c.py", "a.txt"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b", "src/.a"]),
        (
            "src/**/test_*.py",
            ["src/test_a.py", "src/x/y/test_b.py"],
            ["test_a.py", "src/a_test.py"],
        ),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("[a-c]?.txt", ["ab.txt", "cz.txt"], ["dz.txt", "a.txt"]),
        ("[!a-c].txt", ["d.txt"], ["a.txt"]),
        ("[]]", ["]"], ["[", "x"]),
        ("a[", ["a["], ["a"]),
        ("[z-a]", [], ["a", "z", "-"]),
        ("[a&&b]", ["&", "a"], ["&&"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.{ts,tsx}", "a.js"]),
        ("{a,b{c,d}}/x", ["a/x", "bc/x", "bd/x"], ["b/x"]),
        ("a{b}c", ["a{b}c"], ["abc"]),
        (".github/**/*.yml", [".github/a.yml", ".github/x/b.yml"], [".github/.x/b.yml"]),
        (".*", [".env"], ["env"]),
        ("\\*", ["*"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
        ("./a/./b", ["a/b"], []),
        ("**", ["a", "a/b"], [".a"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("*\n*", ["a\nb"], ["ab"]),
    ],
)
def test_patterns_mean_what_people_expect(pattern: str, yes: list[str], no: list[str]) -> None:
    """A star stops at a slash, two do not, and neither stands for a hidden name."""
    assert [path for path in yes if not fits(pattern, path)] == []
    assert [path for path in no if fits(pattern, path)] == []


def test_hidden_names_and_names_at_any_depth_can_be_meant() -> None:
    """Only if they are asked for."""
    assert fits("**/*.py", ".a/.b.py", hidden=True)
    assert fits("*.py", "a/b/c.py", any_depth=True)
    assert not fits("a/*.py", "x/a/b.py", any_depth=True)


def test_directories_that_lead_nowhere_are_known() -> None:
    """So that they need not be entered."""
    (pattern,) = path_patterns("src/*/x.py", hidden=False)
    assert [pattern.leads_to(path.split("/")) for path in ("src", "src/a", "docs", "src/a/b")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("pattern", ["*a" * 30 + "b", "**/" * 30 + "b", "**/a/" * 12 + "b"])
def test_no_pattern_takes_forever(pattern: str) -> None:
    """Whatever is repeated in it."""
    started = time.process_time()
    assert not fits(pattern, "a" * 250)
    assert not fits(pattern, "/".join("a" * 60))
    assert time.process_time() - started < 20  # it would be years


def test_too_many_alternatives_are_refused() -> None:
    """Instead of being tried."""
    with pytest.raises(ToolError, match="more than 100"):
        alternatives("{a,b}" * 10)


@given(st.text("ab*?.", max_size=8), st.text("ab.", min_size=1, max_size=8))
def test_names_fit_as_plain_regular_expressions_say(pattern: str, name: str) -> None:
    """The quick way and the plain way agree."""
    if not pattern.strip("."):
        return
    plain = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    expected = re.fullmatch(plain, name) is not None
    if "**" in pattern and set(pattern) == {"*"}:
        return
    assert fits(pattern, name, hidden=True) == expected
