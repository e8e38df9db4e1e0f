"""What cannot be right about hooks that are programs, found without running one: no such tool, no such program."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.scripts import programs_of, with_project
from hookline.command_hooks.tool_names import CLAUDE
from hookline.definition import Note
from hookline.errors import UsageError
from hookline.inspection.cases import may_have_children
from hookline.lifecycle import ToolHookContext, point_named
from hookline.permissions import Rules
from hookline.tools import Toolbox

_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]+")
_MORE_THAN_ONE = re.compile(r"[;|&<>(){}`$*?!\n]")
"""What makes a line more than one plain command: what it runs then depends."""
_RULE = re.compile(r"[A-Z]\w*\([^()|]*[ :*/][^()|]*\)")
"""A permission rule, as `Bash(git commit *)`, where a hook's matcher is meant to be; `Task(Create|List)` is none."""
_OF_COMMANDS = frozenset({"beforeShellExecution", "afterShellExecution"})
"""Cursor's events whose matcher is looked for in the text of the command."""
_READ = ("", "sh", "bash")
"""The shells whose lines can be read here."""
_OF_THE_SHELL = frozenset(
    ". : [ alias break builtin cd command continue declare echo eval exec exit export false getopts hash help kill let "  # noqa: SIM905 - a table of names
    "local printf pwd read readonly return set shift source test times trap true type ulimit umask unset wait".split()
)


def doubts(handlers: Iterable[Handler], toolbox: Toolbox, project: Path) -> Iterator[Note]:
    """What is wrong with them in an agent that has these tools."""
    for handler in handlers:
        for name, meant in strangers(_named(handler), toolbox):
            yield Note(
                f"{_who(handler)} is for a tool '{name}' that there is none of here.",
                is_problem=True,
                remedy=f"Did you mean '{meant}'?"
                if meant
                else "Correct its name, give the agent the tool, or leave it out.",
            )
        yield from _idle(handler)
        missing = _missing(handler, project)
        if missing:
            yield Note(
                f"{_who(handler)} cannot run: {missing}.",
                is_problem=True,
                remedy=f"It starts in {project / handler.cwd}; correct the path, or put the file there.",
            )


def _idle(handler: Handler) -> Iterator[Note]:
    """A matcher that its agent reads as something else than its author meant, so that the hook hardly ever runs."""
    who, matcher = _who(handler), handler.matcher
    if handler.source.dialect in ("claude", "codex", "vscode") and _RULE.fullmatch(matcher):
        name = matcher.partition("(")[0]
        yield Note(
            f"{who} never runs: its matcher '{matcher}' is a permission rule, and a matcher is the name of a tool.",
            is_problem=True,
            remedy=f'Write "matcher": "{name}", and the rule beside the command: "if": "{matcher}".',
        )
    if handler.event in _OF_COMMANDS and matcher in ("Shell", "Bash"):
        yield Note(
            f"{who} hardly ever runs: its matcher '{matcher}' is looked for in the command's text.",
            is_problem=True,
            remedy="Leave the matcher out, to have it run for every command.",
        )


def strangers(written: Iterable[str], toolbox: Toolbox) -> Iterator[tuple[str, str]]:
    """Those of the names that are of no tool here; each with the one it may mean.

    Where children may be started, which have tools of their own, those that capabilities bring are none of them.
    """
    tools, alone = [tool.name for tool in toolbox], not may_have_children(toolbox)
    for name in written:
        try:
            found = list(Rules(deny=[name]).strangers(tools, alone=alone))
        except UsageError:  # no tool can be called that
            yield name, ""
            continue
        yield from ((rule.tool, meant) for rule, meant in found)


def _who(handler: Handler) -> str:
    return f"{handler.source.label}: the hook '{handler.name}' at {handler.event}"


def _named(handler: Handler) -> Iterator[str]:
    """The tools that a hook in our own dialect names. Other agents have tools that we do not know."""
    if handler.source.dialect != "hookline":
        return
    if not issubclass(point_named(handler.event).context, ToolHookContext):
        return
    if handler.rule:
        yield handler.rule
    theirs = {name for form in CLAUDE.values() for name in (form.name, *form.aliases)}
    if _NAMES.fullmatch(handler.matcher):
        names = (part.strip() for part in re.split(r"[|,]", handler.matcher))
        yield from (name for name in names if name and name not in theirs)


def _missing(handler: Handler, project: Path) -> str:
    """What keeps a plain command from being started; empty if nothing does, or if that cannot be told."""
    words = _words(handler, project)
    if not words:
        return ""
    base = project / handler.cwd
    for word in dict.fromkeys(programs_of(words)):
        path = base / os.path.expanduser(word)
        is_program = word == words[0]
        if "/" not in word and (is_program or not Path(word).suffix):
            if is_program and not _is_found(word, handler):
                return f"there is no program '{word}'"
        elif not path.exists():
            return f"there is no file '{word}'"
        elif is_program and not os.access(path, os.X_OK):
            return f"'{word}' is not executable (chmod +x {shlex.quote(word)})"
    return ""


def _is_found(word: str, handler: Handler) -> bool:
    is_shells = handler.argv is None and word in _OF_THE_SHELL
    return is_shells or shutil.which(word, path=handler.env.get("PATH")) is not None


def _words(handler: Handler, project: Path) -> list[str]:
    """The words of a command that is a plain one, for a shell that we can read; none for another."""
    if handler.kind != "command" or handler.shell not in _READ:
        return []
    if handler.argv is not None:
        return list(handler.argv)
    line = with_project(handler.command, project)
    if _MORE_THAN_ONE.search(line):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []
