"""Exceptions as they were, made of what the journal keeps of them."""

from __future__ import annotations

import builtins
import re
from typing import Any

from hookline import errors
from hookline.errors import HookError, HooklineError
from hookline.flow import ErrorClass, classify
from hookline.state import ErrorInfo

_OF_HOOK = re.compile(r"hook '(?P<hook>.*?)' at (?P<point>\w+): (?P<problem>.*)", re.DOTALL)
_KINDS: dict[str, type[Exception]] = {
    ErrorClass.TOOL: errors.ToolError,
    ErrorClass.VALIDATION: errors.ToolArgumentsError,
    ErrorClass.MODEL: errors.ModelError,
    ErrorClass.RATE_LIMIT: errors.RateLimitError,
    ErrorClass.TIMEOUT: errors.ModelTimeoutError,
    ErrorClass.CONNECTION: errors.ConnectionLostError,
    ErrorClass.OVERLOADED: errors.OverloadedError,
    ErrorClass.REFUSAL: errors.RefusalError,
    ErrorClass.CONTENT_FILTER: errors.ContentFilterError,
    ErrorClass.CONTEXT_OVERFLOW: errors.ContextOverflowError,
    ErrorClass.AUTHENTICATION: errors.AuthenticationError,
    ErrorClass.UNSUPPORTED: errors.UnsupportedError,
}


def recorded_exception(info: ErrorInfo) -> Exception:
    """An exception that has the name, the words and the class of the one that was recorded."""
    of_hook = _OF_HOOK.fullmatch(info.message) if info.error_class == ErrorClass.HOOK else None
    if of_hook is not None:
        return HookError(of_hook["hook"], of_hook["point"], of_hook["problem"])
    module, _, name = info.type.rpartition(".")
    body = {
        "__module__": module or "builtins",
        "__qualname__": name,
        "__init__": _say_nothing,
        "__str__": lambda _: info.message,
        "message": info.message,
        "remedy": "",
        "retry_after": None,
    }
    kind: type[Exception] = type(name, (_base(module, name, info.error_class),), body)
    return kind()


def _say_nothing(self: Exception) -> None:
    """Whatever arguments the original took, this one needs none."""


def _base(module: str, name: str, error_class: str) -> type[Exception]:
    """What it is derived from, so that the error policy and the error hooks take it for what it was."""
    home = {"": builtins, "hookline.errors": errors}.get(module)
    known: Any = getattr(home, name, None)
    if isinstance(known, type) and issubclass(known, Exception) and _has_class(known, error_class):
        return known
    return _KINDS.get(error_class, HooklineError)


def _has_class(kind: type[Exception], error_class: str) -> bool:
    """Whatever a tool raises is an error of a tool; all others are what their type says."""
    return error_class == ErrorClass.TOOL or classify(kind.__new__(kind)) == error_class
