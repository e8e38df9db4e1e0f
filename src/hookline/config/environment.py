"""Settings from environment variables."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from hookline.config.layers import Layer, check_layer, put
from hookline.config.lines import KeyPath
from hookline.config.schema import PlaceName, SandboxName
from hookline.errors import ConfigError

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
                f"the variable {name} means nothing.", remedy=f"Did you mean {_PREFIX}{close[0]}?"
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
