"""What tools gave, as scripts for Claude Code look for it."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.command_hooks.dialects.claude.tools import response_of, result_of
from hookline.state import ToolCall, ToolResult


def response(tool: str, args: dict[str, Any], result: Any, **more: Any) -> Any:
    """What scripts are told of a result."""
    execution = ToolResult(result, name=tool, **more)
    return response_of(ToolCall("1", tool, args), execution, "/p/a.py")


def test_a_file_that_was_read_has_its_lines_counted() -> None:
    """Scripts add up how much of a file was read."""
    text = "     3\tx = 1\n     4\ty = 2\n[lines 3-4 of 9]"
    file = response("read", {"path": "a.py", "offset": 3, "limit": 2}, text)["file"]
    assert file == {
        "filePath": "/p/a.py",
        "content": "x = 1\ny = 2",
        "numLines": 2,
        "startLine": 3,
        "totalLines": 9,
    }


def test_an_edit_has_its_lines() -> None:
    """In the form of a patch, at the line where it was made."""
    given = {"path": "a.py", "old": "a\nb", "new": "c", "replace_all": False}
    told = response("edit", given, "Edited 'a.py' at line 7.")
    assert (told["filePath"], told["oldString"], told["newString"]) == ("/p/a.py", "a\nb", "c")
    assert told["structuredPatch"] == [
        {"oldStart": 7, "oldLines": 2, "newStart": 7, "newLines": 1, "lines": ["-a", "-b", "+c"]}
    ]
    assert told["success"] is True


@pytest.mark.parametrize(("said", "kind"), [("Made 'a'.", "create"), ("Replaced 'a'.", "update")])
def test_a_file_that_was_written_is_new_or_not(said: str, kind: str) -> None:
    """And it has its content."""
    told = response("write", {"path": "a.py", "content": "x"}, said)
    assert (told["type"], told["content"], told["filePath"]) == (kind, "x", "/p/a.py")


@pytest.mark.parametrize(
    ("tool", "args"), [("mcp__db__query", {"sql": "x"}), ("spawn_subagent", {"prompt": "x"})]
)
def test_the_words_of_others_are_blocks_of_text(tool: str, args: dict[str, str]) -> None:
    """Those of a server and those of a child; and the way back."""
    told = response(tool, args, "hello")
    blocks = told if isinstance(told, list) else told["content"]
    assert blocks == [{"type": "text", "text": "hello"}]
    assert result_of(ToolCall("1", tool, args), told) == "hello"
