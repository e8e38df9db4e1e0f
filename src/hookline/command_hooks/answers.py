"""What a hook said, in one form for all dialects."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import msgspec

Said: TypeAlias = Literal["", "allow", "ask", "defer", "deny"]
Status: TypeAlias = Literal["completed", "blocked", "failed", "timeout", "spawn_error"]

_ANSWERS = frozenset(
    {"continue", "stopReason", "suppressOutput", "systemMessage", "terminalSequence", "decision", "reason",
     "hookSpecificOutput", "async", "asyncTimeout"}
)  # fmt: skip
UNCHANGED: Any = msgspec.UNSET
"""No replacement; None is one."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's answer, understood. What it does depends on the point where the hook was asked."""

    decision: Said = ""
    reason: str = ""
    updated_input: dict[str, Any] | None = None
    merges_input: bool = False
    """The new input changes some keys, and does not replace all of them."""
    updated_output: Any = UNCHANGED
    contexts: tuple[str, ...] = ()
    """For the model."""
    messages: tuple[str, ...] = ()
    """For the user."""
    stops: bool = False
    stop_reason: str = ""
    env: dict[str, str] | None = None
    prompt: str = ""
    """A first message in the user's place."""
    title: str = ""
    """What the session is to be called."""
    terminal: str = ""
    """What the terminal is to be sent: a title, a notification, the bell."""
    display: str = ""
    """What is to be shown in the place of what the model has said."""
    extra: dict[str, Any] | None = None
    """What only one dialect knows: a changed request to the model, say."""
    status: Status = "completed"
    problem: str = ""
    """What went wrong, if it failed."""

    @property
    def has_failed(self) -> bool:
        """It gave no answer at all."""
        return self.status in ("failed", "timeout", "spawn_error")

    @property
    def is_silent(self) -> bool:
        """Nothing was decided, changed or said."""
        return self == _SILENT


_SILENT = Answer()


def failed(problem: str, status: Status = "failed") -> Answer:
    """A hook that gave no answer."""
    return Answer(status=status, problem=problem)


def json_object(text: str) -> dict[str, Any] | None:
    """The object that a text is, if its first letter that is not blank begins one and all of it is JSON."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith("{"):
        return None
    try:
        value = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_broken_object(text: str) -> bool:
    """Whether a text was meant to be an object and is none. Lines that are objects, and answer nothing, are a log."""
    stripped = text.strip().removeprefix("\ufeff")
    if (
        not (stripped.startswith("{") and stripped.endswith("}"))
        or json_object(stripped) is not None
    ):
        return False
    lines = [json_object(line) for line in stripped.splitlines() if line.strip()]
    return None in lines or any(_ANSWERS & line.keys() for line in lines if line is not None)


def text_of(value: object) -> str:
    """A field that should be text: what is none is not taken for it."""
    return value if isinstance(value, str) else ""


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def refuse_wrong_types(found: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> str:
    """What is wrong with an object whose fields should have these types; empty if nothing is."""
    for name, kinds in fields.items():
        if name in found and found[name] is not None and not isinstance(found[name], kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            return f"'{name}' is {type(found[name]).__name__}, and should be {wanted}"
    return ""
