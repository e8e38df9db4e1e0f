"""A driver that plays turns from a script: for tests and demonstrations, without a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from hookline.drivers.base import Turn
from hookline.drivers.script_file import read_turns
from hookline.errors import ScriptExhaustedError, UsageError
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
        return cls(
            [
                ScriptedTurn(
                    turn["say"],
                    tuple(ScriptedCall(tool, args) for tool, args in turn["calls"]),
                    turn["tokens"],
                )
                for turn in read_turns(path)
            ]
        )

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
