"""`ErrorPolicy`: whether the run stops, tries again after a delay, or continues when something fails.

`agent/error_handling.py` asks it and then the error hooks; `agent/calls/execution.py` catches what a tool raises.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.errors import (
    AuthenticationError,
    BlockedCallError,
    BuildError,
    ConnectionLostError,
    ContentFilterError,
    ContextOverflowError,
    HookError,
    MalformedResponseError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    RefusalError,
    ToolArgumentsError,
    ToolError,
    UnknownToolError,
    UnsupportedError,
)


class ErrorClass(enum.StrEnum):
    """The kind of a failure."""

    TOOL = "tool"
    VALIDATION = "validation"
    BLOCKED = "blocked"
    """A call that a hook blocked or a person denied. It is an error only if the policy's actions name this class."""
    MODEL = "model"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    OVERLOADED = "overloaded"
    MALFORMED = "malformed"
    """The model's answer is garbled: it cannot be read."""
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"
    AUTHENTICATION = "authentication"
    UNSUPPORTED = "unsupported"
    HOOK = "hook"
    UNKNOWN = "unknown"


_CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (HookError, ErrorClass.HOOK),
    (ToolArgumentsError, ErrorClass.VALIDATION),
    (UnknownToolError, ErrorClass.VALIDATION),
    (BlockedCallError, ErrorClass.BLOCKED),
    (ToolError, ErrorClass.TOOL),
    (RateLimitError, ErrorClass.RATE_LIMIT),
    (ModelTimeoutError, ErrorClass.TIMEOUT),
    (ConnectionLostError, ErrorClass.CONNECTION),
    (OverloadedError, ErrorClass.OVERLOADED),
    (MalformedResponseError, ErrorClass.MALFORMED),
    (RefusalError, ErrorClass.REFUSAL),
    (ContentFilterError, ErrorClass.CONTENT_FILTER),
    (ContextOverflowError, ErrorClass.CONTEXT_OVERFLOW),
    (AuthenticationError, ErrorClass.AUTHENTICATION),
    (UnsupportedError, ErrorClass.UNSUPPORTED),
    (ModelError, ErrorClass.MODEL),
    (TimeoutError, ErrorClass.TIMEOUT),
    (ConnectionError, ErrorClass.CONNECTION),
)


def classify(exception: BaseException) -> ErrorClass:
    """The class of an exception raised outside a tool's body (whatever a tool raises is a tool error)."""
    for kind, error_class in _CLASSES:
        if isinstance(exception, kind):
            return error_class
    return ErrorClass.UNKNOWN


def exception_type(error_class: str) -> type[Exception] | None:
    """The exception that a class of errors is named after; None for what can be any."""
    return next((kind for kind, each in _CLASSES if each == error_class), None)


def retry_delay(exception: BaseException) -> float | None:
    """The seconds that the failed service asked to wait, if it named a time.

    Other libraries' exceptions have this attribute too, and not always as seconds.
    """
    asked = getattr(exception, "retry_after", None)
    return float(asked) if isinstance(asked, int | float) and 0 <= asked < math.inf else None


class ErrorAction(enum.StrEnum):
    """What the policy decides about an error."""

    STOP = "stop"
    RETRY = "retry"
    """Try again: a model call, or a tool that is pure or idempotent. A tool that must run once is left to the model."""
    IGNORE = "ignore"
    """Continue: the model reads what went wrong."""
    RESCUE = "rescue"
    """Continue with a result or an answer that an `error` hook gives. A policy has none to give."""


class ErrorDecision(msgspec.Struct, frozen=True, gc=False):
    """What to do about one error, and after how many seconds."""

    action: ErrorAction
    delay: float = 0.0
    reason: str = ""
    value: Any = None
    """With `rescue`: the result of the call, or the model's answer."""


_DEFAULT_ACTIONS: dict[ErrorClass, ErrorAction] = {
    ErrorClass.TOOL: ErrorAction.IGNORE,
    ErrorClass.VALIDATION: ErrorAction.IGNORE,
    ErrorClass.RATE_LIMIT: ErrorAction.RETRY,
    ErrorClass.TIMEOUT: ErrorAction.RETRY,
    ErrorClass.CONNECTION: ErrorAction.RETRY,
    ErrorClass.OVERLOADED: ErrorAction.RETRY,
    ErrorClass.MALFORMED: ErrorAction.RETRY,
}


class ErrorPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What to do per class of error, with budgets.

    `max_retries` counts the failures of one class since something of that class last worked; one more stops the run.
    Failures of other classes do not reset it. A call that works resets tool errors, a valid one validation errors, one
    that is not blocked the blocked ones, a model's answer its errors, and a step in which no hook failed hook errors.
    `max_errors` caps all errors of a run, whatever their class.
    """

    actions: Mapping[ErrorClass, ErrorAction] = msgspec.field(
        default_factory=lambda: dict(_DEFAULT_ACTIONS)
    )
    otherwise: ErrorAction = ErrorAction.STOP
    max_retries: int = 3
    max_errors: int | None = None
    first_delay: float = 0.5
    factor: float = 2.0
    max_delay: float = 60.0
    """The longest wait, also for a provider or a hook that asks for more."""

    def __post_init__(self) -> None:
        for name in ("max_retries", "max_errors", "first_delay", "factor", "max_delay"):
            value = getattr(self, name)
            wrong = isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0
            if wrong and not (value is None and name == "max_errors"):
                raise BuildError(
                    f"error policy: {name}={value!r} is not a number of at least zero."
                )
        try:
            actions = {ErrorClass(kind): ErrorAction(does) for kind, does in self.actions.items()}
            otherwise = ErrorAction(self.otherwise)
        except ValueError as error:
            raise BuildError(
                f"error policy: {error}.",
                remedy=f"Classes: {', '.join(ErrorClass)}; actions: {', '.join(ErrorAction)}.",
            ) from None
        if ErrorAction.RESCUE in {otherwise, *actions.values()}:
            raise BuildError(
                "error policy: 'rescue' needs a result, and a policy has none.",
                remedy="Answer with ctx.rescue(...) in an `error` hook.",
            )
        msgspec.structs.force_setattr(self, "actions", actions)
        msgspec.structs.force_setattr(self, "otherwise", otherwise)

    @classmethod
    def stop_on_any_error(cls, *, blocked: bool = False) -> ErrorPolicy:
        """The first error ends the run, whatever it is; with `blocked`, also a call that is blocked or denied."""
        return cls(actions={ErrorClass.BLOCKED: ErrorAction.STOP} if blocked else {})

    @classmethod
    def retry_tool_errors(cls, max_retries: int = 3, *, first_delay: float = 0.0) -> ErrorPolicy:
        """Tool errors are tried again (safe tools by us, others by the model), at most so often in a row."""
        tools = {ErrorClass.TOOL: ErrorAction.RETRY, ErrorClass.VALIDATION: ErrorAction.RETRY}
        return cls(
            actions={**_DEFAULT_ACTIONS, **tools}, max_retries=max_retries, first_delay=first_delay
        )

    @classmethod
    def ignore_tool_errors(cls) -> ErrorPolicy:
        """Tool errors never end the run: the model reads them. This is also the default."""
        return cls()

    @classmethod
    def retry_all(cls, max_retries: int = 3, *, first_delay: float = 0.5) -> ErrorPolicy:
        """Every error is tried again, at most so often in a row."""
        return cls(
            actions={},
            otherwise=ErrorAction.RETRY,
            max_retries=max_retries,
            first_delay=first_delay,
        )

    def decide(
        self, error_class: ErrorClass, failures: int, errors: int, exception: BaseException
    ) -> ErrorDecision:
        """What to do about the `failures`-th failure of this class in a row, the `errors`-th of the run."""
        action = self.actions.get(error_class, self.otherwise)
        if exceeded := self.exceeded_budget(action, failures, errors):
            return ErrorDecision(ErrorAction.STOP, 0.0, exceeded)
        if action is not ErrorAction.RETRY:
            return ErrorDecision(action)
        return ErrorDecision(ErrorAction.RETRY, self.delay(failures, exception))

    def exceeded_budget(self, action: ErrorAction, failures: int, errors: int) -> str:
        """Which budget an action would exceed, in words; empty if none. It holds for the answers of hooks, too."""
        if self.max_errors is not None and errors > self.max_errors:
            return f"more than {self.max_errors} errors in this run"
        if action is ErrorAction.RETRY and failures > self.max_retries:
            return f"still failing after {self.max_retries} retries"
        return ""

    def delay(self, failures: int, exception: BaseException) -> float:
        """The seconds before the next try."""
        asked = retry_delay(exception)
        if asked is not None:
            return float(min(self.max_delay, asked))
        try:
            delay = self.first_delay * self.factor ** (failures - 1)
        except OverflowError:
            return float(self.max_delay)
        return float(min(self.max_delay, delay))
