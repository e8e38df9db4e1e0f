"""Settings from the environment: one variable each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookline.config.layers import Layer, checked
from hookline.config.lines import Path
from hookline.errors import ConfigError

VARIABLES: dict[str, Path] = {
    "HOOKLINE_MODEL": ("model",),
    "HOOKLINE_AGENT": ("agent",),
    "HOOKLINE_MODE": ("approvals", "mode"),
    "HOOKLINE_SANDBOX": ("capabilities", "bash", "sandbox"),
    "HOOKLINE_MAX_STEPS": ("limits", "steps"),
    "HOOKLINE_MAX_TOKENS": ("limits", "tokens"),
    "HOOKLINE_MAX_COST": ("limits", "cost"),
    "HOOKLINE_TIMEOUT": ("limits", "seconds"),
    "HOOKLINE_JOURNAL": ("journal",),
    "HOOKLINE_SYSTEM_PROMPT": ("system_prompt",),
}
"""Each variable, and the setting it is."""
OTHERS = frozenset(
    {
        "HOOKLINE_CACHE_DIR",
        "HOOKLINE_CONFIG_DIR",
        "HOOKLINE_DATA_DIR",
    }
)
"""Variables that are no settings: where things are."""


def from_environment(environ: Mapping[str, str]) -> Layer:
    """What the environment says. A variable that is empty says nothing."""
    layer = Layer("environment", {}, sources={})
    for name, path in VARIABLES.items():
        given = environ.get(name, "").strip()
        if given:
            put(layer.data, path, _value(name, path, given))
            layer.sources[path] = f"${name}"
    return checked(layer)


def _value(name: str, path: Path, given: str) -> Any:
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
