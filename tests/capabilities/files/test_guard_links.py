"""A path is opened where it led when the call was judged, whatever links are made meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Approval, Files
from hookline.testing import ScriptedDriver, call, calls, say


class Turn:
    """One turn of a model: a link is made, and a path used that was judged before that."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []

    def run(self, link: str, target: str, *then: object, **rules: list[str]) -> list[str]:
        """The results of the calls after the one that makes the link."""

        def make_link() -> str:
            """Make a link, as a command would."""
            (self.root / link).unlink(missing_ok=True)
            (self.root / link).symlink_to(target)
            return "made"

        turns = [calls(call("make_link"), *then), say("Done.")]  # type: ignore[arg-type]
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(make_link)
        agent = (
            builder.with_capability(Files(self.root))
            .with_capability(Approval(allow=["make_link", "write", "read"], **rules))
            .with_approver(lambda prompt: self.asked.append(prompt.tool_call.name) or False)
            .build()
        )
        result = agent.run_sync("Go.")
        return [each.text for each in result.steps[0].results[1:]]


@pytest.fixture
def turn(tmp_path: Path) -> Turn:
    """A directory with a secret, and with a file of the name that becomes a link."""
    (tmp_path / ".env").write_text("TOKEN=hidden")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "notes").write_text("hidden")
    (tmp_path / "n").write_text("plain")
    return Turn(tmp_path)


def test_what_becomes_a_link_after_the_verdict_is_not_followed(turn: Turn) -> None:
    """Neither to what a person would have been asked about, nor to what a rule denies."""
    pause = call("write", path="pause", content="1")  # changes run alone, so reading comes after it
    for target in (".env", "private/notes"):
        (turn.root / "n").unlink()
        (turn.root / "n").write_text("plain")
        *_, read = turn.run("n", target, pause, call("read", path="n"), deny=["read(private/**)"])
        assert "hidden" not in read
        assert "leads through a symbolic link" in read
    (write,) = turn.run("x", "AGENTS.md", call("write", path="x", content="obey"))
    assert "leads through a symbolic link" in write
    assert not (turn.root / "AGENTS.md").exists()
    assert turn.asked == []


def test_a_link_that_was_there_is_followed_to_where_it_led(turn: Turn) -> None:
    """And not to where it leads by the time that the tool runs."""
    (turn.root / "link").symlink_to("n")
    pause = call("write", path="pause", content="1")
    *_, read = turn.run("link", ".env", pause, call("read", path="link"))
    assert "plain" in read


def test_nothing_is_written_once_the_root_was_moved(turn: Turn) -> None:
    """What its name says of it is not true any more: it may be `.github` now."""
    files = Files(turn.root / "private")
    agent = AgentBuilder().with_driver(
        ScriptedDriver([call("write", path="x", content="x"), say("Done.")])
    )
    built = agent.with_capability(files).build()
    (turn.root / "private").rename(turn.root / ".github")
    (result,) = built.run_sync("Go.").steps[0].results
    assert "the root of the files was moved or replaced" in result.text
    assert not (turn.root / ".github" / "x").exists()
