"""`if` rules: a command that cannot be read is one that a hook is asked about."""

from __future__ import annotations

import pytest

from hookline.command_hooks.permission_rules import is_readable, is_rule_for
from hookline.state import ToolCall

WHOLE = [
    "ls",
    "a | b",
    "a |& b && c || d; e & f &",
    "if true; then ls; else pwd; fi",
    "for i in a b; do ls; done",
    "while read x; do ls; done < f",
    "until false; do ls; done",
    "{ ls; }",
    "f() { ls; }; f",
    "echo if then for",
    "ls &&\n  pwd",
    "ls\npwd\n",
    "echo ${x} ${y:-z}",
    "echo 'a | | b' # and | |",
    "! ls",
    "if ! ls; then pwd; fi",
    "(ls; pwd)",
    "(ls) | cat",
    "x=$(ls | wc -l)",
]
BROKEN = [
    "if true; then",
    "for i in",
    "a | | b",
    "&& x",
    "x ||",
    "echo ${x",
    'echo "x',
    "echo $(",
    ")",
    "while true; do ls",
    "{ ls",
    "if ! ; then | x; fi",
]


@pytest.mark.parametrize("command", WHOLE)
def test_what_is_whole_is_judged_by_its_commands(command: str) -> None:
    """None of them is what the rule is about, so nobody is asked."""
    assert is_readable(command)
    assert not is_rule_for("Bash(git *)", ToolCall("1", "bash", {"command": command}), "/p")


@pytest.mark.parametrize("command", BROKEN)
def test_what_is_not_whole_may_be_anything(command: str) -> None:
    """The hook runs, whatever its rule is about."""
    assert not is_readable(command)
    assert is_rule_for("Bash(git *)", ToolCall("1", "bash", {"command": command}), "/p")


def test_a_rule_for_another_tool_is_not_about_it() -> None:
    """However the command reads."""
    assert not is_rule_for("Write(*)", ToolCall("1", "bash", {"command": "if"}), "/p")


WORKED_OUT = ["echo $(date)", "echo `date`", "echo $HOME", 'echo "${X}"']
LITERAL = ["echo '$(date)'", r"echo \$HOME", "echo date"]


@pytest.mark.parametrize("command", WORKED_OUT)
def test_a_rule_about_arguments_is_in_doubt_where_a_shell_works_some_out(command: str) -> None:
    """What comes of it may be the argument; a rule that names a program alone is judged by the programs."""
    call = ToolCall("1", "bash", {"command": command})
    assert is_rule_for("Bash(git push *)", call, "/p")
    assert not is_rule_for("Bash(git *)", call, "/p")
    assert not is_rule_for("Bash(git:*)", call, "/p")


@pytest.mark.parametrize("command", LITERAL)
def test_what_a_shell_leaves_alone_is_no_doubt(command: str) -> None:
    """In single quotes, or after a backslash, nothing is worked out."""
    assert not is_rule_for("Bash(git push *)", ToolCall("1", "bash", {"command": command}), "/p")


@pytest.mark.parametrize("between", ["|", " || ", ", "])
def test_rules_that_are_joined_mean_any_of_them(between: str) -> None:
    """There is to be one rule; a guard with several must not be one that never runs."""
    rule = f"Bash(git *){between}Bash(cargo *)"
    for command, expected in (("cargo build", True), ("git log", True), ("ls", False)):
        assert is_rule_for(rule, ToolCall("1", "bash", {"command": command}), "/p") is expected
