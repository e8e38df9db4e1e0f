"""Output as progress messages: soon, in whole lines, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Bash, Redaction
from hookline.capabilities.bash import progress
from hookline.capabilities.bash.progress import ProgressMessages
from hookline.testing import ScriptedDriver, call, say


async def test_lines_are_told_whole() -> None:
    """A line that comes in pieces is told when it has ended."""
    heard: list[str] = []
    tells = ProgressMessages(heard.append)
    for piece in (b"one\ntw", b"o\nthr", b"ee\n"):
        tells.add(piece)
        await asyncio.sleep(0.1)
    tells.finish()
    assert "".join(heard) == "one\ntwo\nthree\n"
    assert all(each.endswith("\n") for each in heard)


async def test_a_question_is_told_though_its_line_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a silence, and while dots keep coming; what is left is told at the end."""
    monkeypatch.setattr(progress, "_SILENCE", 0.1)
    heard: list[str] = []
    tells = ProgressMessages(heard.append)
    tells.add(b"Go on? ")
    while not heard:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.01)
    assert heard == ["Go on? "]
    dots = 0
    while len(heard) == 1:
        tells.add(b".")
        dots += 1
        await asyncio.sleep(0.01)
    tells.add(b"end")
    tells.finish()
    assert "".join(heard) == f"Go on? {'.' * dots}end"


async def test_much_is_told_by_its_end() -> None:
    """Of more than fits into a message its end is told, with how much is missing."""
    heard: list[str] = []
    tells = ProgressMessages(heard.append)
    tells.add(b"x" * 50_000)
    tells.finish()
    assert heard[0].startswith("[42,300 characters not shown here]\nxxx")
    assert len(heard) == 1


def test_a_secret_in_pieces_is_not_told_in_pieces(tmp_path: Path) -> None:
    """A command that prints a secret with a pause in it: no listener hears a part."""
    heard: list[str] = []
    script = "printf 'id: ghp_01234567'; sleep 0.2; echo 89abcdefghijABCDEFGHIJ012345"
    (tmp_path / "leak.sh").write_text(script)
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("bash", command="sh leak.sh"), say("done")]))
        .with_capability(Bash(tmp_path, sandbox="host"))
        .with_capability(Redaction())
        .with_approver(lambda _: True)
        .on_event(lambda record: heard.append(str(record)) if record.type == "progress" else None)
        .build()
    )
    assert "[redacted:github-token]" in agent.run_sync("Go.").steps[0].results[0].text()
    assert heard
    assert "01234567" not in "".join(heard)
