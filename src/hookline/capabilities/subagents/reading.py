"""Subagents in Markdown files with front matter, as published for other agents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hookline.agent import Note
from hookline.capabilities.subagents.subagent import Subagent
from hookline.flow import Limits
from hookline.markdown import Document, PageHooks, agent_name, agent_pages, has_commands

_MODES = frozenset(
    ["", "default", "acceptedits", "dontask", "bypasspermissions", "plan", "delegate", "auto"]
)
_HOW = "Begin it with `---`, `name: ...`, `description: ...` and `---`, or move it elsewhere."
_ALL = frozenset(["all", "all tools"])


def read_agents(
    source: str | os.PathLike[str], hooks: Mapping[str, Any], commands: PageHooks | None = None
) -> Iterator[tuple[Subagent | None, list[Note]]]:
    """The subagents of a file or a directory, each with what should be known about it; of what is none, only that."""
    for page in agent_pages(source):
        if not page.fields and os.path.isdir(os.path.expanduser(source)):
            yield None, [_no_agent(page)]
            continue
        _refuse_unguarded(page, commands)
        yield _agent(page, hooks)


def _no_agent(page: Document) -> Note:
    """Directories of subagents have other pages in them, too: a guide, a template."""
    return Note(
        f"{page.where}: it has no front matter, so it describes no subagent, and is left out.",
        is_problem=True,
        remedy=_HOW,
    )


def _refuse_unguarded(page: Document, commands: PageHooks | None) -> None:
    """Hooks that are commands are run by others. Without them the subagent would be less guarded than meant."""
    if not has_commands(page.get("hooks")) or (commands is not None and commands.knows(page.where)):
        return
    raise page.wrong(
        "hooks",
        "nobody runs its hooks that are commands, and without them it would be less guarded than meant.",
        "Let CommandHooks run them: commands = CommandHooks.discover(project, agents=[...]), then "
        "Subagents(..., commands=commands), and give the agent both.",
    )


def _agent(page: Document, hooks: Mapping[str, Any]) -> tuple[Subagent, list[Note]]:
    if not page.fields:
        raise page.wrong(
            "name",
            "it has no front matter, so it describes no subagent.",
            _HOW,
        )
    mode = page.text("permissionMode").replace("-", "").lower()
    if mode not in _MODES:
        raise page.wrong("permissionMode", f"there is no mode '{page.text('permissionMode')}'.")
    made = Subagent(
        name=agent_name(page),
        description=page.text("description"),
        prompt=page.body,
        tools=_tools(page),
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


def _tools(page: Document) -> tuple[str, ...] | None:
    """The tools it lists. Other agents show the absence of a list as `All tools`, and some files say it so."""
    given = page.get("tools")
    is_all = isinstance(given, str) and given.strip().lower() in _ALL
    return ("*",) if is_all else page.names("tools")


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
    """Hooks by name, out of those that the program has. Those that are commands run elsewhere."""
    given = page.get("hooks")
    if given is None or isinstance(given, Mapping):
        return ()
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
