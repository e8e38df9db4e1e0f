"""Runs inside the sandbox, alone, and tries to get out. Prints what worked, as JSON.

It is handed over as text, to an interpreter that sees nothing of this package: it imports the standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable

_CALLS = {
    "x86_64": {"ptrace": 101, "mount": 165, "unshare": 272, "keyctl": 250, "bpf": 321},
    "aarch64": {"ptrace": 117, "mount": 40, "unshare": 97, "keyctl": 219, "bpf": 280},
}
_NEW_USER = 0x10000000


def attempts(plan: dict[str, str]) -> list[tuple[str, Callable[[], object]]]:
    """What is tried, by name; each counts as failed when it raises."""
    return [
        ("write outside the work directory", lambda: open(plan["outside"], "w").close()),
        ("read a hidden file", lambda: open(plan["secret"]).read()),
        ("make .vscode in the work directory", lambda: plant(plan["root"], ".vscode")),
        ("make .claude in the work directory", lambda: plant(plan["root"], ".claude")),
        ("connect to a TCP port of the host", lambda: tcp(int(plan["port"]))),
        ("connect to a unix socket of the host", lambda: unix(plan["socket"])),
        ("make a pair of datagram sockets", pair),
        ("read the environment of the caller", environment),
        ("see the processes of the host", lambda: same_namespace("pid", plan["pid"])),
        ("share the network of the host", lambda: same_namespace("net", plan["net"])),
        ("share the shared memory of the host", lambda: same_namespace("ipc", plan["ipc"])),
        ("keep capabilities", capabilities),
        ("gain privileges by running a program", privileges),
        (
            "change the kernel's settings",
            lambda: open("/proc/sys/kernel/core_pattern", "a").close(),
        ),
        ("make a user namespace", lambda: system_call("unshare", _NEW_USER)),
        ("mount a file system", lambda: system_call("mount", b"none", b"/tmp", b"tmpfs", 0, 0)),
        ("trace a process", lambda: system_call("ptrace", 0, 0, 0, 0)),
        ("use the kernel's key ring", lambda: system_call("keyctl", 0, -3, 1)),
        ("use io_uring", lambda: system_call(425, 1, ctypes.create_string_buffer(256))),
        ("change the mode of a device", lambda: change_mode(plan["device"])),
        ("change the mode of its input", lambda: change_mode(plan["device"] and "/proc/self/fd/0")),
        ("set the set-user-id bit", lambda: set_user_id(plan["root"])),
        ("make a set-group-id file", lambda: set_group_id(plan["root"])),
    ]


def main() -> None:
    """Try everything."""
    plan = json.loads(sys.argv[1])
    worked = []
    for name, attempt in attempts(plan):
        try:
            attempt()
        except (OSError, AttemptRefused):
            continue
        worked.append(name)
    sys.stdout.write(json.dumps(worked))


class AttemptRefused(Exception):
    """An attempt that did not get through."""


def plant(root: str, name: str) -> None:
    """Make a directory, with those above it."""
    os.makedirs(os.path.join(root, name, "planted"))


def tcp(port: int) -> None:
    """Connect to a port of the loopback address."""
    with socket.create_connection(("127.0.0.1", port), timeout=2):
        pass


def unix(path: str) -> None:
    """Connect to a socket by its path, which may be too long to be given whole."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        os.chdir(os.path.dirname(path))
        made.connect(os.path.basename(path))


def pair() -> None:
    """Make a pair of datagram sockets, one of which could be connected elsewhere."""
    for made in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        made.close()


def environment() -> None:
    """Look for variables of the caller, here and in the first process."""
    with open("/proc/1/environ", "rb") as first:
        if not first.read() and not set(os.environ) - {"PATH", "PWD", "LC_CTYPE"}:
            raise AttemptRefused


def same_namespace(kind: str, outside: str) -> None:
    """See whether a namespace is that of the caller."""
    if os.readlink(f"/proc/self/ns/{kind}") != outside:
        raise AttemptRefused


def _status() -> dict[str, str]:
    with open("/proc/self/status") as lines:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def capabilities() -> None:
    """See whether any capability is left."""
    status = _status()
    if not any(int(status[kind], 16) for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb")):
        raise AttemptRefused


def privileges() -> None:
    """See whether a set-user-id program would work, or the filter is missing."""
    status = _status()
    if status["NoNewPrivs"] == "1" and status["Seccomp"] == "2":
        raise AttemptRefused


def system_call(name: str | int, *arguments: object) -> None:
    """Make a system call that should be refused."""
    number = name if isinstance(name, int) else _CALLS[os.uname().machine][name]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")


def change_mode(device: str) -> None:
    """Give a device the mode that it has; nothing is tried without one."""
    if not device:
        raise AttemptRefused
    os.chmod(device, os.stat(device).st_mode & 0o777)


def set_user_id(root: str) -> None:
    """Make a set-user-id file in the work directory."""
    path = os.path.join(root, "set-user-id")
    with open(path, "w"):
        pass
    os.chmod(path, 0o4755)


def set_group_id(root: str) -> None:
    """Make a file in the work directory that has the bit from the start."""
    os.close(os.open(os.path.join(root, "set-group-id"), os.O_CREAT | os.O_WRONLY, 0o2755))


if __name__ == "__main__":
    main()
