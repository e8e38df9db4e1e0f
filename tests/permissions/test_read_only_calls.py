"""Commands that only read, for tools of which nothing is known but their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.permissions.read_only_calls import is_read_only_call
from hookline.state import AgentState, ToolCall


def test_a_directory_that_tools_read_differently_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tool runs in the home for `~`, another one in a directory of that name: then nothing is known."""
    monkeypatch.chdir(tmp_path)

    def only_reads(cwd: str) -> bool:
        call = ToolCall("1", "bash", {"command": "cat notes", "cwd": cwd})
        return is_read_only_call(call, None, AgentState())

    assert only_reads("src")
    assert only_reads("./~")
    assert not only_reads("~")
