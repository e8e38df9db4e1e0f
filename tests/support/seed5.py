"""The tools of the fifth seed's examples."""

from __future__ import annotations

from typing import Any

from hookline import (
    AgentBuilder,
    tool,
)
from hookline.testing import ScriptedDriver


@tool
def bash(command: str) -> str:
    """Pretend to run a command."""
    return f"ran {command}"


@tool
def shell(command: str) -> str:
    """Pretend to run a command in another way."""
    return f"shell ran {command}"


@tool
def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"content of {path}"


@tool
def write_file(path: str) -> str:
    """Pretend to write a file."""
    return f"wrote {path}"


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns."""
    driver = ScriptedDriver(turns)
    return AgentBuilder().with_driver(driver).with_tools(bash, shell, read_file, write_file)
