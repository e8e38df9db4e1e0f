"""The read-only place: nothing that a command writes outlives it, and it reaches nobody."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from hookline.containment import RunningCommand, Sandbox, SandboxGrant, SandboxPaths
from hookline.errors import SandboxError, UsageError

from .conftest import Place, needs_bubblewrap

pytestmark = needs_bubblewrap


async def begun(work: Path, command: str) -> RunningCommand:
    """A command of the read-only place that has printed something."""
    printed = asyncio.Event()
    sandbox = Sandbox(work, "required", place="read-only")
    running = await sandbox.start(command, on_output=lambda _: printed.set())
    await printed.wait()
    return running


def snapshot(base: Path) -> dict[str, tuple[object, ...]]:
    """All that can be known of a tree from outside, the times included."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [base, *base.rglob("*")]:
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
        times = (facts.st_mtime_ns, facts.st_ctime_ns)
        found[str(path)] = (
            facts.st_mode,
            facts.st_uid,
            facts.st_nlink,
            facts.st_ino,
            content,
            times,
        )
    return found


CHANGES = """
echo x > file; echo x >> file; : > file; truncate -s 0 file; rm -f file; mv file other; ln file hard; ln -s file soft
mkdir -p deep/er; touch new .new AGENTS.md; chmod 777 file; chmod u+s file; touch -d 2001-01-01 file; mkfifo pipe
chown 1 file; setfattr -n user.x -v y file; chattr +i file; rm -rf sub .git; cp file copy
dd if=/dev/zero of=big count=1; sed -i s/a/b/ file; git init -q .; git config user.name x; mknod null c 1 3
install file tool; : | tee file
python3 -c "import os; os.utime('file'); os.truncate('file', 0); os.setxattr('file', 'user.x', b'y')"
echo x > sub/../../outside/file; echo x > /etc/motd; echo x > /usr/x; echo 1 > /proc/sys/kernel/sysrq; echo x > /sys/x
"""


def test_no_change_of_any_kind_is_seen_afterwards(place: Place) -> None:
    """Neither in the work directory nor in another one that commands may write elsewhere, nor in the rest."""
    (place.work / "sub").mkdir()
    (place.work / ".git").mkdir()
    (place.work / "file").write_text("content")
    (place.work / "sub" / "inner").write_text("content")
    place.own()
    before = snapshot(place.base)
    script = CHANGES.strip().replace("\n", ";")
    for directory in (place.work, place.outside):
        ran = place.run(
            f"cd {directory} || exit 9; {script}; true",
            where="read-only",
            write=[str(place.outside)],
        )
        assert ran.exit_code == 0
        assert "Read-only file system" in ran.text
    assert snapshot(place.base) == before


def test_temporary_directories_the_home_and_caches_are_the_commands_own(place: Place) -> None:
    """A command can write there as programs do, and the next one finds nothing of it."""
    spots = (
        "/tmp",
        "/var/tmp",
        "/run",
        "/dev/shm",
        "$HOME",
        "$XDG_CACHE_HOME",
        "$TMPDIR",
        "$HOME/.new",
    )
    name = f"left-{os.getpid()}"
    made = "; ".join(f'mkdir -p "{spot}" && echo x > "{spot}/{name}"' for spot in spots)
    looked = "; ".join(f'cat "{spot}/{name}" 2>/dev/null' for spot in spots)
    before = snapshot(place.base)
    assert place.run(f"set -e; {made}; {looked}", where="read-only").text == "x\n" * len(spots)
    assert place.run(f"{looked}; true", where="read-only").text == ""
    assert snapshot(place.base) == before
    assert not any(os.path.exists(f"{spot}/{name}") for spot in spots[:4])


def test_the_home_directory_is_there_and_its_secrets_are_not(place: Place) -> None:
    """What is in it can be read under its own name, and not written; new files are the command's own."""
    (place.home / "notes").write_text("notes")
    (place.home / "link").symlink_to("notes")
    place.own()
    elsewhere = Path(f"/hookline-home-{os.getpid()}")
    if os.geteuid() != 0:
        pytest.skip("a home directory outside of /tmp is made by root")
    subprocess.run(["cp", "-a", place.home, elsewhere], check=True)
    place.home = elsewhere
    try:
        ran = place.run(
            "cat ~/notes ~/link; cat ~/.netrc ~/.ssh/* 2>&1; echo x > ~/notes; echo x > ~/new && cat ~/new; true",
            where="read-only",
        )
        assert ran.text.startswith("notesnotes")
        assert "private key" not in ran.text
        assert "password" not in ran.text
        assert ran.text.endswith("Read-only file system\nx\n")
        assert not (elsewhere / "new").exists()
        assert (elsewhere / "notes").read_text() == "notes"
    finally:
        subprocess.run(["rm", "-rf", elsewhere], check=True)


def test_a_home_directory_that_is_the_work_directory_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model writes there must not seem to have been written."""
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = Sandbox(tmp_path, "required", place="read-only").run_sync("echo x > ~/new; ls -A ~")
    assert ran.text.endswith("Read-only file system\n")


def test_nobody_is_reached(place: Place) -> None:
    """No port, no named socket, no abstract one, no shared memory, no queue, no process."""
    port_path = place.work / "socket"
    name = f"hookline-{os.getpid()}"
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x4B1E
    shared = libc.shmget(key, 4096, 0o1666)
    assert shared >= 0
    tcp = socket.create_server(("127.0.0.1", 0))
    named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    try:
        named.bind(str(port_path))
        abstract.bind(f"\0{name}")
        for each in (named, abstract):
            each.listen()
        port_path.chmod(0o777)
        code = f"""
import ctypes, os, signal, socket
def attempt(what, act):
    try: act()
    except OSError as error: return
    print("reached", what)
attempt("a port", lambda: socket.create_connection(("127.0.0.1", {tcp.getsockname()[1]}), 2))
attempt("a socket", lambda: socket.socket(socket.AF_UNIX).connect({str(port_path)!r}))
attempt("an abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\\0{name}"))
attempt("a process", lambda: os.kill({os.getpid()}, 0))
if ctypes.CDLL(None).shmget({key}, 4096, 0) >= 0: print("reached shared memory")
"""
        assert place.run_python(code, where="read-only").text == ""
    finally:
        libc.shmctl(shared, 0, None)
        for each in (tcp, named, abstract):
            each.close()


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    """The time at which a file was last read stays what it was, also where the file system keeps it."""
    (tmp_path / "file").write_text("x")
    os.utime(tmp_path / "file", (1, 1))
    assert Sandbox(tmp_path, "required", place="read-only").run_sync("cat file").text == "x"
    assert (tmp_path / "file").stat().st_atime == 1


def test_a_device_of_the_work_directory_cannot_be_opened(tmp_path: Path) -> None:
    """Writing to one would need no file system."""
    try:
        os.mknod(tmp_path / "disk", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make a device")
    ran = Sandbox(tmp_path, "required", place="read-only").run_sync("echo x > disk")
    assert "Permission denied" in ran.text


def test_a_lock_ends_with_the_command(tmp_path: Path) -> None:
    """A file can be locked without being written: for as long as the command runs, as the documentation says."""

    async def story() -> None:
        (tmp_path / "file").write_text("")
        running = await begun(tmp_path, "exec 9<file; flock -x 9; echo locked; sleep 60")
        with (tmp_path / "file").open() as ours, pytest.raises(BlockingIOError):
            fcntl.flock(ours, fcntl.LOCK_SH | fcntl.LOCK_NB)
        running.kill()
        await running.wait()
        with (tmp_path / "file").open() as ours:
            fcntl.flock(ours, fcntl.LOCK_SH | fcntl.LOCK_NB)

    asyncio.run(story())


def test_a_pipe_that_a_program_of_the_user_reads_can_be_written(tmp_path: Path) -> None:
    """No mount keeps a named pipe from being written, as the documentation says; without a reader nothing is left."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    sandbox = Sandbox(tmp_path, "required", place="read-only")
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    sandbox.run_sync("echo from inside > pipe", timeout=30)
    reader.join(30)
    assert heard == ["from inside\n"]
    ran = sandbox.run_sync("echo nobody reads > pipe", timeout=1)
    assert ran.ended == "timeout"


def test_nothing_holds_a_name_and_nothing_is_moved_aside(tmp_path: Path) -> None:
    """What cannot be written needs no protection: nothing is made in the work directory, and nothing locks it."""

    async def story() -> list[str]:
        running = await begun(tmp_path, "ls -A; echo on; sleep 60")
        seen = os.listdir(tmp_path)
        directory = os.open(tmp_path, os.O_RDONLY)
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(directory)
        running.kill()
        await running.wait()
        assert running.set_aside == ()
        return seen

    assert asyncio.run(story()) == []


def test_a_command_chooses_its_place(tmp_path: Path) -> None:
    """Each command can run in another place than the sandbox's own; the result says in which it ran."""
    usual, strict = Sandbox(tmp_path, "required"), Sandbox(tmp_path, "required", place="read-only")
    assert usual.run_sync("touch a", place="read-only").exit_code == 1
    assert not (tmp_path / "a").exists()
    assert strict.run_sync("touch a").exit_code == 1
    made = strict.run_sync("touch a", place="workspace")
    assert (made.exit_code, made.place, made.contained) == (0, "workspace", True)
    assert (tmp_path / "a").exists()
    outside = strict.run_sync("true", place="host")
    assert (outside.place, outside.contained) == ("host", False)
    host = Sandbox(tmp_path, "host")
    assert (host.place, host.sandbox, host.status.contained) == ("host", "auto", False)
    inside = host.run_sync("touch b", place="read-only")
    assert (inside.exit_code, inside.place, inside.contained) == (1, "read-only", True)


def test_no_grant_makes_it_less_than_read_only(tmp_path: Path) -> None:
    """Whoever reads `read-only` need not look for exceptions."""
    sandbox = Sandbox(tmp_path, "required", place="read-only")
    with pytest.raises(UsageError, match="read-only place cannot be given"):
        sandbox.run_sync("true", grant=SandboxGrant(network=True))


def test_where_there_is_no_sandbox_a_named_place_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` is about the usual place. What is asked for by name is never the host instead."""

    def missing() -> object:
        raise SandboxError("bubblewrap is not installed.", remedy="Install it.")

    monkeypatch.setattr("hookline.containment.sandbox.sandbox.run_selftest", missing)
    sandbox = Sandbox(tmp_path, place="read-only")
    assert not sandbox.can_contain()
    assert sandbox.run_sync("true").place == "host"
    for place in ("read-only", "workspace"):
        with pytest.raises(SandboxError, match=f"place='{place}' needs a sandbox"):
            sandbox.run_sync("true", place=place)  # type: ignore[arg-type]
    with pytest.raises(SandboxError, match="a sandbox is required"):
        Sandbox(tmp_path, "required", place="read-only")


def test_a_directory_for_tmp_is_not_given_to_it(tmp_path: Path) -> None:
    """It lasts, so it is for the workspace alone."""
    work, own = tmp_path / "work", tmp_path / "own"
    for each in (work, own):
        each.mkdir()
    sandbox = Sandbox(work, "required", paths=SandboxPaths(tmp=own))
    assert sandbox.run_sync("echo x > /tmp/left", place="read-only").exit_code == 0
    assert list(own.iterdir()) == []
    assert sandbox.run_sync("echo x > /tmp/left").exit_code == 0
    assert (own / "left").read_text() == "x\n"
    assert sandbox.run_sync("cat /tmp/left", place="read-only").exit_code == 1
