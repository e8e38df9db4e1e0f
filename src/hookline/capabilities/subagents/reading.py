"""Subagents in Markdown files with front matter, as published for other agents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.agent import Note
from hookline.capabilities.subagents.subagent import Subagent
from hookline.errors import BuildError
from hookline.flow import Limits
from hookline.markdown import Document

_NO_AGENTS = frozenset({"readme.md", "agents.md", "claude.md", "contributing.md", "license.md"})
_MODES = frozenset(
    ["", "default", "acceptedits", "dontask", "bypasspermissions", "plan", "delegate", "auto"]
)


def read_agents(
    source: str | os.PathLike[str], hooks: Mapping[str, Any]
) -> Iterator[tuple[Subagent, list[Note]]]:
    """The subagents of a file or a directory, each with what should be known about it."""
    try:
        path = Path(os.path.expanduser(source))
    except TypeError:
        raise BuildError(
            f"{source!r} is not a subagent.",
            remedy="Give Subagent(...), a Markdown file, or a directory of them.",
        ) from None
    if path.is_file():
        yield _agent(Document.read(path), hooks)
        return
    if not path.is_dir():
        raise BuildError(
            f"there is no file or directory '{source}' with subagents.",
            remedy="Make it, or leave it out; a subagent is a Markdown file with front matter.",
        )
    for file in sorted(path.rglob("*.md")):
        below = file.relative_to(path).parts
        is_hidden = any(part.startswith(".") or part == "node_modules" for part in below)
        if is_hidden or file.name.lower() in _NO_AGENTS or not file.is_file():
            continue
        page = Document.read(file)
        if page.flag("disabled"):
            continue
        yield _agent(page, hooks)


def _agent(page: Document, hooks: Mapping[str, Any]) -> tuple[Subagent, list[Note]]:
    if not page.fields:
        raise page.wrong(
            "name",
            "it has no front matter, so it describes no subagent.",
            "Begin it with `---`, `name: ...`, `description: ...` and `---`, or move it elsewhere.",
        )
    mode = page.text("permissionMode").replace("-", "").lower()
    if mode not in _MODES:
        raise page.wrong("permissionMode", f"there is no mode '{page.text('permissionMode')}'.")
    made = Subagent(
        name=page.text("name") or Path(page.where).stem,
        description=page.text("description"),
        prompt=page.body,
        tools=page.names("tools"),
        disallowed_tools=page.names("disallowedTools") or (),
        model=page.text("model") or None,
        limits=_limits(page),
        hooks=_hooks(page, hooks),
        skills=page.names("skills") or (),
        agents=page.names("agents"),
        read_only=mode == "plan",
        may_ask=mode != "dontask",
        where=page.where,
        fields=dict(page.fields),
    )
    return made, list(_notes(page, mode))


def _limits(page: Document) -> dict[str, Any] | None:
    """`maxTurns` of other agents is a number of steps; `limits` is ours."""
    given = page.get("limits")
    if given is not None and not isinstance(given, Mapping):
        raise page.wrong("limits", "'limits' should name limits.", "Write `limits: {steps: 10}`.")
    limits = {
        name: _number(page, name, value)
        for name, value in (given or {}).items()
        if value is not None
    }
    turns = page.count("maxTurns")
    if turns is not None:
        limits["steps"] = min(turns, limits.get("steps", turns))
    return limits or None


def _number(page: Document, name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise page.wrong("limits", f"limit {name}={value!r} is not a number.") from None
    whole = name in Limits.__struct_fields__ and name not in ("seconds", "cost")
    return int(number) if whole and number.is_integer() else number


def _hooks(page: Document, hooks: Mapping[str, Any]) -> tuple[Any, ...]:
    """Hooks by name, out of those that the program has. Commands are not run, so they are not silently left out."""
    given = page.get("hooks")
    if given is None:
        return ()
    if isinstance(given, Mapping):
        raise page.wrong(
            "hooks",
            "hooks that are commands cannot be run here, and without them it would be less guarded than meant.",
            "Write them as hooks in Python, name them with Subagents(hooks={name: hook}), and list the names.",
        )
    missing = [name for name in page.names("hooks") or () if name not in hooks]
    if missing:
        known = ", ".join(hooks) or "none; pass them as Subagents(hooks={name: hook})"
        raise page.wrong("hooks", f"there is no hook '{missing[0]}'.", f"Hooks: {known}.")
    return tuple(hooks[name] for name in page.names("hooks") or ())


def _notes(page: Document, mode: str) -> Iterator[Note]:
    if page.get("mcpServers"):
        yield Note(
            f"{page.at('mcpServers')}: its MCP servers are not started.",
            is_problem=True,
            remedy="Give the agent McpServers, and list their tools.",
        )
    if page.get("isolation"):
        yield Note(
            f"{page.at('isolation')}: it is not isolated: it works where the agent works.",
            is_problem=True,
        )
    if mode in ("acceptedits", "bypasspermissions"):
        yield Note(
            f"{page.at('permissionMode')}: '{page.text('permissionMode')}' gives it nothing: "
            "what asks in the agent asks in its subagents."
        )
