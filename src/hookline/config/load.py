"""All settings: the defaults, the user's file, the project's files, the environment, the flags. Later layers win."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from hookline.config.layers import (
    Layer,
    MergedLayers,
    check_layer,
    find,
    leaves,
    put,
    read_layer,
    write_path,
)
from hookline.config.locations import is_file, own_file, project_files, project_of
from hookline.config.schema import Configuration, KeyPath, PlaceName, SandboxName
from hookline.config.trust import TrustStatus, fingerprints, trust_file
from hookline.config.untrusted import is_restriction, keep_stricter, refuse_endpoints
from hookline.errors import ConfigError, UsageError

DEFAULTS: dict[str, Any] = {
    "model": "local:",
    "limits": {
        "steps": 50,
        "tokens": 1_000_000,
        "seconds": 1800,
    },  # as RunLimits: a test compares them
    "approvals": {"mode": "default"},
    "capabilities": {"files": {}, "bash": {}},
}
NO_FLAGS = Layer("flag", {})


class HeldSetting(msgspec.Struct, frozen=True):
    """A setting of a repository that is not in force until the user trusts the repository."""

    setting: str
    where: str
    path: KeyPath = ()
    value: Any = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration for one command, and where each value came from."""

    configuration: Configuration
    merged: MergedLayers
    project: Path
    files: tuple[str, ...] = ()
    """The files that were read. The last one has the highest priority."""
    trust_status: TrustStatus = TrustStatus.NOTHING
    held: tuple[HeldSetting, ...] = ()
    agent: str = ""
    """The name of the agent that was chosen from `agents`."""
    is_bare: bool = False
    """No file was read."""
    layers: tuple[Layer, ...] = ()
    """Each file as it is written, also where parts of it are not in force."""

    def where(self, *path: str | int) -> str:
        """Where a value came from."""
        return self.merged.where(path)

    @property
    def target(self) -> str:
        """The user's own agent as `module:agent`; empty if the settings describe the agent."""
        named = self.configuration.agent or ""
        return named if ":" in named else (self.configuration.target or "")

    @property
    def has_model(self) -> bool:
        """Whether somebody has configured a model. An agent of your own has one in its code."""
        return bool(self.target) or self.where("model") != "default"

    @property
    def missing_guards(self) -> tuple[HeldSetting, ...]:
        """The hooks and restrictions of the agent that wait for trust. An agent of your own has none in files."""
        if self.target:
            return ()
        return tuple(
            each for each in self.held if is_restriction(each.path, each.value, self.agent)
        )

    @property
    def trust_hint(self) -> str:
        """One line about settings that wait for trust; empty if none of them would change the agent."""
        if not self.held or self.target:
            return ""
        names = list(dict.fromkeys(held.setting for held in self.held))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return (
            f"{self.project} is {self.trust_status.value}: {shown} not in force. "
            f"Read its configuration, then: hookline trust {self.project}"
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
    merged = MergedLayers()
    merged.add_layer(Layer("default", DEFAULTS))
    project = project_of(folder, environ)
    status, held = TrustStatus.NOTHING, list[HeldSetting]()
    environment = Layer("environment", {})
    written: list[Layer] = []
    if not bare:
        own = own_file(environ)
        written = [read_layer(own)] if is_file(own) else []
        for layer in written:
            merged.add_layer(layer)
        theirs = [read_layer(path, is_project=True) for path in project_files(project)]
        layers, status, held = project_layers(project, environ, merged.data, theirs)
        for layer in layers:
            merged.add_layer(layer)
        written += theirs
        environment = from_environment(environ)
    chosen = _agent_name(merged, agent, flags, environment)
    if chosen:
        _add_agent(merged, chosen, held, is_flag=chosen == flags.data.get("agent"))
    merged.add_layer(environment)
    merged.add_layer(flags)
    _refuse_contradiction(merged)
    return Settings(
        configuration=msgspec.convert(merged.data, Configuration),
        merged=merged,
        project=project,
        files=tuple(layer.name for layer in written),
        trust_status=status,
        held=tuple(held),
        agent=chosen,
        is_bare=bare,
        layers=tuple(written),
    )


def project_layers(
    project: Path, environ: Mapping[str, str], below: dict[str, Any], layers: list[Layer]
) -> tuple[list[Layer], TrustStatus, list[HeldSetting]]:
    """The layers of a project. Without trust, only settings that make the agent stricter are kept."""
    trust = trust_file(environ)
    # The files that a project names are hashed only if it was ever trusted: they may be very large.
    known = trust.is_known(project)
    prints = fingerprints(project, layers) if known else {layer.name: "" for layer in layers}
    status = trust.status(project, prints)
    if status is TrustStatus.TRUSTED:
        for layer in layers:
            refuse_endpoints(layer)
        return layers, status, []
    held: list[HeldSetting] = []
    strict: list[Layer] = []
    merged = MergedLayers()
    merged.add_layer(Layer("", below))
    for layer in layers:
        kept, waiting = keep_stricter(layer, merged.data)
        merged.add_layer(kept)
        strict.append(kept)
        values = dict(leaves(layer.data))
        held += [
            HeldSetting(write_path(path), layer.where(path), path, values[path]) for path in waiting
        ]
    return strict, status if held or known else TrustStatus.NOTHING, held


def _refuse_contradiction(merged: MergedLayers) -> None:
    """Refuse a place and a sandbox that exclude each other, and name both origins: they may be far apart."""
    path = ("capabilities", "bash")
    bash = find(merged.data, path) or {}
    place, sandbox = bash.get("place"), bash.get("sandbox")
    if sandbox == "host" or (place == "host" and sandbox == "required"):
        remedy = "The host is no sandbox: set another place, or sandbox = 'auto'. For one run, --place workspace or"
        if sandbox == "host":
            remedy = "sandbox = 'host' is an older word for that place: leave it or the place out. For one run,"
        raise ConfigError(
            f"{merged.where((*path, 'place'))} says place = {place!r} and {merged.where((*path, 'sandbox'))} says "
            f"sandbox = {sandbox!r}, which contradict each other.",
            remedy=f"{remedy} --sandbox auto does it.",
        )


def _agent_name(merged: MergedLayers, name: str, flags: Layer, environment: Layer) -> str:
    """The agent that was chosen from the configuration; empty if none was, or one in Python."""
    layers = (flags.data, environment.data, merged.data)
    found = name or next((data["agent"] for data in layers if data.get("agent")), "")
    return "" if ":" in found else str(found)


def _add_agent(merged: MergedLayers, name: str, held: list[HeldSetting], *, is_flag: bool) -> None:
    """Put the settings of the chosen agent above those for all agents."""
    agents = merged.data.get("agents", {})
    if name not in agents:
        waiting = (each for each in held if each.setting.startswith(f"agents.{name}."))
        for each in waiting:
            raise ConfigError(
                f"the agent '{name}' is in {each.where}, which is not trusted.",
                remedy="Read it, then: hookline trust.",
            )
        kind = UsageError if is_flag else ConfigError
        raise kind(
            f"there is no agent '{name}' in the configuration.",
            remedy=f"There are: {', '.join(agents)}." if agents else f"Write [agents.{name}].",
        )
    path: KeyPath = ("agents", name)
    sources = {inner[2:]: origin for inner, origin in merged.origins.items() if inner[:2] == path}
    merged.add_layer(Layer(f"agents.{name}", agents[name], sources=sources))


# --- environment variables -----------------------------------------------------------------------

VARIABLES: dict[str, KeyPath] = {
    "HOOKLINE_AGENT": ("agent",),
    "HOOKLINE_MODEL": ("model",),
    "HOOKLINE_MODE": ("approvals", "mode"),
    "HOOKLINE_PLACE": ("capabilities", "bash", "place"),
    "HOOKLINE_SANDBOX": ("capabilities", "bash", "sandbox"),
    "HOOKLINE_MAX_STEPS": ("limits", "steps"),
    "HOOKLINE_MAX_TOKENS": ("limits", "tokens"),
    "HOOKLINE_MAX_COST": ("limits", "cost"),
    "HOOKLINE_TIMEOUT": ("limits", "seconds"),
    "HOOKLINE_JOURNAL": ("journal",),
    "HOOKLINE_SYSTEM_PROMPT": ("system_prompt",),
}
"""Each variable, and the setting it sets. The command has a flag of the same name: `--max-steps`."""
_CHOICES = {"HOOKLINE_PLACE": get_args(PlaceName), "HOOKLINE_SANDBOX": get_args(SandboxName)}
"""Variables for options of a capability, whose values this package does not check otherwise."""
OTHERS = frozenset({"HOOKLINE_CACHE_DIR", "HOOKLINE_CONFIG_DIR", "HOOKLINE_DATA_DIR"})
"""Variables for locations on disk."""
_IGNORED = frozenset(
    {
        "HOOKLINE_COMMAND",
        "HOOKLINE_DEBUG",
        "HOOKLINE_HOOK_RUN",
        "HOOKLINE_POINT",
        "HOOKLINE_PROJECT_DIR",
        "HOOKLINE_REPLAY",
        "HOOKLINE_SESSION_ID",
    }
)
"""Variables that are no settings. The runtime sets most of them for the programs it starts."""
_PREFIX = "HOOKLINE_"
_CUTOFF = 0.8


def from_environment(environ: Mapping[str, str]) -> Layer:
    """The settings of the environment. An empty variable counts as not set."""
    _refuse_misspellings(environ)
    layer = Layer("environment", {}, sources={})
    for name, path in VARIABLES.items():
        given = environ.get(name, "").strip()
        if given:
            put(layer.data, path, _value(name, path, given))
            layer.sources[path] = f"${name}"
    return check_layer(layer)


def _refuse_misspellings(environ: Mapping[str, str]) -> None:
    """A variable that is almost one of ours is an error. Every other is ignored: another program may own it."""
    known = {*VARIABLES, *OTHERS, *_IGNORED}
    endings = sorted(each.removeprefix(_PREFIX) for each in known)
    for name, given in environ.items():
        if not name.startswith(_PREFIX) or name in known or not given.strip():
            continue
        close = difflib.get_close_matches(name.removeprefix(_PREFIX), endings, 1, _CUTOFF)
        if close:
            raise ConfigError(
                f"the variable {name} has no meaning.", remedy=f"Did you mean {_PREFIX}{close[0]}?"
            )


def _value(name: str, path: KeyPath, given: str) -> Any:
    choices = _CHOICES.get(name, (given,))
    if given not in choices:
        remedy = f"Set it to one of: {', '.join(choices)}. Or unset it."
        raise ConfigError(f"${name} is {given!r}.", remedy=remedy)
    if path[0] != "limits":
        return given
    try:
        return int(given) if given.isdecimal() else float(given)
    except ValueError:
        remedy = "Set it to a number, or unset it."
        raise ConfigError(f"${name} is {given!r}.", remedy=remedy) from None
