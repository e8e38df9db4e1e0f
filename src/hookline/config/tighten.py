"""What a repository that nobody has trusted may say: only what makes an agent stricter."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from hookline.config.environment import put
from hookline.config.layers import Layer, leaves
from hookline.config.lines import Path, dotted
from hookline.config.schema import PlaceName, SandboxName
from hookline.errors import ConfigError

_STRICTER: dict[str, tuple[str, ...]] = {
    "accept_edits": ("default", "ask_unlisted", "deny_unlisted", "plan"),
    "default": ("ask_unlisted", "deny_unlisted", "plan"),
    "ask_unlisted": ("deny_unlisted", "plan"),
    "deny_unlisted": (),
    "plan": (),
}
"""For each mode, those that let less through. The last two cannot be compared."""
_STRICT_OPTIONS: dict[Path, Any] = {
    ("capabilities", "files", "read_only"): True,
    ("capabilities", "bash", "ask"): "always",
}
_STRICTEST_FIRST: dict[Path, tuple[tuple[str, ...], str]] = {
    ("capabilities", "bash", "place"): (get_args(PlaceName), "workspace"),
    ("capabilities", "bash", "sandbox"): (get_args(SandboxName), "auto"),
}
"""Options that have an order, and what they are if nobody says anything."""
_STRICT_RULES: dict[str, tuple[str, ...]] = {
    "beforetooluse": ("block", "ask", "stop", "log"),
    "aftertooluse": ("block", "stop", "log", "redact"),
    "promptsubmit": ("block", "stop", "log"),
    "beforestep": ("stop", "log"),
    "afterinference": ("log", "redact"),
    "output": ("block", "log", "redact"),
}
"""Where a rule can only forbid. Elsewhere it might send a run on (a block at `stop`), change what is called, or change
what the user asks for: a prompt without its "not" says the opposite."""
_GIVE_TOOLS = frozenset({"bash", "files", "metadata", "skills", "subagents", "task_planning"})
"""Capabilities without which an agent can do less. The others guard it or limit it: a stranger does not switch them
off. The capabilities themselves are a layer above; a test compares the two."""
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "beforetooluse": ("pretooluse", "beforetoolcall", "beforetool"),
    "aftertooluse": ("posttooluse", "aftertoolcall", "aftertool"),
    "promptsubmit": ("userpromptsubmit", "inputsubmitted"),
    "beforestep": ("stepstart",),
    "afterinference": ("postinference",),
}
"""The other names of these points. The lifecycle, which has them all, is a floor above; a test compares the two."""
_POINTS = {name: point for point, names in _SPELLINGS.items() for name in names}
_OF_RULE = frozenset({"on", "match", "do", "reason", "name"})
_NEVER = frozenset({"base_url", "api_key", "headers"})


def tightened(layer: Layer, below: dict[str, Any]) -> tuple[Layer, list[Path]]:
    """The part of a layer that only tightens what is below it, and the rest, which waits for trust."""
    kept: dict[str, Any] = {}
    held: list[Path] = []
    for path, value in leaves(layer.data):
        if path and path[0] == "hooks":
            if _is_strict_rule(value):
                kept.setdefault("hooks", []).append(value)
                continue
        elif path[:2] in (("approvals", "ask"), ("approvals", "deny")):
            kept.setdefault("approvals", {}).setdefault(path[1], []).append(value)
            continue
        elif _is_stricter(path, value, below):
            put(kept, path, value)
            continue
        elif value == {} and path[0] == "capabilities" and path[1] in below.get("capabilities", {}):
            continue  # it asks for what is there anyway
        held.append(path)
    return msgspec.structs.replace(layer, data=kept), held


def _is_strict_rule(hook: dict[str, Any]) -> bool:
    strict = _STRICT_RULES.get(_point_of(str(hook.get("on", ""))), ())
    if hook.get("do") not in strict or set(hook) - _OF_RULE:
        return False
    # An expression of a stranger's could take for ever, and keep the run from its limits.
    match = hook.get("match", "")
    said = [match] if isinstance(match, str) else [*match.get("args", {}).values(), *match.values()]
    return not any(isinstance(text, str) and text.startswith("/") for text in said)


def _point_of(text: str) -> str:
    """A point by its first name, whichever of its spellings was given: `PreToolUse`, `before_tool`, `onOutput`."""
    name = text.replace("_", "").replace("-", "").lower()
    for spelling in (name, name.removeprefix("on")):
        point = _POINTS.get(spelling, spelling)
        if point in _STRICT_RULES:
            return point
    return name


def _is_stricter(path: Path, value: Any, below: dict[str, Any]) -> bool:
    if path in _STRICT_OPTIONS:
        return bool(_STRICT_OPTIONS[path] == value)
    if path in _STRICTEST_FIRST:
        words, usual = _STRICTEST_FIRST[path]
        now = below.get("capabilities", {}).get("bash", {}).get(path[2], usual)
        return value in words and now in words and words.index(value) <= words.index(now)
    if path[0] == "capabilities" and len(path) == 3 and path[2] == "enabled":
        return value is False and path[1] in _GIVE_TOOLS
    if path == ("approvals", "mode"):
        return value in _STRICTER[below.get("approvals", {}).get("mode", "default")]
    if path[0] == "limits" or path == ("approvals", "expire_after"):
        now = below.get(str(path[0]), {}).get(path[1])
        return now is None or value <= now
    return False


def refuse_endpoints(layer: Layer) -> None:
    """Where a model is reached and with which key is never a repository's to say, nor where runs are kept.

    Nor which files outside of it commands are shown: only its own environment files are.
    """
    for path, value in leaves(layer.data):
        outside = _outside(value) if path[:3] == ("capabilities", "bash", "show") else []
        if outside:
            raise ConfigError(
                f"{layer.where(path)}: a repository cannot show {', '.join(map(repr, outside))} to commands: "
                "only paths inside of it, such as '.env'.",
                remedy="Remove that path there. To show it, put it into your own file: ~/.config/hookline/config.toml.",
            )
        is_wire = "model_settings" in path and path[-1] in _NEVER
        if is_wire or path[0] == "journal":
            raise ConfigError(
                f"{layer.where(path)}: a repository cannot set '{dotted(path)}'.",
                remedy="Put it into your own file: ~/.config/hookline/config.toml.",
            )


def _outside(value: Any) -> list[str]:
    """The paths among these that lead out of the project."""
    paths = map(str, value if isinstance(value, list) else [value])
    return [path for path in paths if path.startswith(("/", "~")) or ".." in path.split("/")]
