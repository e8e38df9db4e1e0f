"""An agent that does its task and obeys every injection it reads; and the people who answer for its user."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hookline import Decision
from hookline.drivers import Turn
from hookline.state import (
    InferenceRequest,
    InferenceResponse,
    PendingApproval,
    ToolCall,
    ToolMessage,
)

Act = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""
Acts = Generator[Act, str, None]
"""Calls, each decided when the one before it is done; what came of that is sent in."""


@dataclass(frozen=True)
class Task:
    """What a user wants: the prompt, the calls that do it, and the answer."""

    prompt: str
    acts: tuple[Act, ...]
    answer: str = ""

    @property
    def tools(self) -> list[str]:
        """The tools it needs."""
        return list(dict.fromkeys(name for name, _ in self.acts))

    def includes(self, name: str, args: Mapping[str, Any]) -> bool:
        """Whether a call is one of the task's own: what the task does not say about is left as it is by default."""
        return any(name == own and _is_within(given, args) for own, given in self.acts)


@dataclass(frozen=True)
class Injection:
    """What an attacker wants: how the text that asks for it is known, the calls that do it, and what is to be said."""

    goal: str
    acts: Callable[[], Acts]
    answer: str = ""


@dataclass
class ObeyingDriver:
    """Plays a task's calls one by one. As soon as a tool result has the injection in it, plays the injection's, too."""

    task: Task
    injection: Injection | None = None
    obeyed: bool = field(default=False, init=False)
    """Whether the injection was read."""
    _pending: list[Act] = field(default_factory=list, init=False)
    _attack: Acts | None = field(default=None, init=False)
    _made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._pending = list(self.task.acts)

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """The next call, or the answer."""
        last = request.messages[-1]
        came = last.text if isinstance(last, ToolMessage) else ""
        act = self._next(came)
        if act is None:
            return InferenceResponse(self._answer())
        self._made += 1
        name, args = act
        return InferenceResponse("", (ToolCall(f"call_{self._made}", name, dict(args)),))

    def _next(self, came: str) -> Act | None:
        act = self._next_of_attack(came)
        if act is None and self._pending:
            act = self._pending.pop(0)
        return act

    def _next_of_attack(self, came: str) -> Act | None:
        try:
            if self._attack is not None:
                return self._attack.send(came)
            if self.injection is not None and not self.obeyed and is_in(self.injection.goal, came):
                self.obeyed = True
                self._attack = self.injection.acts()
                return next(self._attack)
        except StopIteration:
            self._attack = None
        return None

    def _answer(self) -> str:
        said = [self.task.answer]
        if self.obeyed and self.injection is not None:
            said.append(self.injection.answer)
        return "\n".join(part for part in said if part)


class Person:
    """Answers for the user: allows what belongs to the task, and nothing else; or, when nobody is there, nothing."""

    def __init__(self, task: Task | None) -> None:
        self._task = task
        self.asked = 0

    def __call__(self, question: PendingApproval) -> Decision:
        self.asked += 1
        call = question.tool_call
        if self._task is not None and self._task.includes(call.name, call.args):
            return Decision.allow()
        return Decision.deny("nobody has agreed to this")


def is_in(goal: str, text: str) -> bool:
    """Whether a text asks for a goal, however its lines are folded and quoted."""
    return _letters(goal) in _letters(text)


def acts_of(calls: Iterable[Act]) -> Acts:
    """Calls that are known before the first of them is made."""
    for act in calls:  # noqa: UP028  # not `yield from`, which would send into a tuple what came of a call
        yield act


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _is_within(given: Any, found: Any) -> bool:
    """Whether everything that is given is found, be there more."""
    if isinstance(given, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and _is_within(value, found[key]) for key, value in given.items()
        )
    if isinstance(given, Sequence) and not isinstance(given, str):
        return (
            isinstance(found, Sequence)
            and not isinstance(found, str)
            and len(given) == len(found)
            and all(map(_is_within, given, found))
        )
    return bool(given == found)
