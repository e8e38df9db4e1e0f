"""A hook as a configuration file describes it, whatever the dialect."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from hookline.state import EMPTY


class Level(enum.StrEnum):
    """Who wrote a file, the most trusted first."""

    MANAGED = "managed"
    """The administrator of the machine."""
    USER = "user"
    CODE = "code"
    """Whoever builds the agent: the hook is in the program, or in a file that it names."""
    PLUGIN = "plugin"
    """Installed by the user."""
    PROJECT = "project"
    """Part of the repository."""
    LOCAL = "local"
    """In the repository's directory, though not meant to be part of it."""

    @property
    def is_repository(self) -> bool:
        """Whether whoever filled the directory could have written it: off until trusted."""
        return self in (Level.PROJECT, Level.LOCAL)


class Source(msgspec.Struct, frozen=True):
    """Where hooks come from: the dialect is a property of the file, never of the script."""

    dialect: str
    level: Level = Level.CODE
    path: str = ""
    """The file; empty for what is in the program."""
    label: str = ""
    """The file as it is shown: `.claude/settings.json`."""
    root: str = ""
    """The directory of a plugin or an extension."""
    data: str = ""
    """Where a plugin may keep what it wants to keep."""


class Handler(msgspec.Struct, frozen=True):
    """One hook: for which event it is, when it matches, what it runs, and what its failure means."""

    source: Source
    event: str
    """As its dialect calls it."""
    kind: Literal["command", "http", "prompt", "agent", "mcp_tool"] = "command"
    command: str = ""
    argv: tuple[str, ...] | None = None
    """Given instead of a command line: no shell reads it."""
    url: str = ""
    headers: Mapping[str, str] = EMPTY
    allowed_env: tuple[str, ...] = ()
    """The variables that the headers may name."""
    prompt: str = ""
    """What a model is asked, where it is a model that answers."""
    model: str = ""
    """Which model that is; empty for the agent's own."""
    continues: bool = False
    """A model's no after a tool is told to the agent, and does not end the run."""
    tool: str = ""
    """The tool of an MCP server that answers, by its name here."""
    input: Mapping[str, Any] = EMPTY
    """What that tool is given."""
    matcher: str = ""
    rule: str = ""
    """`if`: a permission rule that a tool call must be about."""
    timeout: float = 600.0
    on_failure: Literal["open", "closed"] = "open"
    is_async: bool = False
    wakes: bool = False
    """A background hook that sends the agent back to work with exit code 2."""
    is_sequential: bool = False
    env: Mapping[str, str] = EMPTY
    cwd: str = ""
    shell: str = ""
    label: str = ""
    """A name of its own, where the file gives one."""
    in_argument: bool = False
    """The event is its last argument, and not on its input: a program that is only told."""
    loop_limit: int | None = None
    """How often it may object to stopping; None for as often as any hook may."""
    agent: str = ""
    """The subagent whose page describes it: it is asked in that one's runs only, and in those below them."""
    skill: str = ""
    """The skill whose page describes it: it is asked from when that was loaded."""
    once: bool = False
    """Once it has been asked, and did not object, it is not asked again in that session."""
    knows: frozenset[str] = frozenset()
    """Words that are in what it runs, where its dialect has several for one thing: it is told the ones it knows."""
    pins: Mapping[str, str] = EMPTY
    """Scripts by path, with the hash under which they were trusted. One that is another now is not run."""
    definition: Mapping[str, Any] = EMPTY
    """What the file says, as it says it: what trust is bound to."""

    @property
    def runs(self) -> str:
        """What it runs, on one line."""
        if self.kind == "http":
            return self.url
        if self.kind == "mcp_tool":
            return self.tool
        if self.kind in ("prompt", "agent"):
            return f"{self.kind}: {' '.join(self.prompt.split())}"
        return " ".join(self.argv) if self.argv is not None else " ".join(self.command.split())

    @property
    def name(self) -> str:
        """The name under which its verdicts are journalled: the file, and the command."""
        said = self.label or _shortened(self.runs)
        where = self.source.label or self.source.dialect
        return f"{where}: {said}"

    @property
    def scope(self) -> str:
        """Where it is asked at all, in words; empty for everywhere."""
        if self.agent:
            return f"in subagent '{self.agent}'"
        return f"once skill '{self.skill}' is loaded" if self.skill else ""

    @property
    def is_apart(self) -> bool:
        """Whether its file is trusted by itself: a page, or a plugin that lies in the repository."""
        return bool(self.agent or self.skill or self.source.root)

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two hooks the same one."""
        return (
            self.source.dialect,
            self.event,
            self.matcher,
            self.rule,
            self.kind,
            self.command,
            self.argv,
            self.url,
            self.prompt,
            self.model,
            self.tool,
            repr(self.input),
            self.shell,
            self.agent,
            self.skill,
        )


def _shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 + 3 :]}"


def home_directory() -> Path:
    """The user's home; a path that cannot exist for a user who has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull) / "nobody"


def own_directory(home: Path, usual: str, variable: str) -> Path:
    """Where a user keeps the files of an agent: in their home, or where a variable of that agent says."""
    said = os.environ.get(variable, "")
    return Path(said).expanduser() if said and home == home_directory() else home / usual


def level_of(
    place: str | os.PathLike[str], project: Path, home: Path, *, otherwise: Level
) -> Level:
    """Whose the files of a place are: the repository's if they are in it, by name or in fact."""
    given = Path(os.path.abspath(Path(place).expanduser()))
    is_inside = given.is_relative_to(project) or given.resolve().is_relative_to(project)
    return Level.PROJECT if is_inside and project != home else otherwise


def shown_path(path: str | os.PathLike[str], project: Path, home: Path) -> str:
    """A path as people write it: from the project, or from the home directory."""
    full = Path(path)
    for base, prefix in ((project, ""), (home, "~/")):
        if full.is_relative_to(base):
            return prefix + full.relative_to(base).as_posix()
    return str(full)
