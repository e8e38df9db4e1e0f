"""The sandbox as it is used: modes, what is said about them, commands and their results."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from hookline.containment import Sandbox, SandboxGrant, SandboxLimits, SandboxPaths
from hookline.containment.sandbox import bubblewrap, mounts, seccomp, selftest
from hookline.errors import SandboxError, UsageError

from .conftest import Place, needs_bubblewrap


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine on which it is not installed."""
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name, path=None: None)
    for known in (bubblewrap.find_installed, selftest._outcome):
        known.cache_clear()
    yield
    for known in (bubblewrap.find_installed, selftest._outcome):
        known.cache_clear()


@pytest.mark.usefixtures("without_bubblewrap")
def test_required_and_missing_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    """Not when the first command is to run, but when the sandbox is made."""
    with pytest.raises(SandboxError) as caught:
        Sandbox(tmp_path, "required")
    assert "bubblewrap (the program `bwrap`) is not installed" in caught.value.message
    assert "apt-get install bubblewrap" in caught.value.remedy


@pytest.mark.usefixtures("without_bubblewrap")
def test_auto_and_missing_is_the_host_and_said_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the status, in words, in the log, and with every result."""
    sandbox = Sandbox(tmp_path)
    with caplog.at_level(logging.WARNING, "hookline.containment"):
        assert not sandbox.status.contained
    assert sandbox.status.driver == "host"
    assert "apt-get" in sandbox.status.remedy
    assert sandbox.describe().startswith("NOT CONTAINED, commands run on the host: bubblewrap")
    assert caplog.messages == [sandbox.describe()]
    assert not sandbox.run_sync("true").contained


@needs_bubblewrap
def test_a_sandbox_that_lets_something_through_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own test of itself finds a filter that refuses nothing, a view in which secrets are seen, and the like."""
    allow_all = bytes.fromhex("06000000 0000ff7f")
    holes = {
        "filter_program": (lambda **_: allow_all, "set the set-user-id bit"),
        "_isolation": (
            lambda *_: iter(["--unshare-user", "--unshare-pid"]),
            "connect to a TCP port",
        ),
    }
    for name, (hole, words) in holes.items():
        with monkeypatch.context() as patched:
            patched.setattr(bubblewrap, name, hole)
            selftest._outcome.cache_clear()
            with pytest.raises(SandboxError, match=f"does not protect here.*{words}"):
                Sandbox(tmp_path, "required")
    selftest._outcome.cache_clear()
    assert Sandbox(tmp_path, "required").status.contained


@needs_bubblewrap
def test_bubblewrap_that_fails_is_quoted_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has its output, and what usually helps."""
    error = selftest._does_not_start("bwrap: setting up uid map: Permission denied")
    assert "setting up uid map: Permission denied" in error.message
    assert "apparmor_restrict_unprivileged_userns" in error.remedy


@needs_bubblewrap
def test_the_filter_is_what_the_test_looks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a filter that does not look at sockets, the one of ours is reached, however long its path is."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(selftest.tempfile, "tempdir", str(deep))
    rules = [rule for rule in seccomp._named_rules() if not rule[0].startswith("socket")]
    monkeypatch.setattr(seccomp, "_named_rules", lambda: rules)
    monkeypatch.setattr(bubblewrap, "filter_program", seccomp.filter_program.__wrapped__)
    worked = selftest._try_to_escape()
    assert worked == ["connect to a unix socket of the host", "make a pair of datagram sockets"]


@needs_bubblewrap
async def test_many_commands_at_once_leave_nothing_behind(sandbox: Sandbox) -> None:
    """No file descriptor, no directory; each has its own output."""
    await sandbox.run("true")
    before = len(os.listdir("/proc/self/fd"))
    results = await asyncio.gather(*(sandbox.run(f"echo {number}") for number in range(20)))
    assert [result.text for result in results] == [f"{number}\n" for number in range(20)]
    assert list(sandbox.root.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@needs_bubblewrap
def test_the_test_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sandboxes of a process share what it found."""
    Sandbox(tmp_path, "required")
    monkeypatch.setattr(selftest, "_try_to_escape", lambda: pytest.fail("tested again"))
    assert Sandbox(tmp_path, "required").status.contained


def test_host_is_what_was_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says so, and does not warn."""
    sandbox = Sandbox(tmp_path, "host")
    assert sandbox.describe() == "NOT CONTAINED, commands run on the host: the place is host"
    assert sandbox.run_sync("pwd").text == f"{sandbox.root}\n"
    assert not caplog.messages


@pytest.mark.parametrize("mode", ["auto", "host"])
def test_a_command_gives_output_code_and_time(
    tmp_path: Path, mode: Literal["required", "host"]
) -> None:
    """Both streams come in the order they were written; a list is run without a shell; there is no input."""
    sandbox = Sandbox(tmp_path, mode)
    result = sandbox.run_sync("echo one; echo two >&2; echo three; cat; exit 7")
    assert (result.text, result.exit_code, result.ended) == ("one\ntwo\nthree\n", 7, "exited")
    assert 0 < result.duration < 30
    assert sandbox.run_sync(["printf", "%s", "$HOME *"]).text == "$HOME *"
    assert sandbox.run_sync("kill -9 $$").exit_code == 137
    assert sandbox.run_sync(["no-such-program"]).exit_code == 127
    assert sandbox.run_sync("printf '\\377\\0'").output == b"\xff\0"


@pytest.mark.parametrize("mode", ["auto", "host"])
async def test_output_comes_as_it_is_printed(
    tmp_path: Path, mode: Literal["required", "host"]
) -> None:
    """Listeners get it while the command runs."""
    heard: list[bytes] = []
    running = await Sandbox(tmp_path, mode).start("echo first; sleep 30", on_output=heard.append)
    while not heard:  # noqa: ASYNC110 - a callback fills it
        await asyncio.sleep(0.01)
    assert heard == [b"first\n"]
    assert running.is_running
    running.kill()
    assert await running.wait() == 137
    assert running.ended == "stopped"


@pytest.mark.parametrize("mode", ["auto", "host"])
async def test_a_time_out_on_either_ends_everything(
    tmp_path: Path, mode: Literal["required", "host"]
) -> None:
    """Also what has left the group: its output would keep us waiting otherwise."""
    result = await Sandbox(tmp_path, mode).run(
        "setsid sleep 60 & (sleep 60 &) ; sleep 60", timeout=0.3
    )
    assert (result.ended, result.exit_code) == ("timeout", 137)
    assert result.duration < 10


@pytest.mark.parametrize("mode", ["auto", "host"])
def test_variables_go_in_by_name(
    tmp_path: Path, mode: Literal["required", "host"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were allowed and those that were given; no others, on the host neither."""
    monkeypatch.setenv("ALLOWED", "yes")
    monkeypatch.setenv("API_KEY", "secret")
    sandbox = Sandbox(tmp_path, mode, env={"GIVEN": "a=b c"}, pass_env=("ALLOWED",))
    seen = sandbox.run_sync("env", env={"ONCE": "x"}).text
    assert {"ALLOWED=yes", "GIVEN=a=b c", "ONCE=x"} <= set(seen.splitlines())
    assert "API_KEY" not in seen


@pytest.mark.parametrize("mode", ["auto", "host"])
def test_the_directory_to_run_in(tmp_path: Path, mode: Literal["required", "host"]) -> None:
    """Relative to the work directory; one that is missing is named."""
    (tmp_path / "sub").mkdir()
    sandbox = Sandbox(tmp_path, mode)
    assert sandbox.run_sync("pwd", cwd="sub").text == f"{sandbox.root / 'sub'}\n"
    with pytest.raises(SandboxError, match=r"there is no directory '.*nowhere' to run in"):
        sandbox.run_sync("true", cwd="nowhere")


def test_bad_input_is_named(tmp_path: Path) -> None:
    """The message says which, and what would be right."""
    host = Sandbox(tmp_path, "host")
    for wrong, words in [
        (
            lambda: Sandbox(tmp_path, "none"),
            "sandbox='none' means nothing.*'required', 'auto' or 'host'",
        ),  # type: ignore[arg-type]
        (lambda: Sandbox(tmp_path / "missing"), "there is no directory"),
        (lambda: Sandbox("/"), "is a system directory"),
        (lambda: Sandbox(tmp_path, pass_env="HOME"), r"pass_env=\('HOME',\)"),
        (lambda: Sandbox(tmp_path, env={"A=B": "x"}), "cannot be a variable"),
        (lambda: SandboxPaths(hide="/etc"), r"hide=\('/etc',\)"),
        (lambda: SandboxPaths(hide=("keys",)), "'keys' in it, which is not an absolute path"),
        (lambda: SandboxPaths(protect=("*.lock",)), "must be named without patterns"),
        (lambda: SandboxPaths(protect=("../x",)), "'../x' in it, which is not a name below"),
        (lambda: SandboxPaths(protect=("/etc/x",)), "'/etc/x' in it, which is not a name below"),
        (lambda: Sandbox(tmp_path, paths={}), r"paths=\{\} is not a SandboxPaths"),  # type: ignore[arg-type]
        (lambda: Sandbox(tmp_path, limits={"memory": 1}), "is not a SandboxLimits"),  # type: ignore[arg-type]
        (lambda: Sandbox(None), "None is not a directory"),  # type: ignore[arg-type]
        (lambda: host.run_sync(5), "5 is not a command"),  # type: ignore[arg-type]
        (lambda: host.run_sync([]), "no command to run"),
        (lambda: host.run_sync("a\0b"), "NUL byte"),
        (lambda: host.run_sync("a\ud800b"), "an incomplete character in the command"),
        (lambda: host.run_sync("x" * 200_000), "too long for a program"),
        (lambda: host.run_sync("true", cwd="a\ud800"), "is not a path"),
        (lambda: host.run_sync("true", cwd="a\0"), "is not a path"),
        (lambda: host.run_sync("true", env={"A": "\ud800"}), "'A' cannot be a variable"),
        (lambda: host.run_sync(["x", 3]), "3 in the command is not text"),  # type: ignore[list-item]
        (lambda: host.run_sync("true", timeout=0), "timeout=0 is not a number of seconds above 0"),
    ]:
        with pytest.raises((SandboxError, UsageError), match=words):
            wrong()


@needs_bubblewrap
def test_the_network_can_be_given_to_one_command(place: Place) -> None:
    """With it a server of the host is reached, and unix sockets still are not; the next command has none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]
        code = (
            f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('reached')"
        )
        assert "refused" in place.run_python(code).text
        assert place.run_python(code, grant={"network": True}).text == "reached\n"
        server.accept()[0].close()
    names = "import socket; print(open('/etc/resolv.conf').read() != '', socket.getaddrinfo('localhost', 80)[0][4][1])"
    assert place.run_python(names, grant={"network": True}).text == "True 80\n"
    unix = "import socket; socket.socket(socket.AF_UNIX)"
    assert "PermissionError" in place.run_python(unix, grant={"network": True}).text


@needs_bubblewrap
def test_where_names_are_looked_up_is_seen_with_the_network(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many systems keep it in a directory that is emptied; without the network it stays away."""
    settings = tmp_path / "resolv.conf"
    settings.write_text("nameserver 192.0.2.1")
    monkeypatch.setattr(mounts, "_names", lambda: [str(settings)])
    assert sandbox.run_sync(f"cat {settings}").exit_code == 1
    given = sandbox.run_sync(f"cat {settings}", grant=SandboxGrant(network=True))
    assert given.text == "nameserver 192.0.2.1"


@needs_bubblewrap
def test_secrets_that_a_variable_names_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that lie elsewhere are found by the variable that says so."""
    work, keys = tmp_path / "work", tmp_path / "keys"
    work.mkdir()
    keys.mkdir()
    (keys / "a").write_text("key")
    (keys / "b").write_text("key")
    monkeypatch.setenv("KUBECONFIG", f"{keys / 'a'}:{keys / 'b'}")
    sandbox = Sandbox(work, "required", paths=SandboxPaths(show=(keys,)))
    assert "key\n" not in sandbox.run_sync(f"cat {keys}/a; cat {keys}/b; ls {keys}").text
    monkeypatch.delenv("KUBECONFIG")
    assert sandbox.run_sync(f"cat {keys}/a").text == "key"


@needs_bubblewrap
def test_a_bubblewrap_that_commands_could_replace_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was put into the search path is not found before the system's; one of the project is refused."""
    planted = tmp_path / "bin" / "bwrap"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch planted-ran\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}:/usr/bin:/bin")
    bubblewrap.find_installed.cache_clear()
    assert bubblewrap.find_installed().path != str(planted)
    bubblewrap.find_installed.cache_clear()
    monkeypatch.setattr(bubblewrap, "_SYSTEM", str(tmp_path / "nothing"))  # the system has none
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "packages" / "one").mkdir(parents=True)
    for work in (tmp_path, tmp_path / "packages" / "one"):
        with pytest.raises(SandboxError, match="commands can write in, or in its repository"):
            Sandbox(work, "required")
    planted.unlink()
    monkeypatch.setenv("PATH", str(planted.parent))
    selftest._outcome.cache_clear()
    with pytest.raises(SandboxError, match="is not installed"):  # nothing is no file of the project
        Sandbox(tmp_path, "required")
    selftest._outcome.cache_clear()
    assert not (tmp_path / "planted-ran").exists()


@needs_bubblewrap
def test_secrets_can_be_shown_to_one_command(place: Place) -> None:
    """What a grant reveals is read, the rest stays hidden."""
    line = f"cat {place.home}/.ssh/id_ed25519 {place.home}/.netrc"
    seen = place.run(line, grant={"reveal": ["~/.ssh"]}).text
    assert "private key" in seen
    assert "password" not in seen


@needs_bubblewrap
async def test_a_tmp_of_its_own_lasts(tmp_path: Path) -> None:
    """With a directory for it, /tmp is there for the next command too, and is not the host's."""
    work, own = tmp_path / "work", tmp_path / "own"
    work.mkdir()
    own.mkdir()
    sandbox = Sandbox(work, "required", paths=SandboxPaths(tmp=own))
    await sandbox.run("mkdir /tmp/sub && echo x > /tmp/sub/file")
    assert (await sandbox.run("cat file", cwd="/tmp/sub")).text == "x\n"
    with pytest.raises(SandboxError, match=r"could not be made .*chdir"):
        await sandbox.run("true", cwd="/tmp/gone")


@needs_bubblewrap
async def test_outside_is_the_host_without_what_was_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person agrees to runs on the host, and finds no program that a contained command could have put there."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:.:/usr/bin:/bin")
    heard = bytearray()
    running = await Sandbox(tmp_path, "required").start(
        "echo $PATH", on_output=heard.extend, place="host"
    )
    await running.wait()
    assert heard == b"/usr/bin:/bin\n"
    assert not running.contained


def test_limits_hold_on_the_host_too(tmp_path: Path) -> None:
    """Size and processor time, for each process."""
    sandbox = Sandbox(tmp_path, "host", limits=SandboxLimits(file_size=4096, cpu_seconds=1))
    assert sandbox.run_sync("head -c 9000 /dev/zero > big; wc -c < big").text.split()[-1] == "4096"
    assert sandbox.run_sync("while :; do :; done", timeout=20).exit_code in (128 + 9, 128 + 24)


def test_a_grant_is_a_value() -> None:
    """Two that give the same are the same."""
    assert SandboxGrant(network=True) == SandboxGrant(network=True)


@needs_bubblewrap
@pytest.mark.parametrize("seconds", [0.005, 0.01, 0.015, 0.02, 0.03, 0.05])
def test_a_test_that_takes_too_long_leaves_no_process(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is ended: a bubblewrap that is just being set up outlives the one that started it."""
    probe = tmp_path / "probe.py"
    probe.write_text(f"import time\ntime.sleep(30)  # {tmp_path}\n")
    monkeypatch.setattr(selftest, "probe", SimpleNamespace(__file__=str(probe)))
    monkeypatch.setattr(selftest, "_SECONDS", seconds)
    with pytest.raises(TimeoutError):
        selftest._try_to_escape()
    time.sleep(0.1)  # one that was left would be there by now
    until = time.monotonic() + 20  # and for 30 seconds; one that has been ended is gone before
    while (left := _processes_with(str(tmp_path))) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []


def _processes_with(words: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path] if words.encode() in path.read_bytes() else []
    return found


@needs_bubblewrap
def test_a_test_that_was_not_finished_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is overloaded for a moment: an error that does not last, and no reason for the host."""
    selftest._outcome.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(selftest, "_SECONDS", 0.001)
        with pytest.raises(SandboxError, match=r"took longer than 0\.001 s\. Is the machine"):
            Sandbox(tmp_path).status  # noqa: B018
        with pytest.raises(SandboxError, match=r"took longer than 0\.001 s\. Is the machine"):
            Sandbox(tmp_path, "required")
    assert Sandbox(tmp_path, "required").status.contained


@needs_bubblewrap
def test_a_test_without_room_is_no_reason_for_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command could fill the disk so that the next process has no sandbox."""
    selftest._outcome.cache_clear()

    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tempfile.mkdtemp", full)
        with pytest.raises(SandboxError, match=r"could not run \(.*No space"):
            Sandbox(tmp_path).status  # noqa: B018
    assert Sandbox(tmp_path).status.contained


@needs_bubblewrap
def test_what_cannot_be_held_in_the_test_is_no_reason_for_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command could use up the last inodes, so that no name can be held."""
    selftest._outcome.cache_clear()

    def no_room(*_: object) -> None:
        raise SandboxError(
            "'.vscode' cannot be protected from being created by the command (No space)."
        )

    with monkeypatch.context() as patched:
        patched.setattr(selftest, "Arrangement", no_room)
        with pytest.raises(SandboxError, match="cannot be protected"):
            Sandbox(tmp_path).status  # noqa: B018
    assert Sandbox(tmp_path).status.contained


@needs_bubblewrap
def test_the_test_does_not_take_place_where_commands_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR may be in the work directory, where a command could make the test fail."""
    selftest._outcome.cache_clear()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    made: list[str] = []
    make = tempfile.mkdtemp
    monkeypatch.setattr("tempfile.mkdtemp", lambda **how: made.append(make(**how)) or made[-1])
    assert Sandbox(tmp_path).status.contained
    assert not any(path.startswith(str(tmp_path)) for path in made if "hookline-test-" in path)


@needs_bubblewrap
def test_the_test_does_not_take_place_where_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in /tmp either. If a command can write everywhere, nobody knows whether there is a sandbox."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(selftest, "used_roots", lambda: ["/tmp"])
    assert selftest._test_place() == "/var/tmp"
    monkeypatch.setattr(selftest, "used_roots", lambda: ["/tmp", "/var"])
    with pytest.raises(selftest.UntestedSandboxError, match="Let TMPDIR"):
        selftest._test_place()


@needs_bubblewrap
def test_what_hides_nothing_is_reported(tmp_path: Path) -> None:
    """It may be a mistake, or come later."""
    paths = SandboxPaths(hide=(tmp_path / "keyss", tmp_path / "*.pem"))
    sandbox = Sandbox(tmp_path, "required", paths=paths)
    where = f"'{tmp_path}/keyss', '{tmp_path}/*.pem'"
    assert sandbox.describe().endswith(f"nothing exists now at {where}, which would be hidden")
    (tmp_path / "keyss").mkdir()
    (tmp_path / "a.pem").touch()
    assert "would be hidden" not in sandbox.describe()


@pytest.mark.parametrize("name", [".vscode", ".idea", ".hg", ".git", ".git/hooks", ".github/hooks"])
def test_a_directory_that_others_obey_as_a_whole_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing in it could be told from what others obey. Commands that can write nothing are no danger."""
    root = tmp_path / name
    root.mkdir(parents=True)
    with pytest.raises(SandboxError, match=r"follow the files in it\..*directory above"):
        Sandbox(root)
    with pytest.raises(SandboxError, match="follow the files in it"):
        Sandbox(tmp_path, paths=SandboxPaths(write=(root,)))
    with pytest.raises(SandboxError, match="follow the files in it"):
        Sandbox(root, place="read-only").run_sync("touch x", place="workspace")
    assert Sandbox(root, place="read-only").run_sync("true").exit_code == 0
    assert Sandbox(root, paths=SandboxPaths(unprotected=(root.name,))).root == root


def test_a_git_directory_can_be_written_and_its_parts_are_kept(tmp_path: Path) -> None:
    """A linked work tree needs that."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ran = Sandbox(tmp_path / ".git", "required").run_sync(
        "echo x >> config; echo x > hooks/pre-commit; echo x > commondir; ln -s /etc/passwd logs; "
        "echo ref: MERGE_AUTOSTASH > HEAD; touch made"
    )
    assert (tmp_path / ".git" / "made").exists()
    moved = set(map(os.path.normpath, ran.set_aside))
    assert moved >= {f"{name}.from-command" for name in ("logs", "HEAD", "commondir")}
    assert not (tmp_path / ".git" / "hooks" / "pre-commit").exists()
    assert "x" not in (tmp_path / ".git" / "config").read_text().splitlines()
