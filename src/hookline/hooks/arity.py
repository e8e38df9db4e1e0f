"""How many arguments a function takes: asked when a hook or a matcher is registered, before anything calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

MANY = 99
"""As many positional arguments as anybody gives."""


def positional(function: Callable[..., Any]) -> tuple[int, int]:
    """How many positional arguments a call needs at least and takes at most."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_kwonlyargcount == 0 and not hasattr(function, "__wrapped__"):
        # The quick way, for plain functions: building an agent should not cost a signature per hook.
        count = code.co_argcount - isinstance(function, MethodType)
        most = count if not code.co_flags & inspect.CO_VARARGS else MANY
        return count - len(function.__defaults__ or ()), most
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1, MANY  # a builtin without a signature: its first call will tell
    least = most = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = MANY
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            least = MANY  # a required keyword can never be given
    return least, most
