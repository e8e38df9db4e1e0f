"""Files that agents would obey: a command's are moved aside, unless a person agreed to them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, SQLiteJournal
from hookline.capabilities import Bash, Files
from hookline.command_hooks import CommandHooks
from hookline.containment.sandbox import work_tree
from hookline.containment.sandbox.quarantine import move_aside
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def run(builder: AgentBuilder, *turns: Any) -> list[str]:
    """The result of each call that a model makes."""
    builder.with_driver(ScriptedDriver([*turns, say("done")]))
    result = builder.with_approver(lambda _: True).build().run_sync("Go.")
    return [made.text for step in result.steps for made in step.results]


def test_instructions_that_a_command_makes_are_moved_aside_and_reported(tmp_path: Path) -> None:
    """No place is held for a missing AGENTS.md, so a script may make one: it loses its name, and the result says so."""
    (tmp_path / "make.sh").write_text("echo obey me > AGENTS.md\n")
    first, _, _, third, beside, denied = run(
        AgentBuilder().with_capability(Bash(tmp_path, sandbox="required")),
        call("bash", command="sh make.sh"),
        call("bash", command="sh make.sh; while echo made; do sleep 0.1; done", background=True),
        call("bash_poll", id="bg-1", wait=20),
        calls(call("bash_stop", id="bg-1"), call("bash", command="true")),
        call("bash", command="echo x > CLAUDE.md"),
    )
    assert "[moved aside: AGENTS.md.from-command. " in first
    assert "[moved aside: AGENTS.md.from-command-1. " in third
    assert "moved aside" not in beside, "what another command made, or holds the place of"
    assert denied.startswith("Blocked: ")
    assert not (tmp_path / "AGENTS.md").exists()
    assert (tmp_path / "AGENTS.md.from-command").read_text() == "obey me\n"


def test_what_could_not_be_moved_aside_is_not_called_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result says that it stays, apart from what was moved and however much that is."""

    def move(root: str, path: str) -> str:
        return "" if path == "AGENTS.md" else move_aside(root, path)

    monkeypatch.setattr(work_tree, "move_aside", move)
    (tmp_path / "make.sh").write_text(
        "echo x > AGENTS.md; for n in $(seq 12); do mkdir $n; echo x > $n/CLAUDE.md; done"
    )
    said = run(
        AgentBuilder().with_capability(Bash(tmp_path, sandbox="required")),
        call("bash", command="sh make.sh"),
    )[0]
    assert (
        "[not moved aside: AGENTS.md (it cannot be moved aside: remove it). Another program" in said
    )
    assert "[moved aside: 1/CLAUDE.md.from-command, " in said
    assert " and 2 more. Under the name" in said


def test_instructions_that_a_person_agreed_to_stay(tmp_path: Path) -> None:
    """What is written through a tool that asks is not taken for what a command made meanwhile."""
    bash = Bash(tmp_path, sandbox="required")
    said = run(
        AgentBuilder().with_capability(bash).with_capability(Files(tmp_path)),
        call("bash", command="sleep 60", background=True),
        call("write", path="AGENTS.md", content="rules"),
        call("bash_stop", id="bg-1"),
    )
    assert "moved aside" not in said[-1]
    assert (tmp_path / "AGENTS.md").read_text() == "rules"


def test_a_journal_in_the_work_directory_is_out_of_reach(tmp_path: Path) -> None:
    """In `.hookline` it is written by the run and by nobody else, and nothing can be put beside it."""
    place = tmp_path / ".hookline"
    place.mkdir()
    (tmp_path / "spoil.sh").write_text(
        "cd .hookline; for f in * runs.db-journal runs.db-wal; do echo spoiled > $f; rm -f $f; mv $f gone; done\n"
        "cd ..; mv .hookline gone; ls .hookline\n"
    )
    with SQLiteJournal(place / "runs.db") as journal:
        bash = Bash(tmp_path, sandbox="required")
        builder = AgentBuilder().with_journal(journal).with_capability(bash)
        (said,) = run(builder, call("bash", command="sh spoil.sh"))
        assert "Read-only file system" in said
        assert "runs.db-journal" not in {path.name for path in place.iterdir()}
        (kept,) = journal.runs_sync()
        assert kept.status == "completed"
        assert str(journal.check_sync()).endswith("no damage")


@pytest.mark.parametrize("name", ["runs.db", "sub/runs.db", ".hookline.db", "a/.hookline/runs.db"])
def test_a_journal_that_commands_can_reach_is_refused(tmp_path: Path, name: str) -> None:
    """A file that a command puts beside it, such as `runs.db-journal`, would change what is on record."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    with SQLiteJournal(tmp_path / name) as journal:

        def build(bash: Bash) -> None:
            builder = AgentBuilder().with_driver(ScriptedDriver([say("x")]))
            builder.with_journal(journal).with_capability(bash).build()

        with pytest.raises(BuildError, match=r"commands can write.*/\.hookline/"):
            build(Bash(tmp_path, sandbox="required"))
        build(Bash(tmp_path, place="host"))


@pytest.mark.parametrize("name", ["runs.db", "./sub/../../outside.db", "link/runs.db"])
def test_the_journal_that_a_variable_names_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """This agent has none, and the next command of a person would read what a command of the agent put there."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "link").symlink_to("../elsewhere")
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOOKLINE_JOURNAL", name)
    builder = AgentBuilder().with_driver(ScriptedDriver([say("x")]))
    with pytest.raises(BuildError, match="commands can write"):
        builder.with_capability(Bash(work, sandbox="required")).build()
    monkeypatch.setenv("HOOKLINE_JOURNAL", "../outside.db")
    builder = AgentBuilder().with_driver(ScriptedDriver([say("x")]))
    builder.with_capability(Bash(work, sandbox="required")).build()


def test_on_the_host_a_contained_command_that_can_reach_the_journal_asks(tmp_path: Path) -> None:
    """A stricter place asks nobody otherwise, and would remove what is on record."""
    remove = call("bash", command="rm -f runs.db runs.db-wal runs.db-shm", place="workspace")
    with SQLiteJournal(tmp_path / "runs.db") as journal:
        builder = AgentBuilder().with_driver(ScriptedDriver([remove, say("x")]))
        builder = builder.with_journal(journal).with_approver("deny")
        result = builder.with_capability(Bash(tmp_path, place="host")).build().run_sync("x")
        assert result.steps[0].results[0].status.value == "denied"
        assert len(journal.runs_sync()) == 1


@pytest.mark.parametrize("name", ["outside/link/runs.db", "outside/file.db", "work/link/runs.db"])
def test_a_journal_behind_a_link_that_commands_can_reach_is_refused(
    tmp_path: Path, name: str
) -> None:
    """Whether the link leads into the work directory, or is in it: a command could put a directory in its place."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    for directory in (work / "data", outside):
        directory.mkdir(parents=True)
    (outside / "link").symlink_to(work / "data")
    (outside / "file.db").symlink_to(work / "data" / "runs.db")
    (work / "link").symlink_to(outside)
    with SQLiteJournal(tmp_path / name) as journal:
        builder = AgentBuilder().with_driver(ScriptedDriver([say("x")])).with_journal(journal)
        builder.with_capability(Bash(work, sandbox="required"))
        with pytest.raises(BuildError, match=r"commands can write.*/\.hookline/"):
            builder.build()


def test_a_command_cannot_turn_what_is_kept_of_its_output_elsewhere(tmp_path: Path) -> None:
    """A directory for output in the work directory can be read, and a link in it or in its place is not made."""
    outside = tmp_path / "outside"
    outside.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    bash = Bash(work, sandbox="required", output_dir=work / "logs", max_chars=1000)
    turn = f"ln -s {outside}/x logs/command-2.txt; mv logs old; seq 1000"
    first, second = run(
        AgentBuilder().with_capability(bash),
        call("bash", command=turn),
        call("bash", command="seq 1000; cat logs/command-1.txt | wc -l"),
    )
    assert "Read-only file system" in first
    assert second.splitlines()[-2].isdigit()
    assert list(outside.iterdir()) == []
    assert {path.name for path in (work / "logs").iterdir()} == {"command-1.txt", "command-2.txt"}


def test_a_command_cannot_change_what_guards_the_agent(tmp_path: Path) -> None:
    """Scripts of hooks, in whichever order the capabilities came: what is off in the next run guards nobody."""
    script = tmp_path / "checks" / "guard.sh"
    script.parent.mkdir()
    script.write_text("exit 0\n")
    hook = {"on": "before_tool_use", "command": "sh checks/guard.sh"}
    guard = CommandHooks([hook], project=tmp_path)
    spoil = "echo spoiled > checks/guard.sh; rm -f checks/guard.sh; mv checks gone; echo more > checks/new; ls checks"
    (seen,) = run(
        AgentBuilder().with_capability(Bash(tmp_path, sandbox="required")).with_capability(guard),
        call("bash", command=spoil),
    )
    assert script.read_text() == "exit 0\n"
    assert "new" in seen, "beside it there is work to do"
