"""Tools that only pretend, under the names that the capabilities' own tools have."""

from __future__ import annotations

from hookline import tool


@tool(effect="pure")
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool
def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


@tool
def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"
