"""Checks what a configuration says against the schema. An error names the setting, the problem and the fix."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec

from hookline.config.schema import AgentSettings, Configuration, KeyPath, McpSettings

_IN_PYPROJECT = "[tool.hookline] is only for pyproject.toml: leave it out here."
_TABLES_BY_NAME = {"agents": AgentSettings, "mcp": McpSettings, "capabilities": dict[str, Any]}
"""Tables whose keys the user chooses. msgspec does not report such a key, so each is checked by itself."""
_FREE = ("capabilities", "model_options")
"""Settings whose values are checked where they are used."""
_IN_WORDS = {
    "Expected ": "expected ",
    " | null": "",
    "`str | array`": "text or a list",
    "`str | object`": "text or a table",
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a table",
    "`null`": "nothing",
}


class InvalidSetting(Exception):
    """A setting that is wrong, and how to fix it."""

    def __init__(self, path: KeyPath, problem: str, remedy: str = "") -> None:
        self.path = path
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem)


def suggest(name: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """Ask whether the closest known name was meant; without a close one, list them all (or say `otherwise`)."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"There are: {', '.join(names)}." if otherwise is None else otherwise


def check(data: Any, kind: Any = Configuration, path: KeyPath = ()) -> None:
    """Raise InvalidSetting for something in the data that is not as its type says."""
    if isinstance(data, dict) and kind in (Configuration, AgentSettings):
        for name, inner in _TABLES_BY_NAME.items():
            tables = data.get(name)
            for key, table in tables.items() if isinstance(tables, dict) else ():
                check(table, inner, (*path, name, key))
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _explain(error, data, kind, path) from None
    if kind is McpSettings and data.get("enabled", True):
        _check_one_of(data, ("command", "url"), path, "An MCP server is a program or an address.")
    if kind in (Configuration, AgentSettings):
        for position, hook in enumerate(data.get("hooks", ())):
            _check_hook(hook, (*path, "hooks", position))
        for where, number in _numbers(data, path):
            if not math.isfinite(number):
                raise InvalidSetting(where, f"is {number}", "Give a number, or leave it out.")


def _numbers(data: Any, path: KeyPath) -> Iterator[tuple[KeyPath, float]]:
    if isinstance(data, float):
        yield path, data
    elif isinstance(data, dict):
        for name, value in data.items():
            if name not in _FREE:
                yield from _numbers(value, (*path, name))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield from _numbers(value, (*path, position))


def _check_hook(hook: dict[str, Any], path: KeyPath) -> None:
    kinds = "It is a Python function (run), a command, an address (url) or a rule (do)."
    _check_one_of(hook, ("run", "command", "url", "do"), path, kinds)
    for name, needs in (("env", "command"), ("headers", "url"), ("reason", "do")):
        if name in hook and needs not in hook:
            problem = f"goes with '{needs}', which this hook does not have"
            raise InvalidSetting((*path, name), problem)
    url = str(hook.get("url", "http://"))
    if not url.startswith(("http://", "https://")):
        remedy = "Begin it with http:// or https://."
        raise InvalidSetting((*path, "url"), f"is {_shorten(url)}", remedy)
    if hook.get("do") in ("block", "ask", "stop") and not hook.get("reason"):
        raise InvalidSetting(
            path,
            f"is a rule to {hook['do']} without a reason",
            'Add reason = "...": the model, or the person who is asked, reads it.',
        )


def _check_one_of(data: dict[str, Any], names: tuple[str, ...], path: KeyPath, remedy: str) -> None:
    given = [name for name in names if name in data]
    if len(given) != 1:
        words = " and ".join(f"'{name}'" for name in given) or "none of " + ", ".join(names)
        raise InvalidSetting(path, f"has {words}", remedy)


# --- from msgspec's messages to ours ------------------------------------------------------------------


def _explain(error: Exception, data: Any, kind: Any, path: KeyPath) -> InvalidSetting:
    message, _, place = str(error).partition(" - at `$")
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", place.partition("[...]")[0])
    for name, position in steps:
        data = data[name or int(position)]
        kind = _field(kind, name) if name else kind
        path = (*path, name or int(position))
    field = message.partition("`")[2].rstrip("`")
    table = _table_in(kind)
    if "unknown field" in message:
        known = [each.name for each in msgspec.structs.fields(table)]
        path = (*path, field)
        remedy = _IN_PYPROJECT if path == ("tool",) else suggest(field, known)
        return InvalidSetting(path, "is not a setting", remedy)
    if "missing required field" in message:
        return InvalidSetting(path, f"has no '{field}'", f"Add {field} = ... to it.")
    if message.startswith("Expected `object`") and not place.endswith("[...]`"):
        problem = f"is {_shorten(data)}, and should be a table"
        return InvalidSetting(path, problem, _table_header(path))
    if message.startswith("Expected `array`") and isinstance(data, dict) and table is not None:
        problem = "is one table, and should be a list of them"
        return InvalidSetting(path, problem, _table_header((*path, 0)))
    return InvalidSetting(
        path, f"is {_shorten(data)}: {_translate_message(message)}", _choices(kind, data)
    )


def _field(kind: Any, name: str) -> Any:
    fields = {field.name: field.type for field in msgspec.structs.fields(_table_in(kind))}
    return fields[name]


def _table_in(kind: Any) -> Any:
    """The table that a type is or contains, as in `tuple[HookSettings, ...]`; None if there is none."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    found = (_table_in(part) for part in get_args(kind))
    return next((table for table in found if table is not None), None)


def _table_header(path: KeyPath) -> str:
    names = ".".join(part for part in path if isinstance(part, str))
    return f"Write [[{names}]]." if isinstance(path[-1], int) else f"Write [{names}]."


def _translate_message(message: str) -> str:
    if message.startswith("Invalid enum value"):
        return "that is not one of its values"
    for theirs, ours in _IN_WORDS.items():
        message = message.replace(theirs, ours)
    return message


def _choices(kind: Any, data: Any) -> str:
    """For a setting that is one of a few words: which they are."""
    words = _literals(kind)
    if not words:
        return ""
    return suggest(data, words) if isinstance(data, str) else f"Use one of: {', '.join(words)}."


def _literals(kind: Any) -> list[str]:
    parts = get_args(kind)
    return [part for part in parts if isinstance(part, str)] or [
        word for part in parts for word in _literals(part)
    ]


def _shorten(value: Any) -> str:
    shown = "true" if value is True else "false" if value is False else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
