"""The tool part of a rule: a name, a glob over names, or the name of a tool in other agents."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache

from hookline.wildcards import fits_text, glob

COMMAND_TOOLS = frozenset({"bash", "exec"})
READING = frozenset({"read", "list", "glob", "search"})
WRITING = frozenset({"write", "edit"})
FILE_TOOLS = READING | WRITING
SHOWING = frozenset({"read", "search", "edit"})
"""Tools whose results show what is in a file: an edit that fails says what is there instead."""

_KNOWN_ELSEWHERE = {
    "Bash": COMMAND_TOOLS,
    "Read": READING,
    "Edit": WRITING,
    "MultiEdit": frozenset({"edit"}),
    "Write": frozenset({"write"}),
    "Grep": frozenset({"search"}),
    "Glob": frozenset({"glob"}),
    "LS": frozenset({"list"}),
    "Agent": frozenset({"spawn_subagent"}),
    "Task": frozenset({"spawn_subagent"}),
    "Skill": frozenset({"load_skill"}),
    "TodoWrite": frozenset({"todo_write"}),
    "WebFetch": frozenset({"web_fetch", "fetch"}),
    "WebSearch": frozenset({"web_search"}),
    "bash": COMMAND_TOOLS,  # who may run a command line may run the same words without a shell
}
"""Names that also mean tools with other names."""

KNOWN_TOOLS = (
    COMMAND_TOOLS
    | FILE_TOOLS
    | {
        "bash_poll", "bash_stop", "fetch", "list_metadata", "load_skill", "read_metadata", "spawn_subagent",
        "structured_output", "todo_write", "tools", "web_fetch", "web_search", "write_metadata",
    }
)  # fmt: skip
"""Tools of capabilities: a rule may name them before they are added."""
COMPANIONS = {"bash_poll": "bash", "bash_stop": "bash"}
"""Tools for what another tool has started: who may use that one may use these. No rule can be about their arguments."""
ANSWER_TOOL = "structured_output"
"""The tool that gives the answer of a run, which could not end without it."""
_FILES = "files."
_SERVER = re.compile(r"mcp__(?:(?!__).)+")
"""`mcp__server`, without a tool: all tools of the server."""


@lru_cache(maxsize=4096)
def is_name_of(written: str, tool: str) -> bool:
    """Whether the tool part of a rule means a tool."""
    if written == tool or tool in _KNOWN_ELSEWHERE.get(written, ()):
        return True
    if written.startswith(_FILES):
        return tool in FILE_TOOLS and fits_text(glob(written[len(_FILES) :], single=True), tool)
    if _SERVER.fullmatch(written):
        written += "__*"
    return fits_text(glob(written, single=True), tool)


@lru_cache(maxsize=4096)
def is_name_like(written: str, tool: str) -> bool:
    """Whether the tool reads or writes files like the tools of a rule.

    A rule that forbids reading a path means all ways of reading it, `edit` among them.
    """
    for family, like in ((READING, READING | SHOWING), (WRITING, WRITING)):
        if tool in like and any(is_name_of(written, other) for other in family):
            return True
    return is_name_of(written, tool)


def is_unknown_tool(written: str, tools: Sequence[str], *, alone: bool = False) -> bool:
    """Whether a rule names a tool that is neither among these nor known. Tools of a glob or a server may come later.

    With `alone`, only these tools count as known.
    """
    if any(mark in written for mark in "*?") or written.startswith("mcp__"):
        return False
    if alone:
        return not any(is_name_of(written, tool) for tool in tools)
    if written in KNOWN_TOOLS or written in _KNOWN_ELSEWHERE:
        return False
    return not any(is_name_of(written, tool) for tool in (*tools, *KNOWN_TOOLS))


def is_known_tool(written: str) -> bool:
    """Whether a name, or a glob over names, means a tool of a capability, or one that other agents have."""
    if written in KNOWN_TOOLS or written in _KNOWN_ELSEWHERE:
        return True
    names = (*KNOWN_TOOLS, *_KNOWN_ELSEWHERE)
    return any(is_name_of(written, tool) for tool in names)


def closest(written: str, tools: Sequence[str]) -> str:
    """The tool with the most similar name; empty if there is none."""
    known = sorted({*tools, *KNOWN_TOOLS, *_KNOWN_ELSEWHERE} - {written})
    if written in KNOWN_TOOLS:
        return ""
    found = difflib.get_close_matches(written, known, n=1)
    return found[0] if found else ""
