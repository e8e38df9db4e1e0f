"""The tolerant reader of shell text, and what is found with it: commands, and the programs and scripts they start."""

from hookline.shell_text.reader import (
    UNKNOWN,
    UNREAD,
    PipelineStage,
    ShellVisitor,
    TooDeep,
    read_shell_text,
)

__all__ = [
    "UNKNOWN",
    "UNREAD",
    "PipelineStage",
    "ShellVisitor",
    "TooDeep",
    "read_shell_text",
]
