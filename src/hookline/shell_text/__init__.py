"""The tolerant reader of shell text, and what is found with it: commands, and the programs and scripts they start."""

from hookline.shell_text.reader import (
    MAX_DEPTH,
    UNKNOWN,
    UNREAD,
    ShellVisitor,
    Stage,
    TooDeep,
    read_shell_text,
    unescape,
)

__all__ = [
    "MAX_DEPTH",
    "UNKNOWN",
    "UNREAD",
    "ShellVisitor",
    "Stage",
    "TooDeep",
    "read_shell_text",
    "unescape",
]
