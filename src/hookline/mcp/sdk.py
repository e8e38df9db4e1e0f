"""The door to what needs the MCP SDK, which is slow to import and not everybody has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hookline.errors import BuildError


def from_sdk_side(module: str, name: str) -> Any:
    """A name of a module of this room that imports the SDK."""
    try:
        return getattr(import_module(f"hookline.mcp.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("hookline"):
            raise
        raise BuildError(
            f"MCP needs the package '{error.name}', which is not installed.",
            remedy='Run: pip install "hookline[mcp]".',
        ) from None
