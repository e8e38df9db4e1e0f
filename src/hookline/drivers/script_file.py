"""Turns of a script, read from a JSON file."""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

from hookline.drivers.fold import mended
from hookline.errors import BuildError, NotJSONError
from hookline.state import freeze_dict

_FORMS = '{"say": "..."}, {"call": "TOOL", "args": {...}} or {"calls": [{"call": ...}, ...]}'
_OF_TURN = frozenset({"say", "call", "args", "calls", "tokens"})
_OF_CALL = frozenset({"call", "args"})


class Problem(Exception):
    """What is wrong with a script, and where in it."""


def read_turns(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The turns in a file, each as `{"say": text, "calls": [(tool, args), ...], "tokens": n}`."""
    where = os.fspath(path)
    if not where:
        _refuse("no file is named for the script")
    try:
        with open(path, encoding="utf-8") as file:
            turns = json.load(file)
        if not isinstance(turns, list):
            raise Problem("is not a list of turns")
        return [_turn(turn, f"turn {number}") for number, turn in enumerate(turns, start=1)]
    except OSError as error:
        _refuse(f"the script '{where}' cannot be read: {error.strerror or error}")
    except json.JSONDecodeError as error:
        _refuse(f"the script '{where}', line {error.lineno}, column {error.colno}: {error.msg}")
    except (UnicodeDecodeError, RecursionError) as error:
        _refuse(f"the script '{where}' is not JSON: {error}")
    except Problem as error:
        _refuse(f"the script '{where}' {error}")


def _refuse(problem: str) -> NoReturn:
    raise BuildError(f"{problem}.", remedy=f"A script is a list of turns: {_FORMS}.") from None


def _turn(turn: Any, where: str) -> dict[str, Any]:
    _check_keys(turn, _OF_TURN, where)
    if "call" in turn and "calls" in turn:
        raise Problem(f"has 'call' and 'calls' in {where}")
    if "args" in turn and "call" not in turn:
        raise Problem(f"has 'args' without a 'call' in {where}")
    made = (
        [_call({key: turn[key] for key in _OF_CALL & turn.keys()}, where)] if "call" in turn else []
    )
    if "calls" in turn:
        listed = _typed(turn["calls"], list, f"'calls' in {where}", "a list")
        made = [_call(each, f"{where}, call {n}") for n, each in enumerate(listed, start=1)]
    if "say" not in turn and not made:
        raise Problem(f"neither says nor calls anything in {where}")
    tokens = _typed(turn.get("tokens", 0), int, f"'tokens' in {where}", "a whole number")
    if tokens < 0:
        raise Problem(f"has 'tokens' below zero in {where}")
    say = _typed(turn.get("say", ""), str, f"'say' in {where}", "text")
    return {"say": mended(say), "calls": made, "tokens": tokens}


def _call(call: Any, where: str) -> tuple[str, dict[str, Any]]:
    _check_keys(call, _OF_CALL, where)
    if "call" not in call:
        raise Problem(f"has no 'call' in {where}")
    tool = _typed(call["call"], str, f"'call' in {where}", "a tool's name")
    args = _typed(call.get("args", {}), dict, f"'args' in {where}", "an object")
    try:
        return tool, freeze_dict(args, "an argument")
    except NotJSONError as error:
        raise Problem(f"has wrong 'args' in {where}: {error.message.rstrip('.')}") from None


def _check_keys(value: Any, known: frozenset[str], where: str) -> None:
    if not isinstance(value, dict):
        raise Problem(f"has something that is not an object in {where}")
    for key in value:
        if key not in known:
            raise Problem(f"has the unknown key {key!r} in {where}")


def _typed(value: Any, kind: type, what: str, name: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Problem(f"has {what} that is not {name}")
    return value
