"""The tool part of a rule: a name, a glob over names, or a name as other agents write it."""

from __future__ import annotations

import re
from functools import lru_cache

from hookline.permissions.wildcard import fits_text, glob

COMMAND_TOOLS = frozenset({"bash", "exec"})
READING = frozenset({"read", "list", "glob", "search"})
WRITING = frozenset({"write", "edit"})
FILE_TOOLS = READING | WRITING

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
"""Names that stand for tools of other names, besides for a tool that is called just so."""

_FILES = "files."
_SERVER = re.compile(r"mcp__(?:(?!__).)+")
"""`mcp__server`, without a tool: all tools of the server."""


@lru_cache(maxsize=4096)
def names_tool(written: str, tool: str) -> bool:
    """Whether the tool part of a rule, as it is written, is about a tool."""
    if written == tool or tool in _KNOWN_ELSEWHERE.get(written, ()):
        return True
    if written.startswith(_FILES):
        return tool in FILE_TOOLS and fits_text(glob(written[len(_FILES) :], single=True), tool)
    if _SERVER.fullmatch(written):
        written += "__*"
    return fits_text(glob(written, single=True), tool)


@lru_cache(maxsize=4096)
def names_like(written: str, tool: str) -> bool:
    """Whether the tool does what the tools that are written do: reads files as they do, or changes them.

    A rule that forbids reading a path means all ways of reading it.
    """
    for family in (READING, WRITING):
        if tool in family and any(names_tool(written, other) for other in family):
            return True
    return names_tool(written, tool)
