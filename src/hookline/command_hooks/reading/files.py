"""Reading configuration files of others: what is wrong in one is told, and the rest of it stays in force."""

from __future__ import annotations

import json
import math
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from hookline.command_hooks.definition import Handler, Source
from hookline.command_hooks.dialects import DIALECTS
from hookline.errors import UsageError

Warn: TypeAlias = Callable[[str], None]
Make: TypeAlias = Callable[
    [Source, str, Mapping[str, Any], Mapping[str, Any], Warn], Handler | None
]
"""(source, event, group, hook as written, warn) -> the handler, or None if there is none."""


class Dropped(str):
    """A warning that a hook which somebody wrote is not in force."""

    __slots__ = ()


_LARGEST = 4 << 20
_COMMENTS = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)
"""What some files have that is no JSON: comments, and a comma after the last of a list. Texts are passed over.

What is never closed goes to the end: looking for its end again from each later place would take for ever."""


def about(label: str, warn: Warn) -> Warn:
    """Warnings about one file, which begin with its name."""
    return lambda said: warn(type(said)(f"{label}: {said}"))


def load_json(path: Path, warn: Warn) -> dict[str, Any] | None:
    """The object in a file; None if there is no such file, or none that can be read."""
    text = load_text(path, warn)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:  # once for comments, and once for the commas that these stood after
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


def nested(hooks: Any, source: Source, make: Make, warn: Warn) -> Iterator[Handler]:
    """The handlers of `{event: [{matcher, hooks: [...]}]}`. What does not fit is passed over, and told."""
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


def flat(hooks: Any, source: Source, make: Make, warn: Warn) -> Iterator[Handler]:
    """The handlers of `{event: [{command, matcher, ...}]}`."""
    if not isinstance(hooks, dict):
        warn("'hooks' is not an object, so it has none")
        return
    for event, entries in hooks.items():
        if is_event(source, event, warn):
            for hook in listed(entries, event, warn):
                yield from checked(make(source, event, hook, hook, warn), warn)


def is_event(source: Source, event: str, warn: Warn) -> bool:
    """Whether an event happens here; one that does not is told."""
    dialect = DIALECTS[source.dialect]
    if event in dialect.known:
        warn(f"{event} does not happen here, so its hooks never run")
    elif dialect.point(event) is None:
        warn(f"'{event}' is no event, so its hooks are left out")
    else:
        return True
    return False


def listed(value: Any, what: str, warn: Warn) -> Iterator[dict[str, Any]]:
    """The objects of a list; anything else is told."""
    if not isinstance(value, list):
        warn(Dropped(f"{what} is not a list, so it is left out"))
        return
    for each in value:
        if isinstance(each, dict):
            yield each
        else:
            warn(Dropped(f"{what} has an entry that is not an object, which is left out"))


def checked(handler: Handler | None, warn: Warn) -> Iterator[Handler]:
    """A handler whose matcher and rule can be read. A guard that is dropped is told loudly: it guards nothing."""
    if handler is None:
        return
    try:
        DIALECTS[handler.source.dialect].test(handler)
        if handler.rule:
            from hookline.command_hooks.rules import alternatives
            from hookline.permissions import Rule

            for rule in alternatives(handler.rule):
                Rule.parse(rule)
    except UsageError as error:
        warn(Dropped(f"{handler.event}: the hook '{handler.runs[:80]}' is left out: {error}"))
        return
    yield handler


def text_field(hook: Mapping[str, Any], key: str, default: str = "") -> str:
    """A field that is text; anything else is as if it were not there."""
    value = hook.get(key)
    return value if isinstance(value, str) else default


def texts_field(hook: Mapping[str, Any], key: str) -> dict[str, str]:
    """A field that has texts by name."""
    value = hook.get(key)
    if not isinstance(value, dict):
        return {}
    return {name: str(item) for name, item in value.items() if isinstance(item, str | int | float)}


def usual_shell() -> str:
    """The shell that people write their lines for, where a machine has it; else the plain one is taken."""
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
