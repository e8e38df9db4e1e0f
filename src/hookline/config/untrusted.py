"""Settings of a repository that is not trusted: only those that make the agent stricter are in force."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from hookline.config.layers import Layer, find, leaves, put, write_path
from hookline.config.schema import KeyPath, PlaceName, SandboxName
from hookline.errors import ConfigError

_STRICTER: dict[str, tuple[str, ...]] = {
    "accept_edits": ("default", "ask_unlisted", "deny_unlisted", "plan"),
    "default": ("ask_unlisted", "deny_unlisted", "plan"),
    "ask_unlisted": ("deny_unlisted", "plan"),
    "deny_unlisted": (),
    "plan": (),
}
"""For each mode, the stricter ones. The last two cannot be compared."""
_STRICT_OPTIONS: dict[KeyPath, Any] = {
    ("capabilities", "files", "read_only"): True,
    ("capabilities", "bash", "ask"): "always",
}
_STRICTEST_FIRST: dict[KeyPath, tuple[tuple[str, ...], str]] = {
    ("capabilities", "bash", "place"): (get_args(PlaceName), "workspace"),
    ("capabilities", "bash", "sandbox"): (get_args(SandboxName), "auto"),
}
"""Options with an order, and their defaults."""
_RULES: tuple[KeyPath, ...] = tuple(
    (*table, name)
    for table in (("approvals",), ("capabilities", "bash", "policy"))
    for name in ("ask", "deny")
)
"""Lists of rules to which each layer adds."""
_STRICT_RULES: dict[str, tuple[str, ...]] = {
    "beforetooluse": ("block", "ask", "stop", "log"),
    "aftertooluse": ("block", "stop", "log", "redact"),
    "promptsubmit": ("block", "stop", "log"),
    "beforestep": ("stop", "log"),
    "afterinference": ("log", "redact"),
    "output": ("block", "log", "redact"),
}
"""Points where a rule can only forbid. Elsewhere it could continue a run (a block at `stop`), or change a call, or what
the user asks for: a prompt without its "not" says the opposite."""
_GIVE_TOOLS = frozenset({"bash", "files", "metadata", "skills", "subagents", "task_planning"})
"""Capabilities without which an agent can do less. The others guard it or limit it, so an untrusted project cannot
disable them. The capabilities themselves are a layer above; a test compares the two."""
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "beforetooluse": ("pretooluse", "beforetoolcall", "beforetool"),
    "aftertooluse": ("posttooluse", "aftertoolcall", "aftertool"),
    "promptsubmit": ("userpromptsubmit", "inputsubmitted"),
    "beforestep": ("stepstart",),
    "afterinference": ("postinference",),
}
"""Other names of these points. The lifecycle has them all, but is a layer above; a test compares the two."""
_POINTS = {name: point for point, names in _SPELLINGS.items() for name in names}
_UNRESTRICTIVE = frozenset(
    {
        "claude_settings", "description", "dialects", "errors", "journal", "limits", "mcp", "model", "model_options",
        "model_settings", "provider_tools", "system_prompt", "version",
    }
)  # fmt: skip
"""Settings without which an agent is no less guarded. Of limits, only higher ones wait for trust."""
_UNRESTRICTIVE_OPTIONS: dict[str, tuple[str, ...]] = {
    "approvals": ("allow", "expire_after"),
    "bash": ("max_chars", "name", "output_dir", "pass_env", "place", "sandbox", "show"),
    "files": ("fsync", "images", "ripgrep", "show"),
    "open_telemetry": ("content", "meter_provider", "name", "tracer_provider"),
    "run_log": ("name", "path"),
}
_OF_RULE = frozenset({"on", "match", "do", "reason", "name"})
_NEVER = frozenset({"base_url", "api_key", "headers"})


def keep_stricter(layer: Layer, below: dict[str, Any]) -> tuple[Layer, list[KeyPath]]:
    """Split a layer into settings that only make the agent stricter, and the rest, which waits for trust."""
    kept: dict[str, Any] = {}
    sources = dict(layer.sources)
    held: list[KeyPath] = []
    for path, value in leaves(layer.data):
        if path and path[0] == "hooks":
            if _is_strict_rule(value):
                hooks = kept.setdefault("hooks", [])
                sources["hooks", len(hooks)] = layer.where(path)  # its position in the file differs
                hooks.append(value)
                continue
        elif path[:-1] in _RULES:
            put(kept, path[:-1], [*(find(kept, path[:-1]) or ()), value])
            continue
        elif _is_stricter(path, value, below):
            put(kept, path, value)
            continue
        elif value == {} and path[0] == "capabilities" and path[1] in below.get("capabilities", {}):
            continue  # the capability is there already
        held.append(path)
    return msgspec.structs.replace(layer, data=kept, sources=sources), held


def is_restriction(path: KeyPath, value: Any, agent: str = "") -> bool:
    """Whether a setting that waits for trust may restrict the agent that is run. What is not known counts as such."""
    if path[0] == "agents":
        return path[1] == agent and len(path) > 2 and is_restriction(path[2:], value)
    if path[0] in _UNRESTRICTIVE:
        return False
    if path[0] == "hook_failures":
        return bool(value == "closed")
    if path == ("approvals", "mode"):
        return not _STRICTER[value]
    if path[0] == "approvals":
        return path[1] not in _UNRESTRICTIVE_OPTIONS["approvals"]
    if path[0] != "capabilities":
        return True
    name, option = path[1], path[2] if len(path) > 2 else ""
    if option == "enabled":
        return value is True and name not in _GIVE_TOOLS
    if name == "bash" and option == "policy":
        return path[3:4] not in (("allow",), ("programs",))
    if name in _UNRESTRICTIVE_OPTIONS:
        return option not in ("", *_UNRESTRICTIVE_OPTIONS[str(name)])
    return name not in _GIVE_TOOLS


def _is_strict_rule(hook: dict[str, Any]) -> bool:
    strict = _STRICT_RULES.get(_point_of(str(hook.get("on", ""))), ())
    if hook.get("do") not in strict or set(hook) - _OF_RULE:
        return False
    # A regular expression could run for ever, and keep the run from its limits.
    match = hook.get("match", "")
    said = [match] if isinstance(match, str) else [*match.get("args", {}).values(), *match.values()]
    return not any(isinstance(text, str) and text.startswith("/") for text in said)


def _point_of(text: str) -> str:
    """The main name of a point, for any of its spellings: `PreToolUse`, `before_tool`, `onOutput`."""
    name = text.replace("_", "").replace("-", "").lower()
    for spelling in (name, name.removeprefix("on")):
        point = _POINTS.get(spelling, spelling)
        if point in _STRICT_RULES:
            return point
    return name


def _is_stricter(path: KeyPath, value: Any, below: dict[str, Any]) -> bool:
    if path in _STRICT_OPTIONS:
        return bool(_STRICT_OPTIONS[path] == value)
    if path in _STRICTEST_FIRST:
        words, usual = _STRICTEST_FIRST[path]
        now = find(below, path) or usual
        return value in words and now in words and words.index(value) <= words.index(now)
    if path[0] == "capabilities" and len(path) == 3 and path[2] == "enabled":
        return value is False and path[1] in _GIVE_TOOLS
    if path == ("approvals", "mode"):
        return value in _STRICTER[find(below, path) or "default"]
    if path[0] == "limits" or path == ("approvals", "expire_after"):
        now = find(below, path)
        return now is None or value <= now
    return False


def refuse_endpoints(layer: Layer) -> None:
    """Refuse settings that no repository may set, trusted or not.

    These are the address and key of a model, the journal, and files outside the repository that commands may see.
    """
    for path, value in leaves(layer.data):
        outside = _outside(value) if path[:3] == ("capabilities", "bash", "show") else []
        if outside:
            raise ConfigError(
                f"{layer.where(path)}: a repository cannot show {', '.join(map(repr, outside))} to commands, "
                "only paths inside of it, such as '.env'.",
                remedy="Remove that path there. To show it, put it into your own file: ~/.config/hookline/config.toml.",
            )
        is_wire = "model_settings" in path and path[-1] in _NEVER
        if is_wire or path[0] == "journal":
            raise ConfigError(
                f"{layer.where(path)}: a repository cannot set '{write_path(path)}'.",
                remedy="Put it into your own file: ~/.config/hookline/config.toml.",
            )


def _outside(value: Any) -> list[str]:
    """The paths among these that lead out of the project."""
    paths = map(str, value if isinstance(value, list) else [value])
    return [path for path in paths if path.startswith(("/", "~")) or ".." in path.split("/")]
