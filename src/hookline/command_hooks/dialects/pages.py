"""Hooks in the front matter of subagents and skills: in Claude's form, or in that of VS Code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.dialects.claude.settings import make_hook
from hookline.command_hooks.dialects.config_files import hook_file
from hookline.command_hooks.dialects.copilot import read_vscode_entries
from hookline.command_hooks.handler import DroppedHook, HookPage, HookSearch, Level, Warn, level_of
from hookline.errors import DocumentError
from hookline.state import thaw

_NOT_IN_CHILDREN = frozenset({"SessionStart", "SessionEnd", "UserPromptSubmit"})
"""Events of the run that the user talks to."""
_NOT_AFTER_START = frozenset({"SessionStart"})
_COMMAND_KEYS = frozenset({"command", "bash", "linux", "osx"})


def add_pages(
    search: HookSearch,
    *,
    agents: Iterable[str | os.PathLike[str]] = (),
    skills: Iterable[str | os.PathLike[str]] = (),
) -> HookSearch:
    """A search with the pages of subagents and skills that have hooks. Of two with one name the first counts."""
    found: dict[tuple[str, str], HookPage | None] = {}
    for kind, places, pages in (("agent", agents, _agents), ("skill", skills, _skills)):
        for place in places:
            for name, path, fields in pages(Path(place).expanduser()):
                if (kind, name) not in found:
                    level = level_of(place, search.project, search.home, otherwise=Level.USER)
                    page = HookPage(path, "", level, (), **{kind: name})
                    found[kind, name] = _read(page, fields, search)
    kept = tuple(page for page in found.values() if page is not None)
    return msgspec.structs.replace(search, pages=kept)


def _agents(place: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    from hookline.markdown.document import (  # only where there are such files
        agent_name,
        agent_pages,
    )

    if not place.exists():  # the capability reports it
        return
    try:
        for page in agent_pages(place):
            yield agent_name(page), page.where, {**page.fields, "hooks": page.get("hooks")}
    except DocumentError:
        return  # as above


def _skills(place: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    from hookline.markdown import SkillLibrary

    if place.is_dir():
        for skill in SkillLibrary(place):
            yield skill.name, skill.page_path, {**skill.fields, "hooks": skill.hooks}


def _read(page: HookPage, fields: Mapping[str, Any], search: HookSearch) -> HookPage | None:
    """A page with its hooks; None if it has none."""
    hooks = fields.get("hooks")
    if not isinstance(hooks, dict) or not hooks:
        return None
    root = "" if page.agent else os.path.dirname(page.path)
    source = search.source("claude", page.level, Path(page.path), root=root)
    file = hook_file(source, search.warn, {"hooks": hooks})
    grouped, plain = _split(_events(page, thaw(hooks), file.warn))
    found = (
        *file.read_nested(grouped, make_hook),
        *read_vscode_entries(plain, file, search.project),
    )
    handlers = tuple(
        msgspec.structs.replace(
            each,
            agent=page.agent,
            skill=page.skill,
            once=bool(page.skill) and each.definition["hook"].get("once") is True,
            # Trust is bound to the whole front matter: it also says what the subagent or skill may do.
            definition={**each.definition, "page": thaw(dict(fields))},
        )
        for each in found
    )
    return msgspec.structs.replace(page, label=source.label, handlers=handlers)


def _events(page: HookPage, hooks: dict[str, Any], warn: Warn) -> dict[str, Any]:
    """The hooks by event. In a subagent, `Stop` is `SubagentStop`."""
    never = _NOT_IN_CHILDREN if page.agent else _NOT_AFTER_START
    found: dict[str, Any] = {}
    for event, groups in hooks.items():
        if event in never:
            where = "in a subagent" if page.agent else "once a skill is loaded"
            warn(f"{event} does not happen {where}, so its hooks never run")
            continue
        name = "SubagentStop" if page.agent and event == "Stop" else event
        if name not in found:
            found[name] = groups
        elif isinstance(found[name], list) and isinstance(groups, list):
            found[name] = [*found[name], *groups]
        else:  # one of the two is no list
            warn(DroppedHook(f"{event} is not a list, so it is ignored"))
            found[name] = groups if isinstance(groups, list) else found[name]
    return found


def _split(by_event: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The hooks in groups, as in Claude's files, and those without, as in VS Code's."""
    plain = {
        event: [entry for entry in entries if _is_plain(entry)]
        for event, entries in by_event.items()
        if isinstance(entries, list) and any(map(_is_plain, entries))
    }
    groups = {
        event: [entry for entry in entries if not _is_plain(entry)] if event in plain else entries
        for event, entries in by_event.items()
    }
    return groups, plain


def _is_plain(entry: Any) -> bool:
    return isinstance(entry, dict) and "hooks" not in entry and not _COMMAND_KEYS.isdisjoint(entry)
