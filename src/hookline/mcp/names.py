"""What the tools of a server are called here: `mcp__server__tool`, in letters every model can write."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection

_LONGEST = 64
_DIGEST = 8


def tool_name(server: str, tool: str) -> str:
    """The name of a tool of a server; one that is too long is cut, and ends with a digest of the whole."""
    name = f"mcp__{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"
    return name if len(name) <= _LONGEST else distinct_name(server, tool)


def distinct_name(server: str, tool: str) -> str:
    """A name no other tool has: for one whose letters are those of another's name once they are written here."""
    name = f"mcp__{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"
    digest = hashlib.sha256(f"{server}/{tool}".encode()).hexdigest()[:_DIGEST]
    return f"{name[: _LONGEST - _DIGEST - 1]}_{digest}"


def tool_names(server: str, tools: Collection[str]) -> dict[str, str]:
    """The names of all tools of a server, by its own; the same in whatever order it lists them."""
    names = {tool: tool_name(server, tool) for tool in tools}
    uses = Counter(names.values())
    return {
        tool: name
        if uses[name] == 1 or name == f"mcp__{server}__{tool}"
        else distinct_name(server, tool)
        for tool, name in names.items()
    }
