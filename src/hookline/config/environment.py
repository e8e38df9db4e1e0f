"""Settings from the environment: one variable each."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from hookline.config.layers import Layer, checked
from hookline.config.lines import Path
from hookline.config.schema import PlaceName, SandboxName
from hookline.errors import ConfigError

VARIABLES: dict[str, Path] = {
    "HOOKLINE_MODEL": ("model",),
    "HOOKLINE_AGENT": ("agent",),
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
"""Each variable, and the setting it is."""
_WORDS: dict[str, tuple[str, ...]] = {
    "HOOKLINE_PLACE": get_args(PlaceName),
    "HOOKLINE_SANDBOX": get_args(SandboxName),
}
"""What variables can be whose settings are options of a capability, which this layer does not know."""
OTHERS = frozenset(
    {
        "HOOKLINE_CACHE_DIR",
        "HOOKLINE_CONFIG_DIR",
        "HOOKLINE_DATA_DIR",
    }
)
"""Variables that are no settings: where things are."""
_PASSING = frozenset(
    {
        "HOOKLINE_COMMAND",
        "HOOKLINE_DEBUG",
        "HOOKLINE_HOOK_RUN",
        "HOOKLINE_POINT",
        "HOOKLINE_PROJECT_DIR",
        "HOOKLINE_SESSION_ID",
    }
)
"""Variables that say nothing about the agent: most are set by the runtime itself, for what it starts."""
_PREFIX = "HOOKLINE_"
_ALIKE = 0.8


def from_environment(environ: Mapping[str, str]) -> Layer:
    """What the environment says. A variable that is empty says nothing."""
    _refuse_slips(environ)
    layer = Layer("environment", {}, sources={})
    for name, path in VARIABLES.items():
        given = environ.get(name, "").strip()
        if given:
            put(layer.data, path, _value(name, path, given))
            layer.sources[path] = f"${name}"
    return checked(layer)


def _refuse_slips(environ: Mapping[str, str]) -> None:
    """A variable that is almost one of ours was meant to be it. Others are somebody else's."""
    known = {*VARIABLES, *OTHERS, *_PASSING}
    for name, given in environ.items():
        if not name.startswith(_PREFIX) or name in known or not given.strip():
            continue
        endings = sorted(each.removeprefix(_PREFIX) for each in known)
        ending = name.removeprefix(_PREFIX)
        close = difflib.get_close_matches(ending, endings, n=1, cutoff=_ALIKE)
        if close:
            raise ConfigError(
                f"the variable {name} means nothing.",
                remedy=f"Did you mean {_PREFIX}{close[0]}?",
            )


def _value(name: str, path: Path, given: str) -> Any:
    words = _WORDS.get(name, (given,))
    if given not in words:
        raise ConfigError(
            f"${name} is {given!r}.", remedy=f"Set it to one of: {', '.join(words)}. Or unset it."
        )
    if path[0] != "limits":
        return given
    try:
        return int(given) if given.isdecimal() else float(given)
    except ValueError:
        raise ConfigError(
            f"${name} is {given!r}.", remedy="Set it to a number, or unset it."
        ) from None


def put(data: dict[Any, Any], path: Path, value: Any) -> None:
    """Set a value deep in tables, making those that are not there."""
    for name in path[:-1]:
        data = data.setdefault(name, {})
    data[path[-1]] = value
