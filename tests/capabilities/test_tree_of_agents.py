"""Agents of one tree of runs change neither what guards another one of them, nor its journal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from hookline import Agent, AgentBuilder, SQLiteJournal, ToolContext, tool
from hookline.capabilities import Bash, Files
from hookline.containment.sandbox.set_id import file_clock
from hookline.testing import ScriptedDriver, call, say

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
PLANT = "echo theirs > hooks/new.py"
WRITE = {"path": "hooks/new.py", "content": "theirs\n"}


class Guarded:
    """Has a directory from which a hook would load."""

    name = "guarded"

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def hooks(self) -> Sequence[object]:
        """None: the directory is what matters."""
        return ()

    def protected_files(self) -> Sequence[Path]:
        """The directory."""
        return self._paths


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work directory with the directory of a hook."""
    (tmp_path / "work/hooks").mkdir(parents=True)
    return tmp_path / "work"


def _agent(turns: list[object], *capabilities: object, **options: object) -> Agent:
    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")]))
    for each in capabilities:
        builder = builder.with_capability(each)
    for name, value in options.items():
        builder = getattr(builder, f"with_{name}")(value)
    return builder.build()


def _starts(*children: Agent) -> object:
    waiting = list(children)

    @tool
    async def delegate(context: ToolContext) -> str:
        """Have another agent do a task."""
        result = await context.spawn(waiting.pop(0), "go")
        return "\n".join(each.text for step in result.steps for each in step.results)

    return delegate


def _said(agent: Agent) -> str:
    return "\n".join(r.text for step in agent.run_sync("go").steps for r in step.results)


def test_a_child_leaves_what_guards_the_runs_above(work: Path) -> None:
    """Two levels up, too: with its own commands, and with its own tools for files."""
    shell = _agent([call("bash", command=PLANT)], Bash(work, sandbox="required"))
    files = _agent([call("write", **WRITE)], Files(work))
    between = _agent([call("delegate"), call("delegate")], tools=_starts(shell, files))
    said = _said(_agent([call("delegate")], Guarded(work / "hooks"), tools=_starts(between)))
    assert "Read-only file system" in said
    assert "cannot be changed here" in said
    assert not (work / "hooks/new.py").exists()


@pytest.mark.parametrize("kind", ["bash", "files"])
def test_a_child_whose_files_were_changed_does_not_start(work: Path, kind: str) -> None:
    """It was built before the tools of its parent wrote there. One that nobody touched starts, and is held then."""
    (work / "other").mkdir()
    made = [_agent([], Guarded(work / name)) for name in ("hooks", "other")]
    tools = {
        "bash": (
            Bash(work, sandbox="required"),
            call("bash", command=PLANT),
            call("bash", command="echo theirs > other/new.py"),
        ),
        "files": (
            Files(work),
            call("write", **WRITE),
            call("write", path="other/new.py", content="x"),
        ),
    }
    capability, plant, late = tools[kind]
    while file_clock() <= made[-1].definition.guarded_since:
        pass  # the clock of files is a little behind
    turns = [plant, call("delegate"), call("delegate"), late]
    said = _said(_agent(turns, capability, tools=_starts(*made)))
    assert said.count("the subagent was not started") == 1
    assert "changed it" in said
    assert (work / "hooks/new.py").exists()
    assert not (work / "other/new.py").exists()


def test_a_child_waits_for_a_command_that_could_change_its_files(work: Path) -> None:
    """The command in the background was started before anybody knew of the child."""
    made = [_agent([], Guarded(work / "hooks")) for _ in range(2)]
    turns = [
        call("bash", command="sleep 600", background=True),
        call("delegate"),
        call("bash_stop", id="bg-1"),
        call("delegate"),
    ]
    said = _said(_agent(turns, Bash(work, sandbox="required"), tools=_starts(*made)))
    assert said.count("the subagent was not started") == 1
    assert "that runs now can change it" in said


def test_the_journal_of_the_parent_is_out_of_reach(work: Path) -> None:
    """As for one agent: a child whose commands could write beside it does not start."""
    plant = [call("bash", command="echo x > runs.db-journal; rm -f runs.db")]
    for path, is_refused in ((work / "runs.db", True), (work / ".hookline/runs.db", False)):
        path.parent.mkdir(exist_ok=True)
        child = _agent(plant, Bash(work, sandbox="required"))
        parent = _agent([call("delegate")], tools=_starts(child), journal=SQLiteJournal(str(path)))
        assert ("the journal" in _said(parent)) is is_refused
        assert path.exists()
