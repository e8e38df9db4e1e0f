"""Whether what a file says means something: every key known, every value of its type, or an error that says where."""

from __future__ import annotations

import difflib
import math
from functools import cache
from typing import Any, get_args, get_origin

import msgspec

from hookline.config.lines import Path
from hookline.config.schema import Configuration, HookSettings, McpSettings

_IN_PYPROJECT = (
    "Only in pyproject.toml do settings stand under [tool.hookline]; leave that out here."
)


class Wrong(Exception):
    """What is wrong at a place, and what to do about it."""

    def __init__(self, path: Path, problem: str, remedy: str = "") -> None:
        self.path = path
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem)


def check(data: Any, kind: Any = Configuration, path: Path = ()) -> None:
    """Raise Wrong for the first thing in data that is not as its type says."""
    kind = _without_none(kind)
    parts = _parts(kind)
    table = _table_in(kind)
    if table is not None and (kind is table or isinstance(data, dict)):
        _check_table(data, table, path)
    elif parts == "tables" and isinstance(data, dict):
        for name, each in data.items():
            check(each, get_args(kind)[1], (*path, name))
    elif parts == "list" and isinstance(data, dict):
        raise Wrong(path, "is one table, and should be a list of them", _as_table((*path, 0)))
    elif parts in ("list", "words") and isinstance(data, list):
        for position, each in enumerate(data):
            check(each, get_args(kind)[0], (*path, position))
    else:
        _check_value(data, kind, path)


def _without_none(kind: Any) -> Any:
    """What a value may be that is there at all."""
    rest = [part for part in get_args(kind) if part is not type(None)]
    is_option = len(rest) == 1 and len(get_args(kind)) == 2
    return rest[0] if is_option else kind


def _table_in(kind: Any) -> Any:
    """The table that a type is, or may be."""
    if _is_table(kind):
        return kind
    if get_origin(kind) is tuple or get_origin(kind) is dict:
        return None
    return next((part for part in get_args(kind) if _is_table(part)), None)


def _as_table(path: Path) -> str:
    """How the table is begun."""
    names = [str(part) for part in path if isinstance(part, str)]
    brackets = ("[[", "]]") if isinstance(path[-1], int) else ("[", "]")
    return f"Write {brackets[0]}{'.'.join(names)}{brackets[1]}."


def _parts(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is dict and (_is_table(args[1]) or get_origin(args[1]) is dict):
        return "tables"
    if origin is tuple and _is_table(args[0]):
        return "list"
    return "words" if origin is tuple and _literals(args[0]) else ""


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _check_table(data: Any, kind: type[msgspec.Struct], path: Path) -> None:
    if not isinstance(data, dict):
        raise Wrong(path, f"is {_shown(data)}, and should be a table", _as_table(path))
    known = _fields(kind)
    for name, value in data.items():
        if name not in known:
            remedy = _IN_PYPROJECT if (*path, name) == ("tool",) else _closest(name, list(known))
            raise Wrong((*path, name), "is not a setting", remedy)
        check(value, known[name], (*path, name))
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in data:
            raise Wrong(path, f"has no '{field.name}'", f"Say {field.name} = ... in it.")
    if kind is HookSettings:
        _check_hook(data, path)
    if kind is McpSettings and data.get("enabled", True):
        _one_of(data, ("command", "url"), path, "An MCP server is a program or an address.")


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def _check_hook(data: dict[str, Any], path: Path) -> None:
    kinds = "It is a Python function (run), a command, an address (url) or a rule (do)."
    _one_of(data, ("run", "command", "url", "do"), path, kinds)
    for name, needs in (("env", "command"), ("headers", "url"), ("reason", "do")):
        if name in data and needs not in data:
            raise Wrong((*path, name), f"goes with '{needs}', which this hook does not have")
    url = str(data.get("url", "http://"))
    if not url.startswith(("http://", "https://")):
        raise Wrong((*path, "url"), f"is {_shown(url)}", "Begin it with http:// or https://.")
    if data.get("do") in ("block", "ask", "stop") and not data.get("reason"):
        raise Wrong(
            path,
            f"is a rule to {data['do']} without a reason",
            'Say reason = "...": the model, or whoever is asked, reads it.',
        )


def _one_of(data: dict[str, Any], names: tuple[str, ...], path: Path, kinds: str) -> None:
    given = [name for name in names if name in data]
    if len(given) != 1:
        said = " and ".join(f"'{name}'" for name in given) or "none of " + ", ".join(names)
        raise Wrong(path, f"has {said}", kinds)


def _check_value(data: Any, kind: Any, path: Path) -> None:
    if get_origin(kind) is dict and not isinstance(data, dict) and path:
        raise Wrong(path, f"is {_shown(data)}, and should be a table", _as_table(path))
    if isinstance(data, float) and not math.isfinite(data):
        raise Wrong(path, f"is {data}", "Give a number, or leave it out.")
    try:
        msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        what, _, inside = str(error).partition(" - at `$")
        inside = inside.rstrip("`")
        if isinstance(data, dict) and "unknown field" in what:
            raise Wrong(
                path, f"has a key that is not known: {what.partition('`')[2].rstrip('`')}"
            ) from None
        where = f" at {inside}" if inside else ""
        raise Wrong(
            path, f"is {_shown(data)}{where}: {_plain(what)}", _choices(kind, data)
        ) from None


def _plain(message: str) -> str:
    message = message.replace(" | null", "")
    if message.startswith("Invalid enum value"):
        return "that is not one of its values"
    for theirs, ours in (
        ("Expected ", "expected "),
        ("`str | array`", "text or a list"),
        ("`str | object`", "text or a table"),
        ("`str`", "text"),
        ("`int`", "a whole number"),
        ("`float`", "a number"),
        ("`bool`", "true or false"),
        ("`array`", "a list"),
        ("`object`", "a table"),
        ("`null`", "nothing"),
    ):
        message = message.replace(theirs, ours)
    return message


def _choices(kind: Any, data: Any) -> str:
    """For a word out of a few: which they are."""
    words = [word for word in _literals(kind) if isinstance(word, str)]
    if not words:
        return ""
    return (
        _closest(str(data), words) if isinstance(data, str) else f"Use one of: {', '.join(words)}."
    )


def _literals(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is not None and type(None) in get_args(kind):
        return tuple(word for part in get_args(kind) for word in _literals(part))
    return get_args(kind) if "Literal" in str(get_origin(kind)) else ()


def _closest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(known)}."


def _shown(value: Any) -> str:
    shown = "true" if value is True else "false" if value is False else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
