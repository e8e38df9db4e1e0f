"""All settings: the defaults, the user's file, the project's files, the environment, the flags. Later ones win."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.config.environment import from_environment
from hookline.config.layers import Layer, Merged, read_layer
from hookline.config.lines import Path as Way
from hookline.config.lines import dotted
from hookline.config.places import is_there, project_files, project_of, user_folder
from hookline.config.schema import Configuration
from hookline.config.tighten import refuse_endpoints, tightened
from hookline.config.trust import Standing, Trust, fingerprints
from hookline.errors import ConfigError, UsageError

DEFAULTS: dict[str, Any] = {
    "model": "local:",
    "limits": {"steps": 50, "tokens": 1_000_000, "seconds": 1800},
    "approvals": {"mode": "default"},
    "capabilities": {"files": {}, "bash": {}},
}
"""What holds when nobody says anything."""
NO_FLAGS = Layer("flag", {})


class Held(msgspec.Struct, frozen=True):
    """A setting of a repository that waits until the user trusts it."""

    setting: str
    where: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one command, and how it came about."""

    configuration: Configuration
    merged: Merged
    project: Path
    files: tuple[str, ...] = ()
    """The files that were read, the one that counts most last."""
    standing: Standing = Standing.NOTHING
    held: tuple[Held, ...] = ()
    agent: str = ""
    """The name of the agent that was chosen from `agents`."""
    is_bare: bool = False
    """No file was read."""
    layers: tuple[Layer, ...] = ()
    """What each file says, in force or not."""

    def where(self, *path: str | int) -> str:
        """Where a value came from."""
        return self.merged.where(path)

    @property
    def target(self) -> str:
        """The agent of the user's own, as `module:agent`, that is used as it is; empty if the settings describe one."""
        named = self.configuration.agent or ""
        return named if ":" in named else (self.configuration.target or "")

    @property
    def trust_hint(self) -> str:
        """One line about what waits for trust; empty if nothing does that would be about the agent."""
        if not self.held or self.target:
            return ""
        names = list(dict.fromkeys(held.setting for held in self.held))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return (
            f"{self.project} is {self.standing.value}: {shown} not in force. "
            f"Look at its configuration, then: hookline trust {self.project}"
        )


def load(
    folder: Path,
    environ: Mapping[str, str] = os.environ,
    *,
    flags: Layer = NO_FLAGS,
    agent: str = "",
    bare: bool = False,
) -> Settings:
    """The settings for a command in a directory. `bare` reads no file and no variable."""
    merged = Merged()
    merged.lay(Layer("default", DEFAULTS))
    project = project_of(folder, environ)
    files: list[str] = []
    standing, held = Standing.NOTHING, list[Held]()
    environment = Layer("environment", {})
    read: list[Layer] = []
    if not bare:
        own = user_folder(environ) / "config.toml"
        if is_there(own):
            read.append(read_layer(own))
            merged.lay(read[0])
            files.append(str(own))
        said = [read_layer(path, is_project=True) for path in project_files(project)]
        read += said
        layers, standing, held = project_layers(project, environ, merged.data, said)
        for layer in layers:
            merged.lay(layer)
            files.append(layer.name)
        environment = from_environment(environ)
    named = _agent_named(merged, agent, flags, environment)
    chosen = _lay_agent(merged, named, held, is_flag=named == flags.data.get("agent"))
    merged.lay(environment)
    merged.lay(flags)
    _refuse_contradiction(merged)
    return Settings(
        configuration=msgspec.convert(merged.data, Configuration),
        merged=merged,
        project=project,
        files=tuple(files),
        standing=standing,
        held=tuple(held),
        agent=chosen,
        is_bare=bare,
        layers=tuple(read),
    )


def project_layers(
    project: Path, environ: Mapping[str, str], below: dict[str, Any], layers: list[Layer]
) -> tuple[list[Layer], Standing, list[Held]]:
    """The layers of a project: as they are where it is trusted, else what of them only tightens."""
    trust = trust_of(environ)
    # Of a project that was never trusted nothing is looked at that its files name, however large it is.
    prints = (
        prints_of(project, layers) if trust.knows(project) else {layer.name: "" for layer in layers}
    )
    standing = trust.standing(project, prints)
    if standing is Standing.TRUSTED:
        for layer in layers:
            refuse_endpoints(layer)
        return layers, standing, []
    held: list[Held] = []
    strict: list[Layer] = []
    so_far = Merged()
    so_far.lay(Layer("", below))
    for layer in layers:
        kept, waiting = tightened(layer, so_far.data)
        so_far.lay(kept)
        strict.append(kept)
        held += [Held(dotted(way), layer.where(way)) for way in waiting]
    return strict, standing if held else Standing.NOTHING, held


def prints_of(project: Path, layers: list[Layer]) -> dict[str, str]:
    """The hashes a project is trusted by."""
    texts = {Path(layer.name): layer.text for layer in layers}
    return fingerprints(project, texts, [layer.data for layer in layers])


def trust_of(environ: Mapping[str, str]) -> Trust:
    """What the user trusts."""
    return Trust(user_folder(environ) / "trusted-projects.json")


def _refuse_contradiction(merged: Merged) -> None:
    """Say of two words about commands that exclude each other where each was said: it may have been far apart."""
    way = ("capabilities", "bash")
    bash = merged.data.get("capabilities", {}).get("bash", {})
    place, sandbox = bash.get("place"), bash.get("sandbox")
    if sandbox == "host" or (place == "host" and sandbox == "required"):
        raise ConfigError(
            f"{merged.where((*way, 'place'))} says place = {place!r} and {merged.where((*way, 'sandbox'))} says "
            f"sandbox = {sandbox!r}, which contradict each other.",
            remedy="The host is no sandbox: say another place, or sandbox = 'auto'.",
        )


def _agent_named(merged: Merged, name: str, flags: Layer, environment: Layer) -> str:
    """The agent that was chosen from those of the configuration; empty if that is none, or one in Python."""
    name = (
        name
        or flags.data.get("agent")
        or environment.data.get("agent")
        or merged.data.get("agent", "")
    )
    return "" if ":" in name else str(name)


def _lay_agent(merged: Merged, name: str, held: list[Held], *, is_flag: bool) -> str:
    """Put the chosen agent's settings on top of those that are for all agents."""
    if not name:
        return ""
    agents = merged.data.get("agents", {})
    if name not in agents:
        waits = next((each for each in held if each.setting.startswith(f"agents.{name}.")), None)
        if waits is not None:
            raise ConfigError(
                f"the agent '{name}' is in {waits.where}, which is not trusted.",
                remedy="Look at it, then: hookline trust.",
            )
        kind = UsageError if is_flag else ConfigError
        raise kind(
            f"there is no agent '{name}' in the configuration.",
            remedy=f"There are: {', '.join(agents)}." if agents else f"Write [agents.{name}].",
        )
    way: Way = ("agents", name)
    sources = {path[2:]: origin for path, origin in merged.origins.items() if path[:2] == way}
    merged.lay(Layer(f"agents.{name}", agents[name], sources=sources))
    return name
