"""A process dies when a file has been changed and nobody has written that down."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hookline import AgentBuilder, HookOutcome, SQLiteJournal, ToolContext, tool
from hookline.capabilities import Files
from hookline.containment import FileJail
from hookline.errors import BuildError
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.state import AgentState, ResultStatus, ToolCall
from hookline.testing import ScriptedDriver, call, calls, say
from hookline.tools import Effect

ESCAPES = [
    *("../secret.txt", "/etc/passwd", "link", "src/../../secret.txt", "a\0b", "out/secret.txt"),
    "~/notes.txt",
]


@pytest.fixture
def trap(root: Path) -> Path:
    """The root, with links out of it."""
    (root / "link").symlink_to("../secret.txt")
    (root / "out").symlink_to("..")
    return root


def builder(root: Path, *turns: object, **options: object) -> AgentBuilder:
    """An agent that makes these turns and says that it is done."""
    files = Files(root, **options)  # type: ignore[arg-type]
    return AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_capability(files)


def results(result: object) -> list[object]:
    """The result of each call."""
    return [each for step in result.steps for each in step.results]  # type: ignore[attr-defined]


# --- the policy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_leads_out_is_blocked_before_anything_opens(trap: Path, path: str) -> None:
    """For every tool that takes a path; the model reads why."""
    step = calls(
        call("read", path=path),
        call("write", path=path, content="x"),
        call("edit", path=path, old="s", new="x"),
        call("list", path=path),
        call("glob", pattern="*", path=path),
        call("search", pattern="s", path=path),
    )
    made = results(builder(trap, step).build().run_sync("Go."))
    assert [each.status for each in made] == [ResultStatus.BLOCKED] * 6  # type: ignore[attr-defined]
    assert {each.decided_by for each in made} == {"files-jail"}  # type: ignore[attr-defined]
    assert (trap.parent / "secret.txt").read_text() == "secret main\n"


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "src/../../*"])
def test_a_pattern_that_leads_out_is_blocked(root: Path, pattern: str) -> None:
    """Like a path."""
    (made,) = results(builder(root, call("glob", pattern=pattern)).build().run_sync("Go."))
    assert made.status is ResultStatus.BLOCKED  # type: ignore[attr-defined]


def test_protected_files_are_read_and_not_changed(root: Path) -> None:
    """An agent does not change what runs it, or what git runs."""
    (root / ".claude").mkdir()
    (root / ".claude" / "settings.json").write_text("{}")
    turn = calls(
        call("read", path=".claude/settings.json"),
        call("write", path=".claude/settings.json", content="x"),
        call("write", path=".GIT/hooks/pre-commit", content="x"),
        call("edit", path=".claude/settings.json", old="{", new="x"),
    )
    made = results(builder(root, turn).build().run_sync("Go."))
    assert [each.status.value for each in made] == ["ok", "blocked", "blocked", "blocked"]  # type: ignore[attr-defined]
    made = results(builder(root, turn, secret=[".claude"], protected=()).build().run_sync("Go."))
    assert [each.status.value for each in made] == ["blocked", "blocked", "ok", "blocked"]  # type: ignore[attr-defined]


def test_the_policy_sees_what_hooks_made_of_a_call(trap: Path) -> None:
    """A rewrite to the outside is blocked as well."""
    agent = builder(trap, call("read", path="notes.txt"))
    agent.on_before_tool_use(lambda ctx: ctx.with_args(path="link"), matcher="read")
    (made,) = results(agent.build().run_sync("Go."))
    assert made.status is ResultStatus.BLOCKED  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["run", "stream", "iterate"])
async def test_the_policy_holds_three_children_down(trap: Path, way: str) -> None:
    """In parallel branches, and however the run is driven; read_only too."""
    seen: list[tuple[str, str]] = []

    @tool
    async def descend(depth: int, context: ToolContext) -> str:
        """Start another agent."""
        turn: object = calls(call("descend", depth=depth - 1), call("descend", depth=depth - 1))
        if depth == 0:
            turn = calls(call("read", path="/etc/passwd"), call("write", path="x", content="x"))
        child = AgentBuilder().with_driver(ScriptedDriver([turn, say("done")])).with_tools(descend)
        if depth == 0:
            child.with_capability(Files(trap))
        result = await context.spawn(child.build(), "Go.")
        seen.extend((e.name, e.status.value) for s in result.steps for e in s.results)
        return "done"

    agent = builder(trap, call("descend", depth=2), read_only=True).with_tools(descend).build()
    if way == "run":
        await agent.run("Go.")
    else:
        async for _ in getattr(agent, way)("Go."):
            pass
    assert seen.count(("read", "blocked")) == seen.count(("write", "blocked")) == 4
    assert not (trap / "x").exists()


@pytest.mark.parametrize(
    ("child_root", "options", "made"),
    [
        ("root", {}, {"write .git/x": "blocked", "read notes.txt": "ok", "write g/x": "blocked"}),
        ("root/src", {}, {"write .git/x": "blocked", "read main.py": "ok", "write g/x": "blocked"}),
        (".", {}, {"read secret.txt": "blocked", "read root/notes.txt": "blocked"}),
        ("other", {}, {"read f": "blocked", "list .": "blocked"}),
        ("root", {"read_only": True}, {"write new": "blocked", "read notes.txt": "ok"}),
        ("root", {"secret": ["main.py"]}, {"read src/main.py": "blocked"}),
        ("root/src", {"secret": ["src"]}, {"read main.py": "blocked"}),
    ],
)
def test_a_child_with_files_of_its_own_stays_inside(
    root: Path, child_root: str, options: dict[str, object], made: dict[str, str]
) -> None:
    """Whatever root it was given, and however little it protects itself: the root of its parent holds."""
    (root.parent / "other").mkdir()
    (root.parent / "other" / "f").touch()
    for place in (root, root / "src"):
        (place / ".git").mkdir()
        (place / "g").symlink_to(".git")
    asked = [each.split() for each in made]
    turn = calls(
        *(
            call(name, path=path, **({"content": "x"} if name == "write" else {}))
            for name, path in asked
        )
    )
    seen: list[str] = []

    @tool
    async def delegate(context: ToolContext) -> str:
        """Start another agent."""
        child = builder(root.parent / child_root, turn, turn, protected=()).build()
        result = await context.spawn(child, "Go.")
        seen.extend(each.status.value for step in result.steps for each in step.results)
        return "done"

    builder(root, call("delegate"), **options).with_tools(delegate).build().run_sync("Go.")
    assert seen == [*made.values()] * 2


def test_the_jail_holds_without_the_policy(trap: Path) -> None:
    """The tools open through the jail themselves: whatever hooks let through, nothing leads out."""
    tools = {each.name: each for each in Files(trap).tools()}
    with pytest.raises(Exception, match="outside the root"):
        tools["list"]("out")
    with pytest.raises(Exception, match="outside the root"):
        tools["search"]("secret", "link")
    with pytest.raises(Exception, match="leads out"):
        tools["glob"]("../*")


# --- the tools ---------------------------------------------------------------------------------------


def test_effects() -> None:
    """Reading is pure, writing the same again changes nothing, an edit is made once."""
    tools = {each.name: each.effect for each in Files(".").tools()}
    assert tools == {
        "read": Effect.PURE,
        "list": Effect.PURE,
        "glob": Effect.PURE,
        "search": Effect.PURE,
        "write": Effect.IDEMPOTENT,
        "edit": Effect.ONCE,
    }


def test_every_argument_is_described() -> None:
    """In words for a small model; what the runtime passes in is not among them."""
    for each in Files(".").tools():
        assert each.description
        for name, schema in each.spec.parameters["properties"].items():
            assert schema.get("description"), f"{each.name}.{name}"
            assert schema.get("title") is None
    read = next(each for each in Files(".").tools() if each.name == "read")
    assert list(read.spec.parameters["properties"]) == ["path", "offset", "limit"]


def test_read_only_has_no_tools_that_change(root: Path) -> None:
    """And its name for them is unknown."""
    assert [each.name for each in Files(root, read_only=True).tools()] == [
        "read",
        "list",
        "glob",
        "search",
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"root": "nope"}, "Files: .*nope' cannot be the root"),
        ({"seconds": 0}, "seconds=0"),
        ({"images": "show"}, "images='show'"),
    ],
)
def test_wrong_options_are_reported_at_construction(
    tmp_path: Path, options: dict[str, object], problem: str
) -> None:
    """With what to do."""
    with pytest.raises(BuildError, match=problem):
        Files(**{"root": tmp_path, **options})  # type: ignore[arg-type]


def test_a_jail_of_ones_own_can_be_used(root: Path) -> None:
    """With every option."""
    files = Files(FileJail(root, way="steps", mounts=False))
    assert files.jail.way == "steps"
    with pytest.raises(BuildError, match="Set it there"):
        Files(FileJail(root), secret=[".env"])
    assert repr(files) == f"<Files {root}>"


def test_explain_shows_what_it_brings(root: Path) -> None:
    """Its tools with their effects, and its policy, which a call can be tried on."""
    agent = builder(root).build()
    plan = str(agent.explain())
    assert "capabilities  files" in plan
    assert re.search(r"files-jail +files +policy", plan)
    assert "read    pure" in plan
    assert "files-jail" in str(agent.explain("read", path="x"))
    assert list(agent.lint()) == []


# --- what was read, and when -------------------------------------------------------------------------


def paused_before_writing(root: Path, path: Path) -> tuple[AgentBuilder, SQLiteJournal]:
    """An agent that reads, and then asks before it writes."""
    journal = SQLiteJournal(path)
    turns = [call("read", path="notes.txt"), call("write", path="notes.txt", content="new\n")]
    agent = builder(root, *turns).with_journal(journal)
    agent.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), matcher="write", tier="policy")
    return agent, journal


@pytest.mark.parametrize("changed", [False, True])
def test_what_was_read_is_known_after_a_resume(root: Path, tmp_path: Path, changed: bool) -> None:
    """In another process, from the journal alone; and a change in between is noticed."""
    from hookline import Decision

    agent, journal = paused_before_writing(root, tmp_path / "journal.db")
    paused = agent.build().run_sync("Go.", run_id="r")
    assert paused.status == "paused"
    journal.close_sync()
    if changed:
        (root / "notes.txt").write_text("somebody else\n")
    again, journal = paused_before_writing(root, tmp_path / "journal.db")
    result = (
        again.with_driver(ScriptedDriver([say("done")]))
        .build()
        .resume_sync("r", {question.id: Decision.allow() for question in paused.pending})
    )
    made = results(result)[-1]
    assert made.status.value == ("error" if changed else "ok")  # type: ignore[attr-defined]
    assert ("has changed since it was read" in made.text) == changed  # type: ignore[attr-defined]
    assert (root / "notes.txt").read_text() == ("somebody else\n" if changed else "new\n")
    journal.close_sync()


def test_what_was_read_is_known_in_the_next_run_of_a_conversation(root: Path) -> None:
    """It goes with the state."""
    first = builder(root, call("read", path="notes.txt")).build().run_sync("Read.")
    again = AgentState.from_json(first.state.to_json())
    second = builder(root, call("write", path="notes.txt", content="x")).build()
    made = results(second.run_sync("Write.", state=again))[-1]
    assert made.text == "Replaced 'notes.txt': 1 line, 1 byte."  # type: ignore[attr-defined]


def test_only_so_many_files_are_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest ones: metadata is not a place for all files of the world."""
    from hookline.capabilities.files import seen_files

    monkeypatch.setattr(seen_files, "MOST", 3)
    steps = [call("write", path=f"f{number}", content="x") for number in range(5)]
    result = builder(root, *steps).build().run_sync("Go.")
    assert list(result.state.metadata["files"]) == ["f2", "f3", "f4"]


def test_a_read_that_was_withheld_is_not_known(root: Path) -> None:
    """What the model has not seen, it may not replace."""
    agent = builder(
        root, call("read", path="notes.txt"), call("write", path="notes.txt", content="x")
    )
    agent.on_after_tool_use(lambda ctx: HookOutcome.block("secret"), matcher="read", priority=10)
    made = results(agent.build().run_sync("Go."))
    assert made[0].status.value == "withheld"  # type: ignore[attr-defined]
    assert "was not read" in made[1].text  # type: ignore[attr-defined]


def test_two_runs_share_the_tools_and_nothing_else(root: Path) -> None:
    """What one has read, the other has not."""
    files = Files(root)
    one = AgentBuilder().with_driver(ScriptedDriver([call("read", path="notes.txt"), say("done")]))
    two = AgentBuilder().with_driver(
        ScriptedDriver([call("write", path="notes.txt", content="x"), say("done")])
    )
    one.with_capability(files).build().run_sync("Go.")
    made = results(two.with_capability(files).build().run_sync("Go."))
    assert "was not read" in made[0].text  # type: ignore[attr-defined]


def test_the_policy_can_be_asked_alone(root: Path) -> None:
    """It is a hook like any other."""
    (jail,) = [each for each in Files(root).hooks() if each.name == "files-jail"]
    ctx = ToolHookContext(
        point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", "read", {"path": "nope"})
    )
    assert jail.hook(ctx) is None
    assert jail.hook(ctx.with_args(path=str(root / "notes.txt"))) is None
    assert jail.hook(ctx.with_args(path="..")).is_blocked


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
    """A write is made again, which changes nothing; the result of an edit says that it may have been made."""
    journal = tmp_path / "journal.db"
    command = [sys.executable, "-c", DYING, str(root), str(journal), name, repr(arguments)]
    assert subprocess.run(command, check=False).returncode == 9
    assert (root / "notes.txt").read_text() == content
    # The model reads the file next, and sees whether the change was made.
    turns = [call("read", path="notes.txt"), say("done")]
    with SQLiteJournal(journal) as store:
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(root))
        result = builder.with_journal(store).build().resume_sync("r")
    assert result.status == "completed"
    answers = [each.text for step in result.steps for each in step.results]
    assert answers[1].startswith(answer)
    assert (root / "notes.txt").read_text() == content
    assert answers[2].startswith(f"     1\t{content.splitlines()[0]}")


def test_an_option_without_effect_warns(root: Path) -> None:
    """Nobody believes that ripgrep is used. False is what happens, so it says nothing."""
    Files(root, ripgrep=False)
    with pytest.warns(DeprecationWarning, match=r"ripgrep=True\) has no effect: leave it out"):
        Files(root, ripgrep=True)
