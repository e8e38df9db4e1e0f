"""Hookline's own form: a mapping, as it stands in a TOML table or in a program. Mistakes in it are errors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from hookline.command_hooks.definition import Handler, Level, Source
from hookline.command_hooks.dialects import DIALECTS
from hookline.errors import RegistrationError, UsageError
from hookline.lifecycle import ToolHookContext, point_named

_KEYS = (
    "on", "command", "argv", "url", "headers", "allowed_env", "matcher", "if", "timeout", "on_failure", "dialect",
    "name", "env", "cwd", "async",
)  # fmt: skip
_WITH_NAMES = ("session_start", "subagent_start", "subagent_stop")
"""Points without a tool call at which a matcher has something to look at: how the session began, or the child."""
_OLD = {"point": "on", "event": "on", "match": "matcher", "type": ""}


def read_hook(
    given: Mapping[str, Any], *, level: Level = Level.CODE, path: str = "", label: str = "hookline"
) -> Handler:
    """The handler that a mapping describes: `{"on": "before_tool_use", "command": "./check.sh", "matcher": "bash"}`."""
    where = f"{label}: the hook {dict(given)!r}" if isinstance(given, Mapping) else label
    if not isinstance(given, Mapping):
        raise RegistrationError(
            f"{label}: {given!r} is not a hook.", remedy="Write `on = ...` and `command = ...`."
        )
    spec = {_OLD.get(key, key): value for key, value in given.items() if _OLD.get(key, key)}
    for key in spec:
        if key not in _KEYS:
            close = difflib.get_close_matches(str(key), _KEYS, n=1, cutoff=0.5)
            raise RegistrationError(
                f"{where} has a key '{key}'.",
                remedy=f"Did you mean '{close[0]}'?" if close else f"Keys: {', '.join(_KEYS)}.",
            )
    dialect = spec.get("dialect", "hookline")
    if dialect not in DIALECTS:
        raise RegistrationError(
            f"{where}: the dialect {dialect!r} is not known.",
            remedy=f"Dialects: {', '.join(DIALECTS)}.",
        )
    handler = Handler(
        source=Source(dialect, level, path, label),
        event=_event(spec.get("on"), dialect, where),
        kind="http" if "url" in spec else "command",
        command=_text(spec, "command", where),
        argv=_words(spec, where),
        url=_text(spec, "url", where),
        headers=_texts(spec, "headers", where),
        allowed_env=tuple(spec.get("allowed_env", ())),
        matcher=_text(spec, "matcher", where),
        rule=_text(spec, "if", where),
        timeout=_seconds(spec, where),
        on_failure=_choice(spec, dialect, where),
        is_async=spec.get("async") is True,
        env=_texts(spec, "env", where),
        cwd=_text(spec, "cwd", where),
        label=_text(spec, "name", where),
        definition=dict(given),
    )
    _check(handler, where)
    return handler


def _check(handler: Handler, where: str) -> None:
    ways = [bool(handler.command.strip()), handler.argv is not None, bool(handler.url)]
    if sum(ways) != 1:
        raise RegistrationError(f"{where} needs one of command, argv and url, and has {sum(ways)}.")
    if (handler.matcher not in ("", "*") or handler.rule) and handler.source.dialect == "hookline":
        _check_subject(handler, where)
    try:
        DIALECTS[handler.source.dialect].test(handler)
        if handler.rule:
            from hookline.permissions import Rule

            Rule.parse(handler.rule)
    except UsageError as error:
        raise RegistrationError(f"{where}: {error.message}", remedy=error.remedy) from None


def _check_subject(handler: Handler, where: str) -> None:
    """What a hook is for must be something that there is: else it would always run, or never."""
    has_tool = issubclass(point_named(handler.event).context, ToolHookContext)
    if has_tool or (handler.event in _WITH_NAMES and not handler.rule):
        return
    raise RegistrationError(
        f"{where}: at {handler.event} there is no tool call that it could be for.",
        remedy="Leave that out, and let it look at its input itself.",
    )


def _event(on: object, dialect: str, where: str) -> str:
    points = DIALECTS[dialect].points
    if not isinstance(on, str) or not on:
        raise RegistrationError(
            f"{where} does not say when it runs.", remedy="Write on = 'before_tool_use', say."
        )
    if on in points:
        return on
    point = point_named(on, where)
    found = next((event for event, at in points.items() if at == point.value), None)
    if found is None:
        raise RegistrationError(
            f"{where}: hooks of the dialect {dialect} are not asked at {point.value}.",
            remedy=f"They are at: {', '.join(points)}.",
        )
    return found


def _text(spec: Mapping[str, Any], key: str, where: str) -> str:
    value = spec.get(key, "")
    if not isinstance(value, str):
        raise RegistrationError(f"{where}: {key} is {value!r}, which is not text.")
    return value


def _texts(spec: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    value = spec.get(key, {})
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise RegistrationError(
            f"{where}: {key} is {value!r}.", remedy="Give texts by their names."
        )
    return dict(value)


def _words(spec: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    if "argv" not in spec:
        return None
    words = spec["argv"]
    if (
        not isinstance(words, list | tuple)
        or not words
        or not all(isinstance(w, str) and w for w in words)
    ):
        raise RegistrationError(
            f"{where}: argv is {words!r}.", remedy="Give the program and its arguments in a list."
        )
    return tuple(words)


def _seconds(spec: Mapping[str, Any], where: str) -> float:
    value = spec.get("timeout", 60.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise RegistrationError(
            f"{where}: timeout is {value!r}.", remedy="Give seconds above zero."
        )
    return float(value)


def _choice(spec: Mapping[str, Any], dialect: str, where: str) -> Any:
    value = spec.get("on_failure", "closed" if dialect == "hookline" else "open")
    if value not in ("open", "closed"):
        raise RegistrationError(
            f"{where}: on_failure is {value!r}.", remedy="Use 'closed' or 'open'."
        )
    return value
