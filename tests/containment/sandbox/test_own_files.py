"""A command changes no file outside through a second name of it in the work directory."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import Sandbox, SandboxPaths
from hookline.containment.sandbox import own_files
from hookline.containment.sandbox.work_tree import work_tree
from hookline.errors import SandboxError

from .conftest import GIT, needs_bubblewrap

pytestmark = needs_bubblewrap

WRITE_ALL = "find . -type f -links +1; for f in $(find . -name '*.py'); do echo theirs > $f; done"


def _file(path: Path, text: str = "ours\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _link(old: Path, new: Path) -> Path:
    new.parent.mkdir(parents=True, exist_ok=True)
    os.link(old, new)
    return new


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work directory."""
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_environments_that_share_their_files(tmp_path: Path, work: Path) -> None:
    """As uv makes them: a cache, an environment outside, and two in the work directory, one of them read-only."""
    names = [f"lib/site-packages/{name}.py" for name in ("one", "two", "deep/three")]
    for name in names:
        cached = _file(tmp_path / "cache" / name)
        for environment in ("other", "work/.venv", "work/tool"):
            _link(cached, tmp_path / environment / name)
    inside = _link(_file(work / "a.py"), work / "b.py")
    sandbox = Sandbox(work, "required", paths=SandboxPaths(keep=(work / "tool",)))
    held = (work / "tool" / names[0]).stat()

    result = sandbox.run_sync(WRITE_ALL)

    assert not result.set_aside
    shown = {line for line in result.text.splitlines() if line.endswith(".py") and " " not in line}
    assert shown == {"./a.py", "./b.py", *(f"./tool/{name}" for name in names)}
    for name in names:
        for environment in ("cache", "other", "work/tool"):
            assert (tmp_path / environment / name).read_text() == "ours\n"
        assert (work / ".venv" / name).read_text() == "theirs\n"
    assert inside.samefile(work / "a.py"), "what is shared in there alone stays shared"
    assert (work / "tool" / names[0]).stat().st_ino == held.st_ino, "nobody can write it: no copy"

    # The user installs something, and removes a name of what is shared inside.
    late = _link(tmp_path / "cache" / names[0], work / ".venv/lib/site-packages/late.py")
    inside.unlink()
    sandbox.run_sync("echo theirs > .venv/lib/site-packages/late.py")
    assert late.read_text() == "theirs\n"
    assert (tmp_path / "cache" / names[0]).read_text() == "ours\n"
    assert not work_tree(str(work)).shared
    assert not [*tmp_path.rglob(".hookline-*")]


def test_objects_of_a_clone(tmp_path: Path, work: Path) -> None:
    """`git clone DIR` shares them: they are read-only by their mode, which a command can change."""
    source = tmp_path / "source"
    _file(source / "build.sh", "fine\n")
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*GIT, *args], cwd=source, check=True)
    work.rmdir()
    subprocess.run(["git", "clone", "-q", source, work], check=True)
    objects = [path for path in (source / ".git/objects").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in objects}
    assert any(path.stat().st_nlink > 1 for path in objects)

    sandbox = Sandbox(work, "required")
    spoil = "chmod -R u+w .git/objects; for f in $(find .git/objects -type f); do echo x > $f; done"
    assert "fine" in sandbox.run_sync("git log -p").text
    assert sandbox.run_sync(spoil).exit_code == 0

    assert {path: path.read_bytes() for path in objects} == before
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o444 for path in objects)


def test_what_a_copy_has_of_its_file(tmp_path: Path, work: Path) -> None:
    """Mode, times and attributes; not the set-id bits."""
    outside = _file(tmp_path / "outside", "text")
    outside.chmod(0o6751)
    os.utime(outside, ns=(1_000_000_007, 2_000_000_009))
    with suppress(OSError):  # a file system without them
        os.setxattr(outside, "user.note", b"kept")
    attributes = os.listxattr(outside)
    inside = _link(outside, work / "f")
    empty = _link(_file(tmp_path / "empty", ""), work / "empty")

    Sandbox(work, "required").run_sync("true")

    facts, old = inside.lstat(), outside.lstat()
    assert (facts.st_nlink, old.st_nlink, empty.stat().st_nlink) == (1, 1, 1)
    assert stat.S_IMODE(facts.st_mode) == 0o751
    assert stat.S_IMODE(old.st_mode) == 0o6751
    assert facts.st_mtime_ns == 2_000_000_009
    assert (facts.st_uid, facts.st_gid) == (old.st_uid, old.st_gid)
    assert [each for each in os.listxattr(inside) if each in attributes] == attributes
    assert inside.read_text() == "text"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_somebody_else(tmp_path: Path, work: Path) -> None:
    """Those that commands cannot write stay as they are; others keep their owner."""
    outside = [_file(tmp_path / name) for name in ("closed", "open")]
    for path, mode in zip(outside, (0o644, 0o666), strict=True):
        os.chown(path, 1234, 1235)
        path.chmod(mode)
        _link(path, work / path.name)

    Sandbox(work, "required").run_sync("for f in closed open; do echo theirs > $f; done")

    assert [path.read_text() for path in outside] == ["ours\n", "ours\n"]
    assert [(work / name).read_text() for name in ("closed", "open")] == ["ours\n", "theirs\n"]
    assert [(work / name).stat().st_nlink for name in ("closed", "open")] == [2, 1]
    assert (work / "open").stat().st_uid == 1234


def test_what_cannot_be_copied_is_read_only(
    tmp_path: Path,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Too much: the smaller entries are copied, the rest cannot be written, and that is said with what helps."""
    for number in range(150):
        _link(_file(tmp_path / f"out/{number}.py"), work / f"large/{number % 5}/{number}.py")
    _link(_file(tmp_path / "out/small.py"), work / "small.py")
    _file(work / "large/own.py")
    monkeypatch.setattr(own_files, "_MOST_FILES", 100)
    sandbox = Sandbox(work, "required")
    with caplog.at_level(logging.WARNING, "hookline.containment"):
        for _ in range(2):
            sandbox.run_sync(f"{WRITE_ALL}; mv large/0 moved; echo theirs > moved/0.py")

    assert {path.read_text() for path in (tmp_path / "out").iterdir()} == {"ours\n"}
    assert (work / "small.py").read_text() == (work / "large/own.py").read_text() == "theirs\n"
    assert work_tree(str(work)).shared == [f"large/{number}" for number in range(5)]
    for said in (sandbox.describe(), caplog.text):
        assert "'large/0'" in said
        assert "UV_LINK_MODE=copy" in said
    assert caplog.text.count("UV_LINK_MODE") == 1

    monkeypatch.setattr(own_files, "_MOST_BYTES", 0)
    one = tmp_path / "one"
    _link(_file(tmp_path / "out/full.py"), one / "full.py")
    with pytest.raises(SandboxError, match="UV_LINK_MODE"):
        Sandbox(work, "required", paths=SandboxPaths(tmp=one)).run_sync("true")
    Sandbox(one, "required").run_sync("echo theirs > full.py; mv full.py x; echo theirs > x")
    assert (tmp_path / "out/full.py").read_text() == "ours\n"

    # The user makes the files anew, as the message says.
    for path in (work / "large").rglob("*.py"):
        text = path.read_text()
        path.unlink()
        path.write_text(text)
    assert sandbox.run_sync("echo theirs > large/1/1.py").exit_code == 0
    assert "UV_LINK_MODE" not in sandbox.describe()


def test_a_protected_file_with_another_name(work: Path) -> None:
    """By its other name it could be changed: that one becomes a file of its own, and nothing is moved aside."""
    for name in ("AGENTS.md", ".claude/settings.json", ".git/config"):
        _link(_file(work / name), work / f"twin-{os.path.basename(name)}")
    for place in ("objects", "refs"):
        (work / ".git" / place).mkdir()
    _file(work / ".git/HEAD", "ref: refs/heads/main\n")
    sandbox = Sandbox(work, "required")

    result = sandbox.run_sync("for f in twin-*; do echo theirs > $f; done")

    assert (result.exit_code, result.set_aside) == (0, ())
    for name in ("AGENTS.md", ".claude/settings.json", ".git/config"):
        assert (work / name).read_text() == "ours\n"
    loose = Sandbox(work, "required", paths=SandboxPaths(unprotected=("AGENTS.md",)))
    _link(work / "AGENTS.md", work.parent / "outside.md")
    assert loose.run_sync("echo theirs > AGENTS.md").exit_code == 0
    assert (work.parent / "outside.md").read_text() == "ours\n"


def test_the_read_only_place_copies_nothing(tmp_path: Path, work: Path) -> None:
    """Nothing can be written there."""
    inside = _link(_file(tmp_path / "outside"), work / "f")
    sandbox = Sandbox(work, "required", place="read-only")
    assert sandbox.run_sync("echo theirs > f").exit_code != 0
    assert inside.stat().st_nlink == 2


EXCHANGE = """
import os, sys
outside, stop = sys.argv[1:]
while not os.path.exists(stop):
    for act in (
        lambda: os.rename("a", "b"), lambda: os.symlink(outside, "a"), lambda: os.unlink("a"),
        lambda: os.rename("b", "a"), lambda: os.link("a/f0", "a/g"), lambda: os.unlink("a/g"),
    ):
        try:
            act()
        except OSError:
            pass
"""


async def test_a_command_that_exchanges_directories_meanwhile(tmp_path: Path, work: Path) -> None:
    """Nothing outside is replaced or written. A command whose directories are exchanged is not started."""
    outside = tmp_path / "outside"
    files = [_file(outside / f"f{number}") for number in range(5)]
    (work / "a").mkdir()
    _file(work / "x.py", EXCHANGE)
    sandbox = Sandbox(work, "required")
    before = {path: path.stat().st_ino for path in files}
    running = await sandbox.start(
        [sys.executable, "x.py", str(outside), "stop"], on_output=lambda _: None
    )
    try:
        for turn in range(15):
            for number, path in enumerate(files):
                with suppress(OSError):
                    os.link(path, work / f"a/f{number}", follow_symlinks=False)
            _link(files[0], work / f"d{turn}/f")
            with suppress(SandboxError):
                await sandbox.run(f"echo theirs > d{turn}/f")
            shutil.rmtree(work / f"d{turn}")
    finally:
        _file(work / "stop")
        await running.wait()
    assert {path: path.stat().st_ino for path in files} == before
    assert {path.read_text() for path in files} == {"ours\n"}
    assert sorted(path.name for path in outside.iterdir()) == [f"f{number}" for number in range(5)]


LOOP = "for i in $(seq 400); do {}; test -e over && break; sleep 0.02; done; true"


async def _beside(sandbox: Sandbox, line: str, *others: Sandbox, **options: Any) -> str:
    """What a command prints that runs while others start commands there, and another process does."""
    printed: list[bytes] = []
    first = await sandbox.start(LOOP.format(line), on_output=printed.append, **options)
    while not printed:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    for other in others:
        code = f"from hookline.containment import Sandbox; Sandbox({str(other.root)!r}).run_sync('true')"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        assert await process.wait() == 0
        await other.run("true")
    await sandbox.run("sleep 0.1; touch over")
    await first.wait()
    return b"".join(printed).decode()


@pytest.mark.parametrize("place", ["read-only", "workspace"])
async def test_a_command_that_runs_sees_no_hidden_file_when_another_starts(
    tmp_path: Path, work: Path, place: Any
) -> None:
    """To replace a hidden file by a copy would show it, so it is not copied."""
    for name in (".env", "hidden.txt", "conf/target"):
        _link(_file(work / name, "SECRET\n"), tmp_path / "outside" / name)
    (work / "prod.env").symlink_to("conf/target")
    printed = await _beside(
        Sandbox(work, "required"),
        "cat .e[n]v conf/targe[t]; echo looked",
        Sandbox(work, "required"),
        place=place,
    )
    assert "looked" in printed
    assert "SECRET" not in printed
    (work / "over").unlink()
    hides = Sandbox(work, "required", paths=SandboxPaths(hide=(work / "hidden.txt",)))
    assert "SECRET" not in await _beside(hides, "cat hidd[e]n.txt; echo looked", place=place)


async def test_what_one_command_cannot_write_stays_so_when_another_starts(
    tmp_path: Path, work: Path
) -> None:
    """Another sandbox does not know what this one keeps. It copies nothing while a command runs, but afterwards."""
    script = _file(work / "check.py")
    _link(script, tmp_path / "outside.py")
    sandbox = Sandbox(work, "required", paths=SandboxPaths(keep=(script,)))
    other = Sandbox(work, "required")
    await _beside(sandbox, "echo theirs 2>/dev/null > check.py; echo tried", other)
    assert script.read_text() == "ours\n"
    await other.run("echo theirs > check.py")
    assert script.read_text() == "theirs\n"
    assert (tmp_path / "outside.py").read_text() == "ours\n"


def test_what_is_not_copied_cannot_be_moved_from_its_mount(tmp_path: Path, work: Path) -> None:
    """A command that starts while another moves the directory of such a file would not find it."""
    secret = _link(_file(tmp_path / "outside.env"), work / "a" / "b" / ".env")
    ran = Sandbox(work, "required").run_sync("mv a/b a/c; mv a d; echo $?")
    assert ran.text.count("Device or resource busy") == 2
    assert secret.samefile(tmp_path / "outside.env")
