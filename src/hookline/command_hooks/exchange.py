"""What passes between us and a hook: facts about the run go in, the end of a program and its answer come out."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import Any, Literal, TypeAlias

import msgspec

from hookline.state import AgentState

HOOK_AGENT = "hook-agent"
"""The agent that answers for a hook. Hooks that ask a model are not asked about it: that would never end."""
TITLE = "hookline.title"
"""The metadata key of the title that a hook gave the session."""
_NAMESPACE = uuid.UUID("8f6d3c1e-2b7a-4f55-9d0e-6c1a5b0e7a42")
AnswerWord: TypeAlias = Literal["", "allow", "ask", "defer", "deny"]
AnswerStatus: TypeAlias = Literal["completed", "blocked", "failed", "timeout", "spawn_error"]

UNCHANGED: Any = msgspec.UNSET
"""No replacement; None is one."""


class RunFacts(msgspec.Struct, frozen=True):
    """Where a run happens, and how far it is."""

    project: str
    cwd: str
    session_id: str
    transcript: str = ""
    permission_mode: str = "default"
    model: str = ""
    env_file: str = ""
    child_transcript: str = ""
    objections: int = 0
    """How often hooks have kept the run, or the child in question, from stopping."""
    objections_in_a_row: int = 0
    """How many of these since a tool was last called."""

    @property
    def session_uuid(self) -> str:
        """The session as a UUID. Scripts tell sessions apart by its first letters, which in ours are the time."""
        return as_uuid(self.session_id)


class ProgramResult(msgspec.Struct, frozen=True):
    """How a program ended. `code` is None if it did not end by itself."""

    code: int | None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    problem: str = ""
    """`timeout`, `spawn_error`, or empty."""
    detail: str = ""
    """More about the problem, or how a request failed, which has no exit code."""
    is_cut: bool = False
    """There was more output than is kept."""


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's answer. What it does depends on the point where the hook was asked."""

    decision: AnswerWord = ""
    reason: str = ""
    updated_input: dict[str, Any] | None = None
    updated_output: Any = UNCHANGED
    contexts: tuple[str, ...] = ()
    """For the model."""
    messages: tuple[str, ...] = ()
    """For the user."""
    stops: bool = False
    stop_reason: str = ""
    env: dict[str, str] | None = None
    prompt: str = ""
    """A first message in place of the user's."""
    title: str = ""
    """A new title of the session."""
    terminal: str = ""
    """A control sequence for the terminal: a title, a notification, the bell."""
    display: str = ""
    """Text to show in place of the model's."""
    rules: tuple[str, ...] = ()
    """Permission rules that an `allow` grants for the session."""
    clears_context: bool = False
    """The conversation so far is dropped."""
    extra: dict[str, Any] | None = None
    """Fields that only the dialect itself understands."""
    status: AnswerStatus = "completed"
    problem: str = ""
    """What went wrong, if the hook failed."""

    @property
    def has_failed(self) -> bool:
        """It gave no answer at all."""
        return self.status in ("failed", "timeout", "spawn_error")

    @property
    def is_silent(self) -> bool:
        """Nothing was decided, changed or said."""
        return self == _SILENT


_SILENT = HookAnswer()


def failed(problem: str, status: AnswerStatus = "failed") -> HookAnswer:
    """The answer of a hook that gave none."""
    return HookAnswer(status=status, problem=problem)


def denied(reason: str, **more: Any) -> HookAnswer:
    """The answer of a hook that refuses."""
    return HookAnswer(decision="deny", reason=reason, status="blocked", **more)


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it is anything else."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith("{"):
        return None
    try:
        value = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text_of(value: object) -> str:
    """A field that should be text; empty if it is not."""
    return value if isinstance(value, str) else ""


def texts_of(value: object) -> tuple[str, ...]:
    """A text as the only one of a tuple; an empty tuple if it says nothing."""
    return (value,) if isinstance(value, str) and value.strip() else ()


def wrong_type(found: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> str:
    """The first field of an object that has another type than it should; empty if none has."""
    for name, kinds in fields.items():
        if name in found and found[name] is not None and not isinstance(found[name], kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            return f"'{name}' is {type(found[name]).__name__}, and should be {wanted}"
    return ""


def as_uuid(name: str) -> str:
    """A name as a UUID: always the same, and the name itself if it is one."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(name))
    return str(uuid.uuid5(_NAMESPACE, name))


def session_of(state: AgentState) -> str:
    """The session of a run; a run without one is a session of its own."""
    return state.session_id or state.run_id


def json_line(value: Any) -> bytes:
    """Compact JSON on one line. Scripts look for `"role":"assistant"` without a blank."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="replace") + b"\n"
