"""A driver that plays turns from a script: for tests and demonstrations, without a model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import msgspec

from hookline.drivers.base import Turn
from hookline.errors import BuildError, NotJSONError, ScriptExhaustedError, UsageError
from hookline.providers.json_text import join_halves
from hookline.state import (
    AgentState,
    InferenceRequest,
    InferenceResponse,
    ToolCall,
    Usage,
    freeze_dict,
)

_NAME = "scripted"


class ScriptedCall(msgspec.Struct, frozen=True):
    """A tool call in a script. Its id is given when it is played, so that it is unique each time."""

    tool: str
    args: dict[str, Any]
    tokens: int = 0


class ScriptedTurn(msgspec.Struct, frozen=True):
    """One turn of a script: text, calls, or both."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    tokens: int = 0


Turnlike: TypeAlias = ScriptedTurn | ScriptedCall | BaseException | Callable[[AgentState], Any]


def say(text: str, *, tokens: int = 0) -> ScriptedTurn:
    """The model answers with text."""
    return ScriptedTurn(text, (), tokens)


def call(tool: str, /, *, tokens: int = 0, **args: Any) -> ScriptedCall:
    """The model calls one tool."""
    return ScriptedCall(
        tool, freeze_dict(args, f"an argument of the scripted call to '{tool}'"), tokens
    )


def calls(*each: ScriptedCall, tokens: int = 0) -> ScriptedTurn:
    """The model calls several tools in one step."""
    for one in each:
        if not isinstance(one, ScriptedCall):
            raise UsageError(
                f"calls(...) takes calls, not {one!r}.", remedy="Write calls(call(...), call(...))."
            )
    return ScriptedTurn("", each, tokens)


class ScriptedDriver:
    """Plays a list of turns, one per inference, and keeps every request it was sent in `requests`.

    A turn is `say(...)`, `call(...)`, `calls(...)`, an exception (the inference raises it), or a function
    of the state that returns one of these.
    """

    model = _NAME
    """As it is called before it has answered, too."""

    def __init__(self, turns: Sequence[Turnlike]) -> None:
        self.turns = list(turns)
        self.requests: list[InferenceRequest] = []
        for position, turn in enumerate(self.turns):
            _check(turn, position)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> ScriptedDriver:
        """A script in JSON: `[{"call": "bash", "args": {...}}, {"calls": [...]}, {"say": "..."}]`."""
        return cls(_read_turns(path))

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """The next turn of the script."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self.turns):
            raise ScriptExhaustedError(
                f"the script has {len(self.turns)} turn{'s' * (len(self.turns) != 1)}, "
                f"and the agent asked for turn {number + 1}.",
                remedy="Add a turn to the script, or find out why the run went on.",
            )
        played: Any = self.turns[number]
        while callable(played) and not isinstance(played, BaseException):
            played = played(turn.state)
            _check(played, number)
        if isinstance(played, BaseException):
            raise played
        response = _response(played, len(turn.state.steps))
        if response.text:
            turn.emit_text(response.text)
        return response


def _response(turn: ScriptedTurn | ScriptedCall, step: int) -> InferenceResponse:
    if isinstance(turn, ScriptedCall):
        turn = ScriptedTurn("", (turn,))
    tokens = turn.tokens + sum(each.tokens for each in turn.calls)
    made = tuple(
        ToolCall(f"call_{step + 1}_{position + 1}", each.tool, each.args)
        for position, each in enumerate(turn.calls)
    )
    return InferenceResponse(turn.text, made, Usage(output_tokens=tokens, requests=1), _NAME)


def _check(turn: object, position: int) -> None:
    known = isinstance(turn, ScriptedTurn | ScriptedCall | BaseException) or callable(turn)
    if not known or isinstance(turn, type):
        raise UsageError(
            f"turn {position + 1} of the script is {turn!r}.",
            remedy="Use say(...), call(...), calls(...), an exception instance, or a function of the state.",
        )


# --- a script in a file ---------------------------------------------------------------------------------

_FORMS = '{"say": "..."}, {"call": "TOOL", "args": {...}} or {"calls": [{"call": ...}, ...]}'
_OF_TURN = frozenset({"say", "call", "args", "calls", "tokens"})
_OF_CALL = frozenset({"call", "args"})


class _Problem(Exception):
    """What is wrong with a script, and where in it."""


def _read_turns(path: str | os.PathLike[str]) -> list[ScriptedTurn]:
    where = os.fspath(path)
    if not where:
        _refuse("no file is named for the script")
    try:
        with open(path, encoding="utf-8") as file:
            turns = json.load(file)
        if not isinstance(turns, list):
            raise _Problem("is not a list of turns")
        return [_turn(turn, f"turn {number}") for number, turn in enumerate(turns, start=1)]
    except OSError as error:
        _refuse(f"the script '{where}' cannot be read: {error.strerror or error}")
    except json.JSONDecodeError as error:
        _refuse(f"the script '{where}', line {error.lineno}, column {error.colno}: {error.msg}")
    except (UnicodeDecodeError, RecursionError) as error:
        _refuse(f"the script '{where}' is not JSON: {error}")
    except _Problem as error:
        _refuse(f"the script '{where}' {error}")


def _refuse(problem: str) -> NoReturn:
    raise BuildError(f"{problem}.", remedy=f"A script is a list of turns: {_FORMS}.") from None


def _turn(turn: Any, where: str) -> ScriptedTurn:
    _check_keys(turn, _OF_TURN, where)
    if "call" in turn and "calls" in turn:
        raise _Problem(f"has 'call' and 'calls' in {where}")
    if "args" in turn and "call" not in turn:
        raise _Problem(f"has 'args' without a 'call' in {where}")
    made = (
        [_call({key: turn[key] for key in _OF_CALL & turn.keys()}, where)] if "call" in turn else []
    )
    if "calls" in turn:
        listed = _typed(turn["calls"], list, f"'calls' in {where}", "a list")
        made = [_call(each, f"{where}, call {n}") for n, each in enumerate(listed, start=1)]
    if "say" not in turn and not made:
        raise _Problem(f"neither says nor calls anything in {where}")
    tokens = _typed(turn.get("tokens", 0), int, f"'tokens' in {where}", "a whole number")
    if tokens < 0:
        raise _Problem(f"has 'tokens' below zero in {where}")
    say = _typed(turn.get("say", ""), str, f"'say' in {where}", "text")
    return ScriptedTurn(join_halves(say), tuple(made), tokens)


def _call(call: Any, where: str) -> ScriptedCall:
    _check_keys(call, _OF_CALL, where)
    if "call" not in call:
        raise _Problem(f"has no 'call' in {where}")
    tool = _typed(call["call"], str, f"'call' in {where}", "a tool's name")
    args = _typed(call.get("args", {}), dict, f"'args' in {where}", "an object")
    try:
        return ScriptedCall(tool, freeze_dict(args, "an argument"))
    except NotJSONError as error:
        raise _Problem(f"has wrong 'args' in {where}: {error.message.rstrip('.')}") from None


def _check_keys(value: Any, known: frozenset[str], where: str) -> None:
    if not isinstance(value, dict):
        raise _Problem(f"has something that is not an object in {where}")
    for key in value:
        if key not in known:
            raise _Problem(f"has the unknown key {key!r} in {where}")


def _typed(value: Any, kind: type, what: str, name: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Problem(f"has {what} that is not {name}")
    return value
