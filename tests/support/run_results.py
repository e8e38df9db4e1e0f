"""What tests read from the result of a run."""

from pathlib import Path
from typing import Any


def result_texts(result: Any) -> list[str]:
    """The texts of all tool results of a run, in order."""
    return [each.text for step in result.steps for each in step.results]


def tool_texts(result: Any) -> list[str]:
    """The same as the model reads them, from the conversation."""
    return [message.text for message in result.state.messages if message.role == "tool"]


def message_texts(source: Any) -> list[str]:
    """The texts of the conversation of a run's result or of a session."""
    return [message.text for message in source.state.messages]


def is_running(command_line: str) -> bool:
    """Whether a process with this command line exists."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().replace(b"\0", b" ").strip() == command_line.encode():
                return True
        except OSError:
            continue
    return False
