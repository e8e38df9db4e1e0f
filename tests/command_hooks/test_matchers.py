"""Matchers of the dialects: exact names, expressions, and what cannot be read."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.command_hooks import Handler, HookSource
from hookline.command_hooks.dialect import dialect_named
from hookline.command_hooks.tools import NameTest
from hookline.errors import UsageError

NAMES = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=12)


def matcher_of(dialect: str, text: str, event: str = "") -> NameTest:
    """The matcher of a hook in a dialect."""
    made = dialect_named(dialect)
    return made.matcher(
        Handler(HookSource(dialect), event or next(iter(made.points)), matcher=text)
    )


@pytest.mark.parametrize(
    ("matcher", "name", "matches"),
    [
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit, Write", "Write", True),
        ("Edit ,Write", "Edit", True),
        ("mcp__memory", "mcp__memory__store", False),
        ("mcp__memory__.*", "mcp__memory__store", True),
        ("Edit.*", "NotebookEdit", True),
        ("^Edit$", "NotebookEdit", False),
        ("^Edit$", "Edit", True),
        ("code-reviewer", "senior-code-reviewer", False),
        ("code-reviewer", "code-reviewer", True),
        ("*", "anything", True),
        ("", "anything", True),
        ("(?<kind>Edit|Write)", "Write", True),
    ],
)
def test_claudes_matchers(matcher: str, name: str, matches: bool) -> None:
    """The vectors of the protocol."""
    assert matcher_of("claude", matcher)((name,)) is matches


def test_a_narrower_set_of_exact_names() -> None:
    """Where `-` is no letter of a name, it makes an expression, which is found anywhere."""
    assert matcher_of("claude", "a-b")(("xa-by",)) is False
    assert matcher_of("claude", "a-b", "StopFailure")(("xa-by",)) is True
    assert matcher_of("codex", "a-b")(("xa-by",)) is True
    assert matcher_of("codex", "Edit|Write")(("Edit",)) is True
    assert matcher_of("codex", "Edit")(("NotebookEdit",)) is False


def test_geminis_matchers_find_a_tool_anywhere_and_the_rest_exactly() -> None:
    """`read` is for `read_file` and `read_many_files`; `start` is not for `startup`."""
    assert matcher_of("gemini", "read", "BeforeTool")(("read_many_files",))
    assert not matcher_of("gemini", "start", "SessionEnd")(("startup",))
    assert matcher_of("gemini", "exit|logout", "SessionEnd")(("exit",))
    assert not matcher_of("gemini", "exit|logout", "SessionEnd")(("exit|",))
    assert matcher_of("gemini", "[broken", "BeforeTool")(("[broken",))
    assert not matcher_of("gemini", "[broken", "BeforeTool")(("broken",))


def test_copilots_matchers_are_for_the_whole_name() -> None:
    """`ed.t` is not for `edited`."""
    assert matcher_of("copilot", "edit|create")(("create",))
    assert not matcher_of("copilot", "ed.t")(("edited",))


def test_cursors_matchers_look_at_the_text_of_a_command() -> None:
    """An expression is found anywhere in it."""
    assert matcher_of("cursor", "curl|wget")(("cd x && curl y",))
    assert not matcher_of("cursor", "curl|wget")(("ls",))


@pytest.mark.parametrize("wrong", ["(", "[a", "a{2,1}.", "(?P<", "*a."])
@pytest.mark.parametrize("dialect", ["claude", "codex", "cursor", "copilot"])
def test_a_matcher_that_is_no_expression_is_an_error(dialect: str, wrong: str) -> None:
    """A guard with a wrong matcher would guard nothing, so it is told when it is read."""
    with pytest.raises(UsageError, match="not a regular expression"):
        matcher_of(dialect, wrong)


def test_expressions_that_could_take_for_ever_are_refused() -> None:
    """Too long, or a repetition of a repetition."""
    with pytest.raises(UsageError, match="longer than"):
        matcher_of("claude", "a." * 2000)
    with pytest.raises(UsageError, match="can take forever"):
        matcher_of("claude", "(a+)+$")


@given(st.lists(NAMES, min_size=1, max_size=5), st.sampled_from(["|", ",", " | ", ", "]))
def test_a_list_of_names_is_for_these_names_and_no_others(names: list[str], between: str) -> None:
    """Whatever separates them; and a name that only contains one of them is another."""
    test = matcher_of("claude", between.join(names))
    for name in names:
        assert test((name,))
        assert test((f"{name}X",)) is (f"{name}X" in names)


@given(NAMES, st.lists(NAMES, max_size=4))
def test_an_alias_matches_like_the_name_itself(name: str, others: list[str]) -> None:
    """A tool that has several names is matched by any of them."""
    assert matcher_of("claude", name)((*others, name))
    assert matcher_of("claude", name)(others) is (name in others)


@given(st.text(string.ascii_letters + "_.^$", min_size=1, max_size=10), NAMES)
def test_an_expression_is_found_where_python_finds_it(pattern: str, name: str) -> None:
    """Anywhere in the name, with attention to case."""
    if set(pattern) & set(".^$"):
        assert matcher_of("claude", pattern)((name,)) is bool(re.search(pattern, name))
