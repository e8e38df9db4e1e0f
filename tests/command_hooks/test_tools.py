"""Calls under other names, and back."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.command_hooks import Handler, HookSource, RunFacts, read_hook
from hookline.command_hooks.dialect import all_dialects, dialect_named
from hookline.command_hooks.handler import ProgramAnswer
from hookline.command_hooks.tools import NameTest, ToolForm, ToolNames
from hookline.errors import RegistrationError, UsageError
from hookline.state import ToolCall

CLAUDE, GEMINI, CURSOR, COPILOT = (
    all_dialects()[name].tools for name in ("claude", "gemini", "cursor", "copilot")
)
BRIDGE = CLAUDE
WORDS = st.text(min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("tool", "args", "name", "shown"),
    [
        ("bash", {"command": "ls", "timeout": 2.5}, "Bash", {"command": "ls", "timeout": 2500}),
        ("exec", {"argv": ["ls", "a b"]}, "Bash", {"command": "ls 'a b'"}),
        ("read", {"path": "a.py", "offset": 1, "limit": 2000}, "Read", {"file_path": "/p/a.py"}),
        ("read", {"path": "a.py", "offset": 9, "limit": 5}, "Read", {"file_path": "/p/a.py", "offset": 9, "limit": 5}),
        ("read", {"path": "/etc/x"}, "Read", {"file_path": "/etc/x"}),
        ("write", {"path": "a", "content": ""}, "Write", {"file_path": "/p/a", "content": ""}),
        (
            "edit",
            {"path": "a", "old": "x", "new": "", "replace_all": False, "edits": None},
            "Edit",
            {"file_path": "/p/a", "old_string": "x", "new_string": "", "replace_all": False},
        ),
        (
            "edit",
            {"path": "a", "old": "", "new": "", "edits": [{"old": "x", "new": "y"}]},
            "MultiEdit",
            {
                "file_path": "/p/a", "old_string": "x", "new_string": "y",
                "edits": [{"old_string": "x", "new_string": "y"}],
            },
        ),
        ("search", {"pattern": "x", "mode": "files"}, "Grep", {"pattern": "x", "output_mode": "files_with_matches"}),
        ("search", {"pattern": "x", "path": ".", "context": 0, "limit": 9}, "Grep", {"pattern": "x", "head_limit": 9}),
        ("mcp__db__query", {"sql": "x"}, "mcp__db__query", {"sql": "x"}),
        ("my_tool", {"a": None}, "my_tool", {"a": None}),
    ],
)  # fmt: skip
def test_our_tools_under_claudes_names(
    tool: str, args: dict[str, object], name: str, shown: dict[str, object]
) -> None:
    """Names, keys, units, and absolute paths."""
    got = BRIDGE.show(ToolCall("1", tool, args), "/p")
    assert (got.name, got.input) == (name, shown)


@pytest.mark.parametrize(
    ("forms", "tool", "name", "key"),
    [
        (GEMINI, "bash", "run_shell_command", "command"),
        (GEMINI, "write", "write_file", "file_path"),
        (CURSOR, "bash", "Shell", "command"),
        (CURSOR, "read", "Read", "file_path"),
        (COPILOT, "write", "create", "file_text"),
        (COPILOT, "edit", "edit", "old_str"),
    ],
)
def test_our_tools_under_other_names(forms: ToolNames, tool: str, name: str, key: str) -> None:
    """Each dialect has its own."""
    args = (
        {"command": "ls"}
        if tool == "bash"
        else {"path": "a", "content": "c", "old": "o", "new": "n"}
    )
    got = forms.show(ToolCall("1", tool, args), "/p")
    assert got.name == name
    assert key in got.input


def test_what_a_hook_left_as_it_was_comes_back_as_it_was() -> None:
    """A relative path stays one."""
    call = ToolCall("1", "write", {"path": "a.py", "content": "x"})
    shown = BRIDGE.show(call, "/p")
    changed = BRIDGE.take_back(call, shown, {**shown.input, "content": "y"})
    assert changed.args == {"path": "a.py", "content": "y"}


def test_changed_input_replaces_all_of_it() -> None:
    """Keys that the hook left out are gone, and units are ours again."""
    call = ToolCall("1", "bash", {"command": "ls", "place": "host", "timeout": 1.0})
    changed = BRIDGE.take_back(call, BRIDGE.show(call, "/p"), {"command": "ls -l", "timeout": 3000})
    assert changed.args == {"command": "ls -l", "timeout": 3.0}


def test_a_description_is_theirs_only() -> None:
    """Our shell has no such argument."""
    call = ToolCall("1", "bash", {"command": "ls"})
    changed = BRIDGE.take_back(
        call, BRIDGE.show(call, "/p"), {"command": "ls", "description": "List"}
    )
    assert changed.args == {"command": "ls"}


def test_a_dialect_may_have_another_name_for_the_command() -> None:
    """Also of the tool that takes words, and on the way back."""
    names = ToolNames({"exec": ToolForm("shell", {"command": "line"})})
    call = ToolCall("1", "exec", {"argv": ["ls", "a b"]})
    shown = names.show(call, "/p")
    assert shown.input == {"line": "ls 'a b'"}
    assert names.take_back(call, shown, {"line": "ls c"}).args == {"argv": ["ls", "c"]}


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("ls -l", ["ls", "-l"]),
        ("ls | wc", ["bash", "-c", "ls | wc"]),
        ("a 'b", ["bash", "-c", "a 'b"]),
    ],
)
def test_a_command_for_a_tool_that_takes_words(command: str, argv: list[str]) -> None:
    """What only a shell can read is given to one, where policies judge it as that."""
    call = ToolCall("1", "exec", {"argv": ["ls"]})
    assert (
        BRIDGE.take_back(call, BRIDGE.show(call, "/p"), {"command": command}).args["argv"] == argv
    )


def test_words_without_a_command_cannot_run() -> None:
    """A rewrite that takes the command away is an error."""
    call = ToolCall("1", "exec", {"argv": ["ls"]})
    with pytest.raises(UsageError, match="no command"):
        BRIDGE.take_back(call, BRIDGE.show(call, "/p"), {})


@given(st.sampled_from(["write", "read", "edit", "bash", "glob", "other"]), st.dictionaries(
    st.sampled_from(["path", "content", "old", "new", "command", "pattern", "limit"]), WORDS, max_size=5
))  # fmt: skip
def test_there_and_back_changes_nothing(tool: str, args: dict[str, str]) -> None:
    """A hook that hands back what it was shown has changed nothing, in any dialect."""
    for bridge in (CLAUDE, GEMINI, CURSOR, COPILOT):
        call = ToolCall("1", tool, args)
        shown = bridge.show(call, "/p")
        assert bridge.take_back(call, shown, shown.input).args == call.args


def test_a_patch_says_what_is_written() -> None:
    """Codex's form of a change to a file, which is named as the model names it."""
    codex, facts = all_dialects()["codex"], RunFacts("/p", "/p", "s")
    call = ToolCall("1", "write", {"path": "src/a", "content": "x\ny"})
    assert (
        codex.show(call, facts).input["command"]
        == "*** Begin Patch\n*** Add File: src/a\n+x\n+y\n*** End Patch\n"
    )
    call = ToolCall("1", "edit", {"path": "/p/a", "old": "x", "new": "y"})
    assert "*** Update File: /p/a\n@@\n-x\n+y" in codex.show(call, facts).input["command"]


@pytest.mark.parametrize(
    ("dialect", "old", "new"),
    [("claude", "old_string", "new_string"), ("gemini", "old_string", "new_string"),
     ("cursor", "old_string", "new_string"), ("copilot", "old_str", "new_str")],
)  # fmt: skip
def test_several_edits_hide_nothing_from_guards_that_know_one(
    dialect: str, old: str, new: str
) -> None:
    """All of the text is where theirs is; what a script changes has to be changed in the edits."""
    edits = [{"old": "a", "new": "b"}, {"old": "c", "new": "key=1"}]
    call = ToolCall("1", "edit", {"path": "x", "edits": edits})
    place = RunFacts("/p", "/p", "s")
    shown = all_dialects()[dialect].show(call, place)
    assert (shown.input[old], shown.input[new]) == ("a\nc", "b\nkey=1")
    same = all_dialects()[dialect].take_back(
        call, shown, ProgramAnswer(updated_input=dict(shown.input))
    )
    assert (same.args["edits"], same.args.keys()) == (call.args["edits"], {"path", "edits"})
    with pytest.raises(UsageError, match="several edits"):
        all_dialects()[dialect].take_back(
            call, shown, ProgramAnswer(updated_input={**shown.input, new: "b"})
        )


# --- matchers -------------------------------------------------------------------------------------------

NAMES = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=12)


def matcher_of(dialect: str, text: str, event: str = "") -> NameTest:
    """The matcher of a hook in a dialect."""
    made = dialect_named(dialect)
    return made.matcher(
        Handler(HookSource(dialect), event or next(iter(made.events)), matcher=text)
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
    """A guard with a wrong matcher would guard nothing, so it is reported when it is read."""
    with pytest.raises(UsageError, match="not a regular expression"):
        matcher_of(dialect, wrong)


def test_expressions_that_could_take_forever_are_refused() -> None:
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


# --- what matchers are tested with ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "about",
    [
        {"on": "prompt_submit", "matcher": "password"},
        {"on": "stop", "if": "bash(rm *)"},
        {"on": "session_start", "if": "bash(rm *)"},
        {"on": "after_step", "matcher": "bash"},
    ],
)
def test_a_hook_of_ours_is_for_what_there_is_at_its_point(about: dict[str, Any]) -> None:
    """A matcher that nothing is compared with would let it run always, and a rule never."""
    with pytest.raises(RegistrationError, match="there is no tool call"):
        read_hook({"command": "true", **about})


@pytest.mark.parametrize(
    "about",
    [
        {"on": "prompt_submit", "matcher": "*"},
        {"on": "session_start", "matcher": "resume"},
        {"on": "subagent_stop", "matcher": "critic"},
        {"on": "permission_request", "matcher": "bash", "if": "bash(rm *)"},
    ],
)
def test_a_matcher_has_a_tool_a_child_or_the_beginning_of_a_session(about: dict[str, Any]) -> None:
    """And `*` is for all of them."""
    assert read_hook({"command": "true", **about}).event == about["on"]
