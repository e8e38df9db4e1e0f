"""Commands for hooks that need nothing but Python: `event` is the hook's input."""

from __future__ import annotations

import shlex
import sys

_READ = "import json, sys; event = json.load(sys.stdin); "


def printing(expression: str) -> str:
    """A command that prints the value of an expression, as text."""
    return _python(f"{_READ}print({expression})")


def as_json(expression: str) -> str:
    """A command that prints the value of an expression, as JSON on one line."""
    return _python(f"{_READ}print(json.dumps({expression}))")


def holds(expression: str) -> str:
    """A command that ends with 0 if an expression holds, and with 1 if not."""
    return _python(f"{_READ}sys.exit(not ({expression}))")


def _python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
