"""Hooks in the front matter of subagents and skills: Claude's form, or that of VS Code, in YAML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hookline.command_hooks.definition import Handler, Level, Source, level_of, shown_path
from hookline.command_hooks.reading.claude_entries import make
from hookline.command_hooks.reading.copilot import read_vscode_entries
from hookline.command_hooks.reading.files import Dropped, Warn, about, nested
from hookline.errors import DocumentError
from hookline.state import thaw

_NOT_IN_CHILDREN = frozenset({"SessionStart", "SessionEnd", "UserPromptSubmit"})
"""Events of whoever the user talks to: a subagent's session and prompt are its starter's."""
_NOT_AFTER_START = frozenset({"SessionStart"})
_LINES = frozenset({"command", "bash", "linux", "osx"})


class Page(NamedTuple):
    """A page with hooks, read."""

    path: str
    label: str
    level: Level
    handlers: tuple[Handler, ...]
    agent: str = ""
    skill: str = ""

    @property
    def subject(self) -> str:
        """What the page describes, in words."""
        return f"subagent '{self.agent}'" if self.agent else f"skill '{self.skill}'"


def read_pages(
    project: Path,
    home: Path,
    warn: Warn,
    *,
    agents: Iterable[str | os.PathLike[str]] = (),
    skills: Iterable[str | os.PathLike[str]] = (),
) -> list[Page]:
    """The pages with hooks among the subagents and skills of some places. Of two with one name the first counts."""
    found: dict[tuple[str, str], Page | None] = {}
    for place in agents:
        for name, path, fields in _agents(Path(place).expanduser()):
            if ("agent", name) not in found:
                page = Page(
                    path, "", level_of(place, project, home, otherwise=Level.USER), (), agent=name
                )
                found["agent", name] = _read(page, fields, project, home, warn)
    for place in skills:
        for name, path, fields in _skills(Path(place).expanduser()):
            if ("skill", name) not in found:
                page = Page(
                    path, "", level_of(place, project, home, otherwise=Level.USER), (), skill=name
                )
                found["skill", name] = _read(page, fields, project, home, warn)
    return [page for page in found.values() if page is not None]


def _agents(place: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    from hookline.markdown import agent_name, agent_pages  # only where there are such files

    if not place.exists():  # whoever gives them to the agent says so
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


def _read(
    page: Page, fields: Mapping[str, Any], project: Path, home: Path, warn: Warn
) -> Page | None:
    """A page with its hooks; None if it has none."""
    hooks = fields.get("hooks")
    if not isinstance(hooks, dict) or not hooks:
        return None
    label = shown_path(page.path, project, home)
    told = about(label, warn)
    root = "" if page.agent else os.path.dirname(page.path)
    source = Source("claude", page.level, page.path, label, root)
    by_event, plain = _without_plain(_events(page, thaw(hooks), told))
    written = (
        *nested(by_event, source, make, told),
        *read_vscode_entries(plain, source, project, told),
    )
    handlers = tuple(
        msgspec.structs.replace(
            each,
            agent=page.agent,
            skill=page.skill,
            once=bool(page.skill) and each.definition["hook"].get("once") is True,
            # Trust is for the page as it is: who else could be meant, and what it may do, is said there too.
            definition={**each.definition, "page": thaw(dict(fields))},
        )
        for each in written
    )
    return page._replace(label=label, handlers=handlers)


def _events(page: Page, hooks: dict[str, Any], warn: Warn) -> dict[str, Any]:
    """The hooks by event. A subagent that stops is, to whoever watches, the stop of a subagent."""
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
        else:  # one of them is no list: that is told, and the other holds
            warn(Dropped(f"{event} is not a list, so it is left out"))
            found[name] = groups if isinstance(groups, list) else found[name]
    return found


def _without_plain(by_event: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The hooks in groups, as Claude has them, and those that are in none, as VS Code has them."""
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
    return isinstance(entry, dict) and "hooks" not in entry and not _LINES.isdisjoint(entry)
