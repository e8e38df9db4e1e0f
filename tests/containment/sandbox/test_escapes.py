"""Real attempts to get out, as root and as an ordinary user. Each must fail inside, and leave nothing outside."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from hookline.containment import Sandbox
from hookline.containment.sandbox import paths
from hookline.containment.sandbox.paths import private_below, secrets

from .conftest import Place, needs_bubblewrap

pytestmark = needs_bubblewrap

CALL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    made = libc.syscall(number, *args)
    return made if made != -1 else -ctypes.get_errno()
X86 = os.uname().machine == "x86_64"
"""


@pytest.mark.parametrize(
    "command",
    [
        "echo x > {outside}/new",
        "echo x >> {outside}/file",
        "rm {outside}/file",
        "mv {outside}/file {work}/file",
        "ln {outside}/file {work}/link && echo x > {work}/link",
        "ln -s {outside} {work}/out && echo x > {work}/out/new",
        "mkdir {outside}/sub",
        "chmod 777 {outside}/file",
        "truncate -s 0 {outside}/file",
        "echo x > /etc/hookline-test",
        "touch /usr/bin/hookline-test",
        "mv {work} {base}/moved",
    ],
)
def test_nothing_outside_is_written(place: Place, command: str) -> None:
    """Files and directories outside the work directory cannot be made, changed, moved or removed."""
    before = _outside(place)
    line = command.format(outside=place.outside, work=place.work, home=place.home, base=place.base)
    assert place.run(line).exit_code != 0
    assert _outside(place) == before
    assert not os.path.exists("/etc/hookline-test")
    assert not os.path.exists("/usr/bin/hookline-test")


def _outside(place: Place) -> dict[str, tuple[str, int]]:
    return {
        str(path): (path.read_text(), path.stat().st_mode)
        for top in (place.outside, place.home)
        for path in top.rglob("*")
        if path.is_file()
    }


def test_the_work_directory_and_tmp_can_be_written(place: Place) -> None:
    """What a command is for works: files are made, moved, linked and removed; /tmp is its own."""
    own = f"/tmp/hookline-{os.getpid()}"
    made = place.run(
        f"echo x > a && mv a b && ln b c && mkdir d && rm c && ls; echo y > {own} && cat {own}"
    )
    assert (made.exit_code, made.text.split()) == (0, ["b", "d", "y"])
    assert sorted(path.name for path in place.work.iterdir()) == ["b", "d"]
    assert not os.path.exists(own)


@pytest.mark.parametrize("path", [".ssh/id_ed25519", ".ssh", ".netrc"])
def test_credentials_are_not_read(place: Place, path: str) -> None:
    """What is in the table of credentials is empty or refused, by its path and by a link to it."""
    (place.work / "link").symlink_to(place.home / path)
    seen = place.run(
        f"cat {place.home / path}; ls -A {place.home / path}; cat link; ls -A link/; true"
    )
    assert "private key" not in seen.text
    assert "password" not in seen.text
    assert "id_ed25519\n" not in seen.text


def test_a_path_of_the_user_is_hidden(place: Place) -> None:
    """`hide` hides more, a file or a directory; a link to it, or a path through `..`, changes nothing."""
    secret = place.outside / "file"
    assert place.run(f"cat {secret}").text == "outside"
    for hidden in (secret, place.outside):
        line = f"cat {secret}; cat {place.work}/../outside/file; cat /proc/self/root{secret}; true"
        assert "outside\n" not in place.run(line, hide=[str(hidden)]).text.replace("file:", "")
        shown = place.run(f"cat {secret} 2>&1", hide=[str(hidden)]).text
        assert not shown or "No such file" in shown, "it is empty or missing, and not forbidden"
    line = f"ls -A {place.outside}; echo x > {place.outside}/new && echo written"
    assert "written" not in place.run(line, hide=[str(place.outside)]).text


def test_a_pattern_hides_what_fits_it(place: Place) -> None:
    """Also what has come since the sandbox was made."""
    pattern = [str(place.outside / "*.pem")]
    for name in ("a.pem", ".b.pem", "note"):
        (place.outside / name).write_text(f"text of {name}")
    seen = place.run(f"cd {place.outside}; cat a.pem .b.pem note; true", hide=pattern).text
    assert "text of note" in seen
    assert "text of a.pem" not in seen
    assert "text of .b.pem" not in seen


def test_a_secret_in_the_work_directory_can_be_hidden(place: Place) -> None:
    """What is hidden there is neither read nor replaced."""
    secret = place.work / ".env"
    secret.write_text("secret")
    place.own()
    line = "cat .env; cp .env copy; cat copy; mv .env moved; rm -f .env; echo x > .env; true"
    assert "secret" not in place.run(line, hide=[str(secret)]).text
    assert secret.read_text() == "secret"


def test_a_work_directory_may_lie_in_what_is_hidden(place: Place) -> None:
    """It is seen and written; what is beside it is not seen."""
    place.work = place.home / ".hookline" / "trees" / "one"
    place.work.mkdir(parents=True)
    (place.home / ".hookline" / "secret").write_text("secret")
    place.own()
    seen = place.run(
        f"echo x > file; ls -A {place.home}/.hookline; cat {place.home}/.hookline/secret"
    )
    assert seen.text.startswith("trees\n")
    assert "secret\n" not in seen.text.replace("/secret", "")
    assert (place.work / "file").read_text() == "x\n"


def test_files_of_the_system_that_only_root_reads_are_hidden(place: Place) -> None:
    """A root without capabilities still owns /etc/shadow, so it is hidden."""
    seen = place.run("cat /etc/shadow /etc/gshadow /etc/sudoers")
    assert seen.exit_code != 0
    assert "root:" not in seen.text


def test_what_only_root_may_read_is_not_read(sandbox: Sandbox) -> None:
    """Whatever its name is: below /etc and /var, what others may not read is hidden, or somebody else's."""
    paths.private_of_root.cache_clear()  # something may have been installed since
    seen = sandbox.run_sync(
        "find /etc /var -maxdepth 4 -type f ! -perm -4 -exec cat {} + ; "
        "find /etc /var -mindepth 1 -maxdepth 4 -type d ! -perm -1 -exec ls -A {} + | grep -v -e : -e '^$'"
    )
    assert [line for line in seen.text.splitlines() if "Permission denied" not in line] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read files of others")
@pytest.mark.parametrize("place", ["ourselves"], indirect=True)
def test_the_kernel_refuses_root_the_files_of_others(place: Place) -> None:
    """So they need not be hidden: a command has no capabilities, and cannot change whose a file is."""
    for name, owner in {"theirs": (1, 1), "by-group": (1, 0), "ours": (0, 1)}.items():
        (place.outside / name).write_text(f"text of {name}\n")
        os.chown(place.outside / name, *owner)
        (place.outside / name).chmod(0o640)
    seen = place.run(
        f"cd {place.outside}; cat ours by-group theirs; chown 0 theirs; chmod 644 theirs"
    )
    assert "text of ours" in seen.text
    assert "text of by-group" in seen.text
    assert "text of theirs" not in seen.text
    found = {os.path.basename(each) for each in private_below(str(place.outside), 1)}
    assert found == {"ours", "by-group"}


def test_what_only_root_may_read_is_known_by_its_mode(tmp_path: Path) -> None:
    """No table of names has all of it."""
    modes = {"a": 0o600, "b": 0o644, "c/d": 0o640, "c/e/f": 0o600, "g/h": 0o644, "i/j": 0o644}
    for name, mode in modes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    (tmp_path / "empty").touch(0o600)
    (tmp_path / "nothing").mkdir(0o700)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "g").chmod(0o700)
    (tmp_path / "i").chmod(0o711)
    found = {os.path.relpath(each, tmp_path) for each in private_below(str(tmp_path), 2)}
    assert found == {"a", "c/d", "g"}
    assert "c/e/f" in {os.path.relpath(each, tmp_path) for each in private_below(str(tmp_path), 3)}
    for number in range(9):  # too many to be mounted on one by one: rotated logs, say
        (tmp_path / "c" / "e" / f"log.{number}").write_text("x")
        (tmp_path / "c" / "e" / f"log.{number}").chmod(0o640)
    found = {os.path.relpath(each, tmp_path) for each in private_below(str(tmp_path), 3)}
    assert found >= {"a", "c/d", "c/e", "c/e/f", "g"}
    assert "c" not in found


def test_what_cannot_be_looked_at_is_hidden_and_ends_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root without all capabilities: a closed directory of another user is no reason to show what is beside it."""
    for name in ("a", "closed", "unlisted", "z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("x")
        (tmp_path / name / "key").chmod(0o600)
    (tmp_path / "closed").chmod(0o700)
    listdir, scandir = os.listdir, os.scandir

    def refuse(path: str, name: str) -> None:
        if path.endswith(name):
            raise PermissionError(13, "no", path)

    monkeypatch.setattr(os, "listdir", lambda path: refuse(path, "closed") or listdir(path))
    monkeypatch.setattr(os, "scandir", lambda path: refuse(path, "unlisted") or scandir(path))
    found = {os.path.relpath(each, tmp_path) for each in private_below(str(tmp_path), 2)}
    assert found == {"a/key", "closed", "unlisted", "z/key"}


def test_an_empty_file_of_the_system_is_not_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mount takes time. An empty directory is covered: what comes into it later is hidden."""
    (tmp_path / "key").write_text("x")
    (tmp_path / "old-passwords").touch()
    (tmp_path / "keys").mkdir()
    names = ("key", "old-passwords", "keys", "missing")
    monkeypatch.setattr(paths, "SYSTEM_SECRETS", [f"{tmp_path}/{name}" for name in names])
    found = [each for each in secrets() if each.startswith(f"{tmp_path}/")]
    assert found == [f"{tmp_path}/key", f"{tmp_path}/keys"]
    found = [
        each for each in secrets([tmp_path / "old-passwords"]) if each.startswith(f"{tmp_path}/")
    ]
    assert f"{tmp_path}/old-passwords" in found, "the user names it"


def test_the_environment_has_no_secrets(place: Place) -> None:
    """Variables go in by name only; the first process, whose environment could be read, has none."""
    seen = place.run("env; cat /proc/1/environ; cat /proc/*/environ").text
    assert "MY_TOKEN" not in seen
    assert "PATH=" in seen
    assert "HOME=" in seen


def test_tcp_and_udp_of_the_host_are_not_reached(place: Place) -> None:
    """The loopback address inside is another one; nothing arrives at a server outside."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.3)
        code = f"""
import socket
socket.socket(type=socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", {udp.getsockname()[1]}))
try:
    socket.create_connection(("127.0.0.1", {tcp.getsockname()[1]}), 2)
except OSError as error:
    print(error.strerror)
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    print(error.strerror)
"""
        seen = place.run_python(code)
        assert seen.text.splitlines() == ["Connection refused", "Network is unreachable"]
        with pytest.raises(TimeoutError):
            udp.recv(10)


def test_a_server_inside_is_reached_from_inside(place: Place) -> None:
    """A command can test a server with itself: the loopback device is up."""
    code = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), 2)
    server.accept()
print("reached")
"""
    assert place.run_python(code).text == "reached\n"


@pytest.mark.parametrize("kind", ["path", "abstract", "datagram pair", "vsock"])
def test_unix_sockets_of_the_host_are_not_reached(place: Place, kind: str) -> None:
    """Sockets by path connect through a read-only mount, so none can be made that could connect."""
    path = str(place.base / "socket")
    names = {"path": repr(path), "abstract": repr("\0" + path)}
    code = {
        "path": f"socket.socket(socket.AF_UNIX).connect({names['path']})",
        "abstract": f"socket.socket(socket.AF_UNIX).connect({names['abstract']})",
        "datagram pair": f"socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect({names['path']})",
        "vsock": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    }[kind]
    with socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM if "datagram" in kind else socket.SOCK_STREAM
    ) as server:
        server.bind("\0" + path if kind == "abstract" else path)
        if kind != "datagram pair":
            server.listen()
        place.own()
        seen = place.run_python(f"import socket\n{code}\nprint('connected')")
        assert "PermissionError" in seen.text
        assert "connected" not in seen.text


def test_connected_pairs_still_work(place: Place) -> None:
    """Programs talk to their children over socket pairs, which lead nowhere else."""
    code = "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))"
    assert place.run_python(code).text == "b'x'\n"


def test_host_processes_are_not_seen_or_signalled(place: Place) -> None:
    """Only the command's own processes are in /proc, and no number means one of ours."""
    seen = place.run(
        f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()}; echo $?; cat /proc/1/cmdline | tr '\\0' ' '"
    )
    count, *_ = seen.text.split()
    assert int(count) < 10
    assert "pytest" not in seen.text


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("ptrace", "call(101 if X86 else 117, 0, 0, 0, 0)"),
        ("process_vm_readv", "call(310 if X86 else 270, os.getpid(), 0, 0, 0, 0, 0)"),
        ("mount", "call(165 if X86 else 40, b'none', b'/tmp', b'tmpfs', 0, 0)"),
        ("umount", "call(166 if X86 else 39, b'/proc', 2)"),
        ("pivot_root", "call(155 if X86 else 41, b'/tmp', b'/tmp')"),
        ("chroot", "call(161 if X86 else 51, b'/tmp')"),
        ("unshare user", "call(272 if X86 else 97, 0x10000000)"),
        ("unshare mount", "call(272 if X86 else 97, 0x00020000)"),
        ("clone into a user namespace", "call(56 if X86 else 220, 0x10000000 | 17, 0, 0, 0, 0)"),
        ("clone3", "call(435, 0, 0)"),
        ("setns", "call(308 if X86 else 268, 0, 0)"),
        ("open_tree", "call(428, -100, b'/', 1)"),
        ("fsopen", "call(430, b'tmpfs', 0)"),
        ("keyctl", "call(250 if X86 else 219, 0, -3, 1)"),
        ("add_key", "call(248 if X86 else 217, b'user', b'x', b'y', 1, -3)"),
        ("bpf", "call(321 if X86 else 280, 0, 0, 0)"),
        ("userfaultfd", "call(323 if X86 else 282, 0)"),
        ("perf_event_open", "call(298 if X86 else 241, 0, 0, -1, -1, 0)"),
        ("io_uring_setup", "call(425, 1, ctypes.create_string_buffer(256))"),
        ("kexec_load", "call(246 if X86 else 104, 0, 0, 0, 0)"),
        ("init_module", "call(175 if X86 else 105, 0, 0, b'')"),
        ("finit_module", "call(313 if X86 else 273, 0, b'', 0)"),
        ("personality", "call(135 if X86 else 92, 0x0400000)"),
        ("open_by_handle_at", "call(304 if X86 else 265, -100, 0, 0)"),
        ("typing into the terminal", "call(16 if X86 else 29, 0, 0x5412, b'x')"),
        ("set-user-id", "call(268 if X86 else 53, -100, b'file', 0o4755, 0)"),
    ],
)
def test_system_calls_that_lead_out_are_refused(place: Place, name: str, expression: str) -> None:
    """Each is refused by the filter: not for the caller's rights, or its arguments, or for want of the call."""
    code = f"{CALL}\nopen('file', 'w').close()\nprint({expression})"
    eperm, enosys = -1, -38
    expected = enosys if name in {"clone3", "io_uring_setup"} else eperm
    assert place.run_python(code).text.split()[-1] == str(expected)


def test_a_file_cannot_be_leased(place: Place) -> None:
    """Who opens it outside would have to wait."""
    (place.work / "file").touch()
    place.own()
    seen = place.run_python(
        "import fcntl; fcntl.fcntl(open('file'), fcntl.F_SETLEASE, fcntl.F_RDLCK)"
    )
    assert "Operation not permitted" in seen.text


FILE_SYSTEM_REQUESTS = {
    "BTRFS_IOC_SNAP_CREATE": 0x50009401,
    "BTRFS_IOC_SUBVOL_CREATE": 0x5000940E,
    "BTRFS_IOC_SNAP_CREATE_V2": 0x50009417,
    "BTRFS_IOC_SUBVOL_CREATE_V2": 0x50009418,
    "BTRFS_IOC_SUBVOL_SETFLAGS": 0x4008941A,
    "BCH_IOCTL_SUBVOLUME_CREATE": 0x4020BC10,
    "XFS_IOC_SWAPEXT": 0xC0C0586D,
    "FS_IOC_SETFLAGS": 0x40086602,
}


def test_file_systems_make_no_snapshots_and_copy_files(place: Place) -> None:
    """The filter refuses each request that changes one; a copy, and a look at flags, get the file system's answer."""
    said = place.run_python(f"""
import fcntl, os
one, other = open("one", "w"), open("other", "w")
def ask(request, argument):
    try:
        fcntl.ioctl(one, request, argument)
    except OSError as error:
        return os.strerror(error.errno)
    return "done"
print({{ask(request, bytes(256)) for request in {[*FILE_SYSTEM_REQUESTS.values()]}}})
print("Operation not permitted" in (ask(0x40049409, other.fileno()), ask(0x80086601, bytes(8))))
""").text
    assert said.splitlines() == ["{'Operation not permitted'}", "False"]


def test_calls_of_another_dialect_end_the_process(place: Place) -> None:
    """The x32 numbers of the same calls would go around the filter."""
    if os.uname().machine != "x86_64":
        pytest.skip("this processor has no second dialect")
    seen = place.run_python(f"{CALL}\nprint(call(0x40000000 + 39))")
    assert seen.exit_code == 128 + 31
    assert not seen.text.strip().isdigit()


def test_set_user_id_programs_gain_nothing(place: Place) -> None:
    """A program that would change the user does not, and none can be made, by any of the calls that set a mode."""
    seen = place.run_python(
        """
import os, stat
status = open("/proc/self/status").read()
print("NoNewPrivs:\\t1" in status, "CapEff:\\t0000000000000000" in status)
made = []
for number, make in enumerate([
    lambda path: os.chmod(path, 0o4755),
    lambda path: os.fchmod(os.open(path, os.O_RDONLY), 0o4755),
    lambda path: os.close(os.open(path + "-new", os.O_CREAT | os.O_WRONLY, 0o4755)),
    lambda path: os.mknod(path + "-node", 0o4755 | stat.S_IFREG),
]):
    path = f"file-{number}"
    open(path, "w").close()
    try:
        make(path)
    except PermissionError:
        pass
for path in os.listdir("."):
    if os.stat(path).st_mode & 0o6000:
        made.append(path)
print(made)
"""
    )
    assert seen.text == "True True\n[]\n"


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/proc/1/oom_score_adj",
        "/sys/fs/cgroup/pids/cgroup.procs",
        "/sys/fs/cgroup/cgroup.procs",
    ],
)
def test_settings_of_the_kernel_are_not_changed(place: Place, path: str) -> None:
    """They are opened for writing, and nothing is written: as root, some of them would end the machine."""
    seen = place.run_python(f"open({path!r}, 'r+').close(); print('ope' + 'ned')")
    assert "opened" not in seen.text


def test_devices_are_few(place: Place) -> None:
    """There are no disks, and none can be made."""
    seen = place.run("ls /dev; mknod disk b 8 0; cat disk; mkdir /dev/x").text.split()
    assert {"null", "zero", "urandom"} <= set(seen)
    assert "sda" not in seen
    assert "mem" not in seen


@pytest.mark.parametrize("where", ["workspace", "read-only"])
def test_the_devices_of_the_machine_stay_as_they_are(place: Place, where: str) -> None:
    """As root, a command would be the owner of `/dev/null`, and of its input. All of them still work."""
    names = ("full", "null", "random", "tty", "urandom", "zero")
    paths = [f"/dev/{name}" for name in names]
    before = [os.stat(path).st_mode for path in paths]
    seen = place.run_python(
        "import os\n"
        f"for path in {[*paths, '/proc/self/fd/0']!r}:\n"
        "    for change in (lambda: os.chmod(path, 0o666), lambda: os.utime(path, (1, 1))):\n"
        "        try: change()\n"
        "        except PermissionError: print('refused')\n"
        "assert len(open('/dev/urandom', 'rb').read(8)) == 8 == len(open('/dev/zero', 'rb').read(8))\n"
        "open('/dev/null', 'w').write('x')\n",
        where=where,
    )
    assert (seen.exit_code, seen.text.split()) == (0, ["refused"] * 14), seen.text
    assert [os.stat(path).st_mode for path in paths] == before


@pytest.mark.parametrize("where", ["workspace", "read-only"])
def test_an_environment_file_that_git_tracks_is_no_device_of_the_machine(
    place: Place, where: str
) -> None:
    """A device lies on it."""
    for words in (["init", "-q"], ["add", "-f", ".env"]):
        (place.work / ".env").write_text("x")
        git = ["git", "-c", "safe.directory=*", *words]
        subprocess.run(git, cwd=place.work, check=True)
    place.own()
    mode = os.stat(os.devnull).st_mode
    seen = place.run("test -c .env && chmod 666 .env", where=where)
    assert "not permitted" in seen.text
    assert os.stat(os.devnull).st_mode == mode


def test_it_has_no_terminal(place: Place) -> None:
    """A new session has none that could be typed into; the input is empty."""
    seen = place.run("cat; (echo x > /dev/tty) 2>&1; ps -o sid= -p $$ 2>/dev/null; true")
    assert "No such device or address" in seen.text
