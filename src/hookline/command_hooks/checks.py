"""Checks of hooks without running one: no such tool, no such program, a matcher that never matches."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import VARIABLE, Handler
from hookline.command_hooks.trusted_files import (
    READABLE_SHELLS,
    find_replaceable_link,
    read_words,
)
from hookline.definition.definition import Note
from hookline.errors import UsageError
from hookline.inspection.predictions import may_have_children
from hookline.permissions import Rules
from hookline.permissions.names import KNOWN_TOOLS
from hookline.shell_text import UNKNOWN
from hookline.shell_text.named_files import script_words
from hookline.shell_text.runners import RUNNERS_OF_ANY, name_of
from hookline.tools import Toolbox

_MORE_THAN_ONE = re.compile(r"[;|&<>(){}`$*?!\n]")
"""Signs of more than one plain command: what it runs is not known then."""
_OF_THE_SHELL = frozenset(
    ". : [ alias break builtin cd command continue declare echo eval exec exit export false getopts hash help kill let "  # noqa: SIM905 - a table of names
    "local printf pwd read readonly return set shift source test times trap true type ulimit umask unset wait".split()
)


_OTHERWISE = "Correct its name, give the agent the tool, or leave it out."


def check_hooks(handlers: Iterable[Handler], toolbox: Toolbox, project: Path) -> Iterator[Note]:
    """What is wrong with hooks in an agent that has these tools."""
    for handler in handlers:
        yield from check_matcher(handler, toolbox)
        yield from check_program(handler, project)


def check_program(handler: Handler, project: Path) -> Iterator[Note]:
    """Why a hook cannot be started."""
    missing = _start_problem(handler, project)
    if missing:
        yield Note(
            f"{_who(handler)} cannot run: {missing}.",
            is_problem=True,
            remedy=f"It starts in {project / handler.cwd}; correct the path, or put the file there.",
        )
    link = find_replaceable_link(handler, project)
    if link:
        yield Note(
            f"{_who(handler)} is not run: the link '{link}' in the top directory leads to its script, and a command "
            "can replace it.",
            is_problem=True,
            remedy="Name the script by its real path.",
        )


def check_matcher(handler: Handler, toolbox: Toolbox) -> Iterator[Note]:
    """Why a hook is never asked in an agent that has these tools."""
    dialect = dialect_of(handler)
    for name, meant in unknown_tools(dialect.tools_named(handler), toolbox):
        yield Note(
            f"{_who(handler)} is for a tool '{name}', which the agent does not have.",
            is_problem=True,
            remedy=f"Did you mean '{meant}'?" if meant else _OTHERWISE,
        )
    mistakes = list(dialect.mistakes(handler))
    for problem, remedy in mistakes or _never_matches(handler, toolbox):
        yield Note(f"{_who(handler)} {problem}.", is_problem=True, remedy=remedy)


def _never_matches(handler: Handler, toolbox: Toolbox) -> Iterator[tuple[str, str]]:
    """The problem and a remedy, if a matcher of another dialect is about no tool of this agent.

    Servers come and go, so a matcher for their tools may be right.
    """
    dialect = dialect_of(handler)
    here = [dialect.names_of_tool(handler.event, tool.name) for tool in toolbox]
    is_for_servers = "mcp" in f"{handler.event} {handler.matcher}".lower()
    if not (handler.matcher and any(here)) or is_for_servers:
        return
    test = dialect.matcher(handler)
    if any(map(test, here)):
        return
    known = [dialect.names_of_tool(handler.event, tool) for tool in sorted(KNOWN_TOOLS)]
    if any(map(test, known)):
        if not may_have_children(toolbox):
            problem = f"never runs: the agent has no tool that '{handler.matcher}' means"
            yield problem, "Give the agent the tool, or leave the hook out."
        return
    names = {name.lower(): name for each in (*known, *here) for name in reversed(each)}
    found = difflib.get_close_matches(handler.matcher.lower(), names, 1)
    remedy = f"Did you mean '{names[found[0]]}'?" if found else _OTHERWISE
    yield f"is never asked: '{handler.matcher}' means no tool that is known here", remedy


def unknown_tools(written: Iterable[str], toolbox: Toolbox) -> Iterator[tuple[str, str]]:
    """The names that are no tool here, each with the one it may mean.

    If there may be children, which have tools of their own, tools that capabilities bring are not among them.
    """
    tools, alone = [tool.name for tool in toolbox], not may_have_children(toolbox)
    for name in written:
        try:
            found = list(Rules(deny=[name]).strangers(tools, alone=alone))
        except UsageError:  # not the name of a tool
            yield name, ""
            continue
        yield from ((rule.tool, meant) for rule, meant in found)


def _who(handler: Handler) -> str:
    return f"{handler.source.label}: the hook '{handler.name}' at {handler.event}"


def _start_problem(handler: Handler, project: Path) -> str:
    """Why a plain command cannot start; empty if it can, or if that is not known."""
    if handler.kind != "command" or (handler.argv is None and not _is_plain(handler)):
        return ""
    base = project / handler.cwd
    for place, argv in enumerate(read_words(handler, project).commands):
        problem = _program_problem(handler, argv[0], base) if place == 0 else ""
        scripts = script_words(argv)
        if any(UNKNOWN in word for word in (argv[0], *scripts)):
            return ""
        paths = [base / os.path.expanduser(word) for word in scripts]
        is_path = bool(scripts) and ("/" in scripts[-1] or bool(Path(scripts[-1]).suffix))
        if not problem and is_path and not any(path.exists() for path in paths):
            problem = f"there is no file '{scripts[-1]}'"
        if problem or name_of(argv) in RUNNERS_OF_ANY:  # which of its words it runs is not known
            return problem
    return ""


def _program_problem(handler: Handler, word: str, base: Path) -> str:
    path = base / os.path.expanduser(word)
    if UNKNOWN in word:
        return ""
    if "/" not in word:
        is_shells = handler.argv is None and word in _OF_THE_SHELL
        is_there = is_shells or shutil.which(word, path=handler.env.get("PATH"))
        return "" if is_there else f"there is no program '{word}'"
    if not path.exists():
        return f"there is no file '{word}'"
    is_executable = os.access(path, os.X_OK)
    return "" if is_executable else f"'{word}' is not executable (chmod +x {shlex.quote(word)})"


def _is_plain(handler: Handler) -> bool:
    """Whether a line is one command, and for a shell that we can read."""
    text = VARIABLE.sub("", handler.command)
    return handler.shell in READABLE_SHELLS and not _MORE_THAN_ONE.search(text)
