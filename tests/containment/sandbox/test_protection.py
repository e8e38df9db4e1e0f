"""Commands cannot change or create configuration that other programs obey, and leave no litter."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from hookline.containment import Sandbox, SandboxPaths
from hookline.containment.sandbox import protection
from hookline.containment.sandbox.protection import Protection
from hookline.errors import SandboxError

from .conftest import Place, needs_bubblewrap

pytestmark = needs_bubblewrap

NAMES = [
    *(".hookline", ".claude", ".vscode", ".cursor", ".gemini", ".codex"),
    *(".mcp.json", ".envrc", ".idea"),
    *(".agents", ".husky", ".windsurf", ".cursorrules", ".windsurfrules"),
]
IF_THERE = [
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md", "hookline.toml", "mcp.json", "mise.toml"),
    *(".github/copilot-instructions.md", ".github/hooks", ".github/copilot"),
    "x.code-workspace",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_exist_cannot_be_made(place: Place, name: str) -> None:
    """Not as a file, a directory, a link, or by moving something there; and nothing of it is left."""
    place.run(
        f"mkdir -p {name}/x; mkdir -p $(dirname {name}); echo x > {name}; ln -s /etc {name}; "
        f"mkdir new; mv -T new {name}; rmdir {name}; rm -rf {name}; touch kept; mkdir {name}; echo x > {name}/y"
    )
    assert not os.path.lexists(place.work / name)
    assert {path.name for path in place.work.iterdir()} <= {"kept", "new"}


def test_a_directory_in_which_capitals_are_ignored_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read-only or hidden has other names there that are not; a second name of one file looks like that."""
    (tmp_path / ".env").write_text("KEY=1\n")
    (tmp_path / ".ENV").hardlink_to(tmp_path / ".env")
    with pytest.raises(SandboxError, match=r"is the same file as .*distinguishes capitals"):
        Sandbox(tmp_path, "required", place="read-only").run_sync("true")
    (tmp_path / ".ENV").unlink()
    assert Sandbox(tmp_path, "required", place="read-only").run_sync("true").exit_code == 0
    monkeypatch.setattr(protection, "held_names", lambda *_: [".mcp.json"])
    (tmp_path / ".mcp.json").write_text("{}")
    (tmp_path / ".MCP.JSON").hardlink_to(tmp_path / ".mcp.json")
    with pytest.raises(SandboxError, match=r"is the same file as .*distinguishes capitals"):
        Sandbox(tmp_path, "required").run_sync("true")
    assert sorted(os.listdir(tmp_path)) == [".MCP.JSON", ".env", ".mcp.json"]


@pytest.mark.parametrize("name", NAMES + IF_THERE)
def test_what_exists_cannot_be_changed(place: Place, name: str) -> None:
    """Not written, removed, replaced or moved away; what it is in cannot be moved away with it."""
    path = place.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("as it was")
    place.own()
    top = Path(name).parts[0]
    place.run(
        f"echo x > {name}; rm -f {name}; mv {name} away; mv {top} moved; rm -rf {top}; ln -f /etc/passwd {name}; "
        f"ln -s {name} via; echo x > via; ln {name} hard; echo x > hard; "
        f"mkdir other; echo x > other/file; mv -T other {top}; cp -f other/file {name}; chmod 777 {name}"
    )
    assert path.read_text() == "as it was"
    assert not (place.work / "moved").exists()


@pytest.mark.parametrize("name", ["sub/.vscode", "a/b/AGENTS.md", "sub/.envrc", "a/.mcp.json"])
def test_what_exists_deep_in_the_tree_cannot_be_changed(place: Place, name: str) -> None:
    """It can be moved with the directory that it is in, and nothing else comes into its place."""
    path = place.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("as it was")
    place.own()
    place.run(f"echo x > {name}; rm -f {name}; mv {name} away; ln -sf /etc/passwd {name}")
    assert path.read_text() == "as it was"
    top = Path(name).parts[0]
    place.run(f"mv {top} moved; mkdir -p $(dirname {name}); echo evil > {name}")
    assert not path.exists()
    assert path.with_name(f"{path.name}.from-command").read_text() == "evil\n"
    assert (place.work / name.replace(top, "moved", 1)).read_text() == "as it was"


def test_a_repository_can_be_worked_in(place: Place) -> None:
    """git adds and commits; it cannot set up hooks, or configuration that runs programs."""
    git = "git -c user.name=x -c user.email=x@x"
    subprocess.run(["git", "init", "-q", place.work], check=True)
    place.own()
    before = (place.work / ".git" / "config").read_text()
    seen = place.run(
        f"echo x > file && {git} add file && {git} commit -qm message && git log --oneline"
    )
    assert "message" in seen.text, seen.text
    place.run(
        "git config core.fsmonitor /tmp/evil; git config core.hooksPath .; echo x > .git/hooks/pre-commit; "
        "echo ../evil > .git/commondir; echo x > .git/config.worktree; mkdir .git/modules/x"
    )
    assert (place.work / ".git" / "config").read_text() == before
    assert not (place.work / ".git" / "hooks" / "pre-commit").exists()
    for planted in ("commondir", "config.worktree"):
        assert not (place.work / ".git" / planted).exists()


def test_the_work_directory_does_not_become_a_bare_repository(place: Place) -> None:
    """With objects and refs in it git would obey a file `config` there; HEAD alone is a file like any other."""
    place.run(
        "rm -rf .git; git init -q --bare other; cp -r other/. .; git config -f config core.fsmonitor x"
    )
    assert (place.work / "config.from-command").exists()
    assert not (place.work / "config").exists()
    shutil.rmtree(place.work / "objects")
    place.run("echo x > HEAD; echo x > config")
    assert (place.work / "config").exists()


def test_a_directory_that_is_no_repository_does_not_look_like_one(place: Place) -> None:
    """What is put where .git might be made is not taken for a repository, so one further up is found."""
    subprocess.run(["git", "init", "-q", place.base], check=True)
    place.own()
    assert place.run("git rev-parse --show-toplevel").text.strip() == str(place.base)


def test_what_was_made_in_a_shared_parent_stays(place: Place) -> None:
    """.github may be made although a name in it is protected."""
    place.run("mkdir -p .github/workflows && echo x > .github/workflows/ci.yml")
    assert (place.work / ".github" / "workflows" / "ci.yml").read_text() == "x\n"
    assert (place.work / ".github").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("name", [".husky", ".git", ".github", ".config"])
def test_a_link_in_place_of_what_others_run_is_refused(tmp_path: Path, name: str) -> None:
    """A link could be replaced, so nothing runs until it is gone or left out by name; a command says how."""
    work, target = tmp_path / "linked", tmp_path / "elsewhere"
    work.mkdir()
    target.mkdir()
    (work / name).symlink_to(target)
    with pytest.raises(SandboxError, match=rf"'\{name}' .* symbolic link") as refused:
        Sandbox(work, "required").run_sync("true")
    assert f"rm {name} && cp -R {target} {name}" in str(refused.value)
    paths = SandboxPaths(unprotected=(name,))
    assert Sandbox(work, "required", paths=paths).run_sync("true").exit_code == 0
    (work / name).unlink()
    (work / name).symlink_to("nowhere")
    with pytest.raises(SandboxError, match=rf"Remove it: `rm {work / name}`"):
        Sandbox(work, "required").run_sync("true")


@pytest.mark.parametrize("where", ["inside", "outside", "nowhere", "nowhere outside"])
@pytest.mark.parametrize(
    "attempt",
    ["true", "rm .claude", "rm .claude; mkdir .claude; echo evil > .claude/settings.json"],
)
def test_a_directory_of_configuration_may_be_a_link(
    tmp_path: Path, where: str, attempt: str
) -> None:
    """What it leads to cannot be changed or made, and the link is there again afterwards."""
    work = tmp_path / "work"
    work.mkdir()
    target = {
        "inside": "shared/claude",
        "outside": "../claude",
        "nowhere": "made/later",
        "nowhere outside": "../never",
    }[where]
    if "nowhere" not in where:
        (work / target).mkdir(parents=True)
        (work / target / "settings.json").write_text("as it was")
    (work / ".claude").symlink_to(target)
    ran = Sandbox(work, "required").run_sync(
        f"(echo x > .claude/settings.json; mkdir -p {target}; echo x > {target}/settings.json; "
        f"mv shared moved) 2>/dev/null; {attempt}; echo ran"
    )
    assert ran.text.endswith("ran\n")
    assert os.readlink(work / ".claude") == target
    if "nowhere" in where:
        assert not (work / target).exists()
    else:
        assert (work / ".claude/settings.json").read_text() == "as it was"
    assert [*ran.set_aside] == ([".claude.from-command"] if "evil" in attempt else [])


def test_a_link_to_the_work_directory_itself_is_refused(tmp_path: Path) -> None:
    """To keep what it leads to would be to keep everything."""
    (tmp_path / ".claude").symlink_to(".")
    with pytest.raises(SandboxError, match=r"symbolic link.*Remove it"):
        Sandbox(tmp_path, "required").run_sync("true")


def test_instructions_that_are_a_link_to_others_are_no_hindrance(tmp_path: Path) -> None:
    """CLAUDE.md is often a link to AGENTS.md, which is kept; and no place is held for names that everybody sees."""
    (tmp_path / "AGENTS.md").write_text("as it was")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / ".cursorrules").symlink_to("AGENTS.md")
    ran = Sandbox(tmp_path, "required").run_sync("ls; echo x >> CLAUDE.md; echo x > GEMINI.md")
    assert ran.text.startswith("AGENTS.md\nCLAUDE.md\n")
    assert (tmp_path / "AGENTS.md").read_text() == "as it was"
    strict = Sandbox(tmp_path, "required", paths=SandboxPaths(protect=("other.md",)))
    strict.run_sync("echo x > other.md")
    assert not (tmp_path / "other.md").exists()


def test_what_is_made_for_agents_to_obey_does_not_keep_its_name(tmp_path: Path) -> None:
    """It is there, under another name, and the result says which; files that were moved aside before are not lost."""
    sandbox = Sandbox(tmp_path, "required")
    for text in ("one", "two"):
        ran = sandbox.run_sync(f"echo {text} > AGENTS.md; mkdir CLAUDE.md; cat AGENTS.md")
        assert ran.text == f"{text}\n", "the command itself sees what it wrote"
    assert ran.set_aside == ("AGENTS.md.from-command-1", "CLAUDE.md.from-command-1")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.from-command{number}"
        for name in ("AGENTS.md", "CLAUDE.md")
        for number in ("", "-1")
    }
    assert (tmp_path / "AGENTS.md.from-command").read_text() == "one\n"
    loose = Sandbox(tmp_path, "required", paths=SandboxPaths(unprotected=("AGENTS.md",)))
    assert loose.run_sync("echo x > AGENTS.md").set_aside == ()
    assert (tmp_path / "AGENTS.md").exists()


def test_instructions_that_are_a_link_stay_one(tmp_path: Path) -> None:
    """The file they point to is kept, under whatever name; a link that is replaced is made again."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rules.txt").write_text("as it was")
    (tmp_path / "CLAUDE.md").symlink_to("docs/rules.txt")
    ran = Sandbox(tmp_path, "required").run_sync(
        "echo x >> docs/rules.txt; rm CLAUDE.md; echo evil > CLAUDE.md; mv docs moved"
    )
    assert ran.set_aside == ("CLAUDE.md.from-command",)
    assert (tmp_path / "CLAUDE.md").read_text() == "as it was"
    assert os.readlink(tmp_path / "CLAUDE.md") == "docs/rules.txt"


@pytest.mark.parametrize(
    "attempt",
    [
        "rm hookline.toml",
        "rm hookline.toml; echo evil > hookline.toml",
        "ln -sf evil hookline.toml",
    ],
)
def test_configuration_that_is_a_link_stays_one(tmp_path: Path, attempt: str) -> None:
    """Also when it is removed. Commands run, and its file is kept, wherever it is."""
    work, shared = tmp_path / "work", tmp_path / "work" / "shared"
    shared.mkdir(parents=True)
    for target in (shared / "h.toml", tmp_path / "outside.toml"):
        target.write_text("as it was")
        link = work / "hookline.toml"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        ran = Sandbox(work, "required").run_sync(
            f"echo x > hookline.toml; mv shared moved; {attempt}; echo ran"
        )
        assert ran.text.endswith("ran\n")
        assert os.readlink(link) == str(target)
        assert target.read_text() == "as it was"


def test_configuration_whose_link_leads_where_it_could_be_changed_is_refused(
    tmp_path: Path,
) -> None:
    """By way of another link, or into another directory that can be written."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "h.toml").write_text("as it was")
    (work / "hookline.toml").symlink_to(other / "h.toml")
    with pytest.raises(SandboxError, match=r"symbolic link"):
        Sandbox(work, "required", paths=SandboxPaths(write=(other,))).run_sync("true")
    (work / "hop").symlink_to(other / "h.toml")
    (work / "hookline.toml").unlink()
    (work / "hookline.toml").symlink_to("hop")
    with pytest.raises(SandboxError, match=r"symbolic link"):
        Sandbox(work, "required").run_sync("true")


async def test_a_file_of_one_command_does_not_stay_because_another_began_later(
    tmp_path: Path,
) -> None:
    """Two that run side by side cannot plant for each other what git would take its configuration from."""
    (tmp_path / ".git").mkdir()
    sandbox, planted = Sandbox(tmp_path, "required"), tmp_path / ".git" / "config.worktree"
    first = await sandbox.start("echo x > .git/config.worktree; sleep 60", on_output=lambda _: None)
    while not planted.exists():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    second = await sandbox.start(
        "while sleep 0.02; do [ -e .git/config.worktree ] || echo x > .git/config.worktree; done",
        on_output=lambda _: None,
    )
    first.kill()
    await first.wait()
    while not planted.exists():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    second.kill()
    await second.wait()
    assert not planted.exists()


def test_nothing_outside_is_renamed_or_removed_through_a_link(tmp_path: Path) -> None:
    """What is done after a command is done outside the sandbox: a directory that became a link is not followed."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "sub").mkdir(parents=True)
    (work / "rules.md").write_text("rules")
    (work / "sub" / "AGENTS.md").symlink_to("../rules.md")
    outside.mkdir()
    for name in ("AGENTS.md", "config.worktree"):
        (outside / name).write_text("theirs")
    ran = Sandbox(work, "required", paths=SandboxPaths(show=(outside,))).run_sync(
        f"mv sub old; ln -s {outside} sub; ln -s {outside} .git"
    )
    assert ran.set_aside == (".git.from-command", "old/AGENTS.md.from-command")
    assert (work / "sub").is_symlink(), "the attempt was made"
    assert {path.name for path in outside.iterdir()} == {"AGENTS.md", "config.worktree"}


def test_nothing_outside_is_cleared_through_a_link_above(tmp_path: Path) -> None:
    """What has the marks of what is made for a command stays as it is where the second directory led to at the end."""
    work, outside = tmp_path / "work", tmp_path / "outside" / "inner"
    (work / "sub" / "inner").mkdir(parents=True)
    for name, mode in ((".vscode", 0o1555), ("deploy", 0o1755)):
        (outside / name).mkdir(parents=True)
        (outside / name).chmod(mode)
    (outside / "deploy" / "file").touch()
    os.mknod(outside / ".envrc", stat.S_IFSOCK | 0o1555)
    before = {path.name: path.stat().st_mode for path in outside.iterdir()}
    paths = SandboxPaths(write=(work / "sub" / "inner",), protect=("deploy/keys",))
    Sandbox(work, "required", paths=paths).run_sync("mv sub old; ln -s ../outside sub")
    assert (work / "sub").is_symlink(), "the attempt was made"
    assert {path.name: path.stat().st_mode for path in outside.iterdir()} == before


def test_no_name_is_held_where_a_link_leads(tmp_path: Path) -> None:
    """A command above may put one on the way while a sandbox is made: then the command is not started."""
    root, outside = tmp_path / "work" / "way" / "inner", tmp_path / "outside" / "inner"
    for place in (root, outside):
        place.mkdir(parents=True)
    protection = Protection(root)
    protection._protect(".vscode")
    away = root.parent.rename(tmp_path / "work" / "away")
    root.parent.symlink_to(outside.parent)
    for name in (".envrc", "deploy/keys"):
        with pytest.raises(SandboxError, match="a link leads there"):
            protection._protect(name)
    os.mknod(outside / ".vscode", stat.S_IFSOCK | 0o1555)
    protection._let_go()
    protection._clear()
    assert os.listdir(outside) == [".vscode"]
    assert os.listdir(away / "inner") == [".vscode"], "it is not known to be there"


def test_the_socket_that_holds_names_is_not_found_by_its_name(tmp_path: Path) -> None:
    """A command may put a file in its place: that gets no further names."""
    protection = Protection(tmp_path)
    protection._protect(".vscode")
    (tmp_path / ".vscode").rename(tmp_path / "moved")
    (tmp_path / ".vscode").write_text("evil")
    protection._protect(".envrc")
    protection._let_go()
    assert (tmp_path / ".envrc").is_socket()
    assert (tmp_path / ".vscode").stat().st_nlink == 1


def test_names_can_be_added_and_left_out(tmp_path: Path) -> None:
    """`protect` keeps more names, `unprotected` fewer."""
    paths = SandboxPaths(protect=("deploy/keys",), unprotected=(".vscode", ".git"))
    made = Sandbox(tmp_path, "required", paths=paths).run_sync(
        "mkdir -p .vscode .git/hooks deploy/other; mkdir deploy/keys/x; ls -d .vscode .git/hooks deploy/*"
    )
    assert (tmp_path / ".vscode").is_dir()
    assert (tmp_path / ".git" / "hooks").is_dir()
    assert (tmp_path / "deploy" / "other").is_dir(), made
    assert not (tmp_path / "deploy" / "keys").exists()


def test_a_home_directory_to_work_in_keeps_its_start_up_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the work directory is a home, what a shell runs and keys that would be trusted cannot be planted."""
    monkeypatch.setenv("HOME", str(place.work))
    (place.work / ".bashrc").write_text("as it was")
    sandbox = Sandbox(place.work, "required")
    sandbox.run_sync(
        "echo x >> .bashrc; echo x > .profile; mkdir .ssh; echo x > .ssh/authorized_keys; echo x > .gitconfig"
    )
    assert [path.name for path in place.work.iterdir()] == [".bashrc"]
    assert (place.work / ".bashrc").read_text() == "as it was"


async def test_commands_at_the_same_time_do_not_unprotect_each_other(sandbox: Sandbox) -> None:
    """To take away what was made would unmount it for the others, so the last one does."""
    heard = bytearray()
    slow = await sandbox.start(
        "sleep 0.5; mkdir .claude/x 2>&1; echo x > .vscode 2>&1; echo done", on_output=heard.extend
    )
    await asyncio.gather(*(sandbox.run("true") for _ in range(3)))
    assert (sandbox.root / ".claude").exists()
    await slow.wait()
    assert heard.endswith(b"done\n")
    assert list(sandbox.root.iterdir()) == []


@pytest.mark.parametrize("kind", ["-s", "-x"])
async def test_a_lock_of_a_command_keeps_no_name_and_no_other_command(
    sandbox: Sandbox, kind: str
) -> None:
    """A command can lock every directory that it can read, also one that can write nothing."""
    locked = asyncio.Event()
    holds = await sandbox.start(
        f"flock {kind} . sh -c 'echo locked; sleep 60'",
        on_output=lambda _: locked.set(),
        place="read-only",
    )
    await locked.wait()
    assert (await sandbox.run("echo ran")).text == "ran\n"
    assert list(sandbox.root.iterdir()) == []
    holds.kill()
    await holds.wait()


def test_what_a_dead_process_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    """What was made is known by its mode, also to a process that did not make it; the user's own is left alone."""
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".idea").mkdir()
    (tmp_path / ".idea" / "file").write_text("x")
    paths = SandboxPaths(protect=("deploy/keys",))
    dead = Protection(tmp_path, paths).hold()
    assert dead.kept
    next_one = Protection(tmp_path, paths).hold()
    next_one.release()
    assert (tmp_path / ".claude").exists(), "the other still holds it"
    dead.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".idea", ".vscode"]


def test_a_work_directory_that_is_a_bare_repository_is_not_mounted_on_itself(
    tmp_path: Path,
) -> None:
    """That would hide what was mounted in it before."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path], check=True)
    held = Protection(tmp_path).hold()
    try:
        assert str(tmp_path) not in map(os.path.normpath, held.pinned)
        assert str(tmp_path / "config") in map(os.path.normpath, held.kept)
    finally:
        held.release()


def test_a_second_directory_to_write_in_is_protected_too(tmp_path: Path) -> None:
    """Each directory that can be written keeps its configuration."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    sandbox = Sandbox(work, "required", paths=SandboxPaths(write=(other,)))
    sandbox.run_sync(f"touch {other}/file; mkdir {other}/.claude; mkdir -p {other}/.vscode")
    assert [path.name for path in other.iterdir()] == ["file"]


def test_names_are_held_by_one_socket(tmp_path: Path) -> None:
    """A file system takes long to find a number for a new file, and little to give it another name."""
    protection = Protection(tmp_path).hold()
    try:
        held = [tmp_path / name for name in NAMES]
        assert {path.is_socket() for path in held} == {True}
        assert len({path.stat().st_ino for path in held}) == 1
    finally:
        protection.release()
    assert os.listdir(tmp_path) == []


def test_names_are_held_where_files_have_one_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then each by a socket of its own."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    protection = Protection(tmp_path).hold()
    try:
        assert {(tmp_path / name).is_socket() for name in NAMES} == {True}
    finally:
        protection.release()
    assert os.listdir(tmp_path) == []


def test_what_somebody_makes_meanwhile_gets_no_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was not there a moment ago is not ours to give names to."""
    real = os.mknod
    first = []

    def too_late(name: str, mode: int, *, dir_fd: int) -> None:
        if not first:
            first.append(tmp_path / name)
            first[0].write_text("of the user")
        real(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mknod", too_late)
    protection = Protection(tmp_path).hold()
    try:
        assert first[0].stat().st_nlink == 1
    finally:
        protection.release()
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["of the user"]


def test_what_is_kept_and_missing_cannot_be_made(tmp_path: Path) -> None:
    """Nor a directory above it that is missing; the root itself is never kept."""
    (tmp_path / "there").mkdir()
    sandbox = Sandbox(tmp_path, "required")
    sandbox.keep(tmp_path / "gone", tmp_path / "no/where", tmp_path / "there", tmp_path)
    tried = "touch gone; mkdir no; touch there/x; echo x > other"
    assert sandbox.run_sync(tried).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["other", "there"]
    assert os.listdir(tmp_path / "there") == []
