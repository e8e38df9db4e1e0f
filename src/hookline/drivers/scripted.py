"""A driver that plays turns from a script: for tests and demonstrations, without a model or a key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn, TypeAlias

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


class Scripted(msgspec.Struct, frozen=True):
    """A turn of a script, as `say(...)`, `call(...)` and `calls(...)` make it."""


class ScriptedCall(Scripted, frozen=True):
    """A tool call in a script. Its id is given when it is played, so that it is unique each time."""

    tool: str
    args: dict[str, Any]
    tokens: int = 0


class ScriptedTurn(Scripted, frozen=True):
    """One turn of a script: text, calls, or both."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    tokens: int = 0


Turnlike: TypeAlias = Scripted | BaseException | Callable[[AgentState], Any]


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
                remedy="Add a turn to the script, or find out why the run continued.",
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
    return InferenceResponse(
        text=turn.text, calls=made, usage=Usage(output_tokens=tokens, requests=1), model=_NAME
    )


def _check(turn: object, position: int) -> None:
    known = isinstance(turn, ScriptedTurn | ScriptedCall | BaseException) or callable(turn)
    if not known or isinstance(turn, type):
        raise UsageError(
            f"turn {position + 1} of the script is {turn!r}.",
            remedy="Use say(...), call(...), calls(...), an exception instance, or a function of the state.",
        )


# --- a script in a file ---------------------------------------------------------------------------------

_FORMS = '{"say": "..."}, {"call": "TOOL", "args": {...}} or {"calls": [{"call": ...}, ...]}'


class _FileCall(msgspec.Struct, forbid_unknown_fields=True):
    call: str
    args: dict[str, Any] = {}

    def convert(self) -> ScriptedCall:
        return ScriptedCall(self.call, freeze_dict(self.args, "an argument"))


class _FileTurn(msgspec.Struct, forbid_unknown_fields=True):
    say: str | None = None
    call: str | None = None
    args: dict[str, Any] | None = None
    calls: list[_FileCall] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0)] = 0

    def convert(self) -> ScriptedTurn:
        if self.call is not None and self.calls is not None:
            raise ValueError("it has 'call' and 'calls'")
        if self.args is not None and self.call is None:
            raise ValueError("it has 'args' without a 'call'")
        made = self.calls or []
        if self.call is not None:
            made = [_FileCall(self.call, self.args or {})]
        if self.say is None and not made:
            raise ValueError("it neither says nor calls anything")
        calls = tuple(each.convert() for each in made)
        return ScriptedTurn(join_halves(self.say or ""), calls, self.tokens)


def _read_turns(path: str | os.PathLike[str]) -> list[ScriptedTurn]:
    where = f"the script '{os.fspath(path)}'"
    if not os.fspath(path):
        _refuse("no file is named for the script")
    try:
        with open(path, encoding="utf-8") as file:
            turns = json.load(file)
    except OSError as error:
        _refuse(f"{where} cannot be read: {error.strerror or error}")
    except json.JSONDecodeError as error:
        _refuse(f"{where}, line {error.lineno}, column {error.colno}: {error.msg}")
    except (UnicodeDecodeError, RecursionError) as error:
        _refuse(f"{where} is not JSON: {error}")
    if not isinstance(turns, list):
        _refuse(f"{where} is not a list of turns")
    read = []
    for number, turn in enumerate(turns, start=1):
        try:
            read.append(msgspec.convert(turn, _FileTurn).convert())
        except (ValueError, NotJSONError) as error:  # a ValidationError is a ValueError
            problem = error.message if isinstance(error, NotJSONError) else str(error)
            _refuse(f"{where}, turn {number}: {problem.rstrip('.')}")
    return read


def _refuse(problem: str) -> NoReturn:
    raise BuildError(f"{problem}.", remedy=f"A script is a list of turns: {_FORMS}.") from None
