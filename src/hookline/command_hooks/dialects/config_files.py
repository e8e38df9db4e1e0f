"""Readers of configuration files, for all dialects: what is wrong is reported, and the rest stays in force."""

from __future__ import annotations

import json
import math
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import Handler, HookSearch, HookSource, Warn, shown_path
from hookline.errors import UsageError

Make: TypeAlias = Callable[
    [HookSource, str, Mapping[str, Any], Mapping[str, Any], Warn], Handler | None
]
"""(source, event, group, entry, warn) -> the hook; None for an entry that is none."""


class Dropped(str):
    """A warning that a hook is not in force."""

    __slots__ = ()


_LARGEST = 4 << 20
_COMMENTS = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)
"""What some files have that is no JSON: comments, and a comma after the last of a list. Strings are matched, too.

What is never closed matches to the end of the text: else the search would start again at each later place, and take
quadratic time."""


def about(label: str, warn: Warn) -> Warn:
    """Warnings about one file, which begin with its name."""
    return lambda said: warn(type(said)(f"{label}: {said}"))


def load_json(path: Path, warn: Warn) -> dict[str, Any] | None:
    """The object in a file; None if there is none that can be read."""
    text = load_text(path, warn)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:  # first the comments, then the commas before them
            found = json.loads(_COMMENTS.sub(_kept, _COMMENTS.sub(_kept, text)))
        except (ValueError, RecursionError):
            warn(Dropped(f"it is not valid JSON ({error}), so none of it is read"))
            return None
    if not isinstance(found, dict):
        warn(Dropped("it is not a JSON object, so none of it is read"))
        return None
    return found


def load_toml(path: Path, warn: Warn) -> dict[str, Any] | None:
    """The table in a file; None as for JSON."""
    text = load_text(path, warn)
    if text is None:
        return None
    import tomllib  # only where there is such a file

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        warn(Dropped(f"it is not valid TOML ({error}), so none of it is read"))
        return None


def load_text(path: Path, warn: Warn) -> str | None:
    """The text of a plain file that is not too large; None if there is none."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            warn(Dropped("it is not a plain file, so it is not read"))
            return None
        if facts.st_size > _LARGEST:
            warn(f"it is larger than {_LARGEST >> 20} MB, so it is not read")
            return None
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        warn(Dropped(f"it cannot be read ({error})"))
        return None


def _kept(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def nested(hooks: Any, source: HookSource, make: Make, warn: Warn) -> Iterator[Handler]:
    """The hooks of `{event: [{matcher, hooks: [...]}]}`. What does not fit is reported and skipped."""
    if not isinstance(hooks, dict):
        warn("'hooks' is not an object, so it has none")
        return
    for event, groups in hooks.items():
        if not is_event(source, event, warn):
            continue
        for group in listed(groups, event, warn):
            if not isinstance(group.get("matcher", ""), str | None):
                warn(f"{event}: a matcher is not text, so its hooks are left out")
                continue
            for hook in listed(group.get("hooks"), f"{event}: 'hooks'", warn):
                yield from checked(make(source, event, group, hook, warn), warn)


def flat(hooks: Any, source: HookSource, make: Make, warn: Warn) -> Iterator[Handler]:
    """The hooks of `{event: [{command, matcher, ...}]}`."""
    if not isinstance(hooks, dict):
        warn("'hooks' is not an object, so it has none")
        return
    for event, entries in hooks.items():
        if is_event(source, event, warn):
            for hook in listed(entries, event, warn):
                yield from checked(make(source, event, hook, hook, warn), warn)


def is_event(source: HookSource, event: str, warn: Warn) -> bool:
    """Whether an event happens here; one that does not is reported."""
    dialect = dialect_of(source)
    if event in dialect.unsupported:
        warn(f"{event} does not happen here, so its hooks never run")
    elif event not in dialect.points:
        warn(f"'{event}' is no event, so its hooks are left out")
    else:
        return True
    return False


def listed(value: Any, what: str, warn: Warn) -> Iterator[dict[str, Any]]:
    """The objects of a list; anything else is reported."""
    if not isinstance(value, list):
        warn(Dropped(f"{what} is not a list, so it is left out"))
        return
    for each in value:
        if isinstance(each, dict):
            yield each
        else:
            warn(Dropped(f"{what} has an entry that is not an object, which is left out"))


def checked(handler: Handler | None, warn: Warn) -> Iterator[Handler]:
    """A hook whose matcher and rule can be read. One that is dropped is reported: it guards nothing."""
    if handler is None:
        return
    try:
        dialect_of(handler).matcher(handler)
        if handler.rule:
            from hookline.command_hooks.permission_rules import check_rule  # takes a while to load

            check_rule(handler.rule)
    except UsageError as error:
        warn(Dropped(f"{handler.event}: the hook '{handler.runs[:80]}' is left out: {error}"))
        return
    yield handler


def text_field(hook: Mapping[str, Any], key: str, default: str = "") -> str:
    """A field that is text; anything else is ignored."""
    value = hook.get(key)
    return value if isinstance(value, str) else default


def texts_field(hook: Mapping[str, Any], key: str) -> dict[str, str]:
    """A field with texts by name."""
    value = hook.get(key)
    if not isinstance(value, dict):
        return {}
    return {name: str(item) for name, item in value.items() if isinstance(item, str | int | float)}


def inside(root: Path, name: str, warn: Warn) -> Path | None:
    """A file that a plugin's manifest names; None, with a warning, if it is outside of the plugin."""
    path = root / name
    if path.resolve().is_relative_to(root.resolve()):
        return path
    warn(f"its hooks are to be outside of it, at '{name}', so they are not read")
    return None


def manifest_of(root: Path, names: Iterable[str], warn: Warn) -> dict[str, Any]:
    """The first manifest of a plugin that there is; empty if there is none."""
    return next(filter(None, (load_json(root / each, warn) for each in names)), {})


def about_plugin(root: Path, search: HookSearch) -> Warn:
    """Warnings about a plugin, which begin with its directory."""
    return about(shown_path(root, search.project, search.home), search.warn)


def usual_shell() -> str:
    """bash, if the machine has it; else empty, for the plain shell."""
    return "bash" if shutil.which("bash") else ""


def seconds_field(
    hook: Mapping[str, Any], default: float, warn: Warn, *, key: str = "timeout", unit: float = 1.0
) -> float:
    """A time in seconds."""
    value = hook.get(key)
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        warn(f"{key}={value!r} is not a time, so {default:g} s is taken")
        return default
    return float(value) * unit
