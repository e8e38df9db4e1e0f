"""A process dies when a file has been changed and nobody has written that down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hookline import AgentBuilder, SQLiteJournal
from hookline.capabilities import Files
from hookline.testing import ScriptedDriver, call, say

DYING = """
import os, sys
from hookline import AgentBuilder, SQLiteJournal
from hookline.capabilities import Files
from hookline.testing import ScriptedDriver, call

root, journal, name, arguments = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4])

async def die(ctx, call_next):
    result = await call_next(ctx)
    if ctx.tool_call.name == name:
        os._exit(9)
    return result

turns = [call("read", path="notes.txt"), call(name, path="notes.txt", **arguments)]
builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(root))
builder.with_journal(SQLiteJournal(journal)).around_tool_use(die).build().run_sync("Go.", run_id="r")
"""


@pytest.mark.parametrize(
    ("name", "arguments", "content", "answer"),
    [
        ("write", {"content": "new\n"}, "new\n", "'notes.txt' has this content already."),
        ("edit", {"old": "one", "new": "one one"}, "one one\ntwo\nthree\n", "In doubt: "),
    ],
)
def test_a_change_is_made_once(
    root: Path, tmp_path: Path, name: str, arguments: dict[str, str], content: str, answer: str
) -> None:
    """A write is made again, which changes nothing; of an edit the model is told that it may have been made."""
    journal = tmp_path / "journal.db"
    command = [sys.executable, "-c", DYING, str(root), str(journal), name, repr(arguments)]
    assert subprocess.run(command, check=False).returncode == 9
    assert (root / "notes.txt").read_text() == content
    # The model reads the file next: whatever became of the change, it sees it.
    turns = [call("read", path="notes.txt"), say("done")]
    with SQLiteJournal(journal) as store:
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(root))
        result = builder.with_journal(store).build().resume_sync("r")
    assert result.status == "completed"
    answers = [each.text() for step in result.steps for each in step.results]
    assert answers[1].startswith(answer)
    assert (root / "notes.txt").read_text() == content
    assert answers[2].startswith(f"     1\t{content.splitlines()[0]}")
