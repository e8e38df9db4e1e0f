"""A person is asked before an environment file is read, and before a file that agents obey is changed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult, SQLiteJournal
from hookline.capabilities import Approval, Files
from hookline.containment import INSTRUCTIONS, FileJail
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say


def run(
    files: Files, *turns: Any, answer: bool, mode: str = "default"
) -> tuple[RunResult, list[str]]:
    """A run, and what a person was asked in it."""
    asked: list[str] = []

    def approver(question: Any) -> bool:
        asked.append(question.reason)
        return answer

    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")]))
    builder = builder.with_capability(files).with_capability(Approval(mode=mode))
    return builder.with_approver(approver).build().run_sync("Go."), asked


def texts(result: RunResult) -> list[str]:
    """What the calls gave."""
    return [str(made.result) for step in result.steps for made in step.results]


@pytest.mark.parametrize("mode", ["default", "ask_unlisted", "accept_edits", "plan"])
@pytest.mark.parametrize("name", [".env", "deploy/prod.env", "link", "x/.env", "x/../.env"])
def test_reading_one_asks(root: Path, name: str, mode: str) -> None:
    """Also by a link, and where it is one; a no shows nothing, a yes shows it to that one call."""
    (root / "deploy").mkdir()
    (root / "x").mkdir()
    for path in (".env", "deploy/prod.env"):
        (root / path).write_text("KEY=a-secret\n")
    (root / "link").symlink_to(".env")
    (root / "settings").write_text("KEY=a-secret\n")
    (root / "x" / ".env").symlink_to("../settings")
    read = call("read", path=name)
    result, asked = run(Files(root), read, answer=False, mode=mode)
    assert len(asked) == 1
    assert "environment file" in asked[0]
    assert "a-secret" not in "".join(texts(result))
    result, asked = run(Files(root), read, read, answer=True, mode=mode)
    assert len(asked) == 2
    assert "a-secret" in texts(result)[0]


def test_a_search_passes_over_them(root: Path) -> None:
    """It says so; named as the path, a person is asked. A sample is searched."""
    for path in ("prod.env", "prod.env.example", "notes.md"):
        (root / path).write_text("KEY=a-secret\n")
    search = call("search", pattern="a-secret", everything=True)
    result, asked = run(Files(root), search, answer=False)
    assert asked == []
    assert "prod.env:" not in texts(result)[0]
    assert "prod.env.example" in texts(result)[0]
    assert "notes.md" in texts(result)[0]
    assert "1 environment file left out" in texts(result)[0]
    result, asked = run(
        Files(root), call("search", pattern="a-secret", path="prod.env"), answer=False
    )
    assert len(asked) == 1


def test_they_can_be_shown(root: Path) -> None:
    """By name or by path."""
    for path in (".env", "src/.env"):
        (root / path).write_text("KEY=a-secret\n")
    result, asked = run(Files(root, show=[".env"]), call("read", path="src/.env"), answer=False)
    assert (asked, "a-secret" in texts(result)[0]) == ([], True)
    result, asked = run(Files(root, show=["./src/.env"]), call("read", path=".env"), answer=False)
    assert len(asked) == 1
    with pytest.raises(BuildError, match="show="):
        Files(root, show=".env")


def statuses(result: RunResult) -> list[str]:
    """The statuses of the calls."""
    return [made.status.value for step in result.steps for made in step.results]


ASKED = """
sub/agents.MD sub/mise.toml mise.local.toml sub/mise.dev.toml .config/mise.toml .lefthook-local.json
.github/copilot-instructions.md sub/.github/instructions/a.md .github/prompts/a.md
""".split()


@pytest.mark.parametrize("name", [*sorted(INSTRUCTIONS), *ASKED])
def test_a_person_is_asked_about_instructions(root: Path, name: str) -> None:
    """A no leaves them as they are, a yes is enough to write and to edit them; reading needs neither."""
    (root / "link").symlink_to(name)
    write = call("write", path=name, content="obey me")
    by_link = call("write", path="link", content="obey me")
    result, asked = run(Files(root), write, by_link, answer=False)
    assert statuses(result) == ["denied", "denied"]
    assert "is followed by agents" in asked[0]
    assert not (root / name).exists()
    edit = call("edit", path=name, old="obey", new="help")
    result, asked = run(Files(root), write, call("read", path=name), edit, answer=True)
    assert statuses(result) == ["ok", "ok", "ok"]
    assert len(asked) == 2
    assert (root / name).read_text() == "help me"


@pytest.mark.parametrize(
    "settings",
    [
        "git init -q .; git config core.hooksPath tools",
        "git init -q .; git config include.path ../tools/x",
        "git init -q .; rm -r .git/hooks; ln -s ../tools .git/hooks",
        "git init -q tools; git -C tools config core.hooksPath .",
        "git init -q ..; git -C .. config core.hooksPath $(basename $PWD)/tools",
        "ln -s $PWD/tools ../.claude",
    ],
)
def test_a_person_is_asked_about_what_others_obey_by_settings(root: Path, settings: str) -> None:
    """As for commands, for which it is read-only; other files are written without a question."""
    (root / "tools").mkdir()
    subprocess.run(["bash", "-c", settings], cwd=root, check=True)
    turn = calls(*(call("write", path=path, content="x") for path in ("tools/x", "other")))
    result, asked = run(Files(root), turn, answer=False)
    assert statuses(result) == ["denied", "ok"]
    assert "run by other programs" in asked[0]


def test_the_root_can_be_the_directory_in_which_a_name_counts(root: Path) -> None:
    """In the root `.github`, `instructions` are asked about and `hooks` are blocked; its other files are neither."""
    (root / ".github").mkdir()
    paths = ("instructions/a.md", "hooks/a.json", "workflows/a.yml")
    turn = calls(*(call("write", path=path, content="x") for path in paths))
    result, asked = run(Files(root / ".github"), turn, answer=False)
    assert statuses(result) == ["denied", "blocked", "ok"]
    assert len(asked) == 1


def test_instructions_can_be_opened_and_closed(root: Path) -> None:
    """With `ask=()` they stay protected. Named in neither option, they are ordinary files."""
    write = call("write", path="AGENTS.md", content="x")
    assert statuses(run(Files(root, ask=()), write, answer=True)[0]) == ["blocked"]
    assert statuses(run(Files(FileJail(root)), write, answer=True)[0]) == ["blocked"]
    free = Files(root, ask=(), protected=[".git"])
    result, asked = run(free, write, answer=False)
    assert statuses(result) == ["ok"]
    assert asked == []
    with pytest.raises(BuildError, match="ask= has 'a/b/c' in it"):
        Files(root, ask=["a/b/c"])


def test_a_repository_cannot_be_put_together(root: Path) -> None:
    """The configuration of one can run a program as soon as somebody asks git for the status."""
    config = '[core]\nbare = false\nworktree = wt\nfsmonitor = "touch PWNED; false"\n'
    parts = ["s/config", "s/objects/a", "s/refs/a", "s/wt/x", "s/HEAD"]
    result, _ = run(
        Files(root),
        calls(*(call("write", path=part, content=config) for part in parts)),
        answer=True,
    )
    assert statuses(result) == ["ok", "ok", "error", "ok", "blocked"]
    (root / "s" / "HEAD").write_text("ref: refs/heads/main\n")
    result, _ = run(Files(root), call("edit", path="s/config", old="touch", new="rm"), answer=True)
    assert statuses(result) == ["blocked"]


def test_other_configuration_is_blocked_and_not_asked_about(root: Path) -> None:
    """Hooks, permissions and servers are for people to write."""
    names = [".husky/pre-push", ".agents/x", ".devcontainer/x", ".windsurf/x", "mcp.json"]
    names += [".github/hooks/a.json", ".config/mise/config.toml", "x.code-workspace", ".envrc.x"]
    turn = calls(*(call("write", path=name, content="x") for name in names))
    result, asked = run(Files(root), turn, answer=True)
    assert statuses(result) == ["blocked"] * len(names)
    assert asked == []


def test_what_guards_the_agent_is_not_changed(root: Path) -> None:
    """Files and directories that a capability protects, also missing ones; others can be written, and all be read."""

    class Guards:
        name = "guards"

        def hooks(self) -> list[Any]:
            return []

        def protected_files(self) -> list[str]:
            return [str(root / "scripts"), str(root / "x.sh")]

    (root / "scripts").mkdir()
    (root / "scripts/a.py").write_text("a")
    (root / "link").symlink_to("scripts")
    paths = ("scripts/new.py", "x.sh", "link/org.py", "scripts", "scripts2.py", "y.sh")
    made = [call("write", path=each, content="x") for each in paths]
    builder = AgentBuilder().with_driver(
        ScriptedDriver([*made, call("read", path="scripts/a.py"), say("done")])
    )
    agent = builder.with_capability(Files(root)).with_capability(Guards()).build()
    result = agent.run_sync("Go.")
    *written, read = (made.text for step in result.steps for made in step.results)
    refused = ["belongs to a hook or a server of this agent" in each for each in written]
    assert refused == [True, True, True, True, False, False]
    assert "a" in read
    assert sorted(each.name for each in (root / "scripts").iterdir()) == ["a.py"]


@pytest.mark.parametrize("name", ["r.db", "r.db-wal", "r.db-journal", "link"])
def test_the_journal_of_the_agent_is_not_changed(root: Path, name: str) -> None:
    """Nor a file beside it, which can change what is on record."""
    (root / "link").symlink_to("r.db")
    turns = calls(call("read", path=name), call("write", path=name, content="x")), say("done")
    with SQLiteJournal(root / "r.db") as journal:
        builder = AgentBuilder().with_driver(ScriptedDriver([*turns]))
        result = builder.with_capability(Files(root)).with_journal(journal).build().run_sync("Go.")
        blocked = result.steps[0].results[1]
        assert blocked.status == "blocked"
        assert "is the journal of this agent, or belongs to it" in blocked.reason
        assert journal.check_sync().ok
        assert len(journal.runs_sync()) == 1
