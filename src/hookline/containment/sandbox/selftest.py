"""The sandbox tries to get out of itself, once per process. One that lets anything through does not count as one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from hookline._temporary import temporary_file
from hookline.containment.interpreter import isolated_command
from hookline.containment.links import is_inside_any, real_path
from hookline.containment.mount_table import all_paths
from hookline.containment.processes import start_program
from hookline.containment.sandbox import probe
from hookline.containment.sandbox.bubblewrap import Arrangement, InstalledBubblewrap, find_installed
from hookline.containment.sandbox.command import Job
from hookline.containment.sandbox.limits import SandboxLimits
from hookline.containment.sandbox.mounts import FileView, open_null_device, own_devices
from hookline.containment.sandbox.paths import SandboxPaths
from hookline.containment.sandbox.work_tree import used_roots
from hookline.errors import SandboxError

_SECONDS = 30
_POLL = 0.002
_one_at_a_time = threading.Lock()

_HINTS = (
    (
        "uid map",
        "The system forbids user namespaces to programs without a profile. On Ubuntu: "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile for bwrap.",
    ),
    (
        "No permissions to create new namespace",
        "Allow user namespaces: `sysctl user.max_user_namespaces=15000`, "
        "and `sysctl kernel.unprivileged_userns_clone=1` where there is such a setting.",
    ),
    (
        "proc",
        "In a container, /proc may only be mounted anew with `--security-opt systempaths=unconfined` "
        "and `--security-opt seccomp=unconfined`, or in a privileged one.",
    ),
)


class UntestedSandboxError(SandboxError):
    """The test could not be finished, so nobody knows whether there is a sandbox."""


def run_selftest() -> InstalledBubblewrap:
    """The program, once it was seen to hold; else the error that says what is wrong, the same every time.

    Only a test that was not finished says nothing about the next.
    """
    with _one_at_a_time:
        try:
            found = _outcome()
        except TimeoutError:
            raise UntestedSandboxError(
                f"the self-test of the sandbox took longer than {_SECONDS:g} s.",
                remedy="Is the machine overloaded? Try again.",
            ) from None
        except (OSError, ValueError) as error:
            raise UntestedSandboxError(
                f"the self-test of the sandbox could not run ({error}).",
                remedy="Is there space in the temporary directory? Try again.",
            ) from None
    if isinstance(found, SandboxError):
        raise SandboxError(found.message, remedy=found.remedy)
    return found


@cache
def _outcome() -> InstalledBubblewrap | SandboxError:
    try:
        if sys.platform != "linux":
            raise SandboxError(
                "bubblewrap needs Linux.", remedy="Run in a container or a virtual machine."
            )
        program = find_installed()
        worked = _try_to_escape()
    except UntestedSandboxError:
        raise  # not kept, like other errors: it may have been a bad moment
    except SandboxError as error:
        return error
    if worked:
        return SandboxError(
            f"the sandbox does not protect here: a command in it could {'; '.join(worked)}.",
            remedy="Do not rely on it; see docs/sandbox.md for what it needs.",
        )
    return program


def _try_to_escape() -> list[str]:
    """What a command in the sandbox managed to do that it should not."""
    base = Path(tempfile.mkdtemp(prefix="hookline-test-", dir=_test_place()))
    try:
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
            plan = _prepare(base, tcp, unix)
            worked = _probe(base, plan)
        if Path(plan["outside"]).exists():
            worked.append("leave a file outside")
        return list(dict.fromkeys(worked))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _test_place() -> str:
    """Where the test writes. Not where a command runs that can write there: it could let the test fail.

    Not in the directory of our state, where no command can be let write, and so none of the test.
    """
    # Beside a command whose place is not known no sandbox is made.
    used = all_paths(*filter(None, used_roots()))
    for place in ("/tmp", tempfile.gettempdir(), "/var/tmp"):
        if os.access(place, os.W_OK) and not is_inside_any(real_path(place), used):
            return place
    raise UntestedSandboxError(
        "the self-test of the sandbox could not run: a command runs that can write in the temporary directory.",
        remedy="Let TMPDIR name a directory in which no command can write, or wait for the command.",
    )


def _prepare(base: Path, tcp: socket.socket, unix: socket.socket) -> dict[str, str]:
    root, hidden = base / "work", base / "hidden"
    for directory in (root, hidden):
        directory.mkdir()
    (hidden / "secret").write_text("secret")
    name = str(base / "socket")
    opened = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:  # by a short path: those of sockets cannot be long
        unix.bind(f"/proc/self/fd/{opened}/socket")
    finally:
        os.close(opened)
    unix.listen()
    return {
        "root": str(root),
        "outside": str(base / "outside"),
        "secret": str(hidden / "secret"),
        "socket": name,
        "port": str(tcp.getsockname()[1]),
        # Root owns the machine's devices, and in some containers can make none: docs/sandbox.md says so.
        "device": os.devnull if own_devices() or os.geteuid() else "",
        **{kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net", "ipc")},
    }


def _probe(base: Path, plan: dict[str, str]) -> list[str]:
    paths = SandboxPaths(show=(base, sys.base_prefix), hide=(base / "hidden",))
    root = base / "work"
    job = Job(
        argv=(*isolated_command(probe), json.dumps(plan)),
        cwd=root,
        env={"PATH": "/usr/bin:/bin"},
        own_env={"PATH": "/usr/bin:/bin"},
        limits=SandboxLimits(),
        place="workspace",
        on_output=lambda _: None,
    )
    # Without homes: their owner, or a command, could fill one so that the test fails.
    view = replace(FileView.of(root, paths), has_homes=False)
    try:
        arrangement = Arrangement(view, job)
    except SandboxError as error:
        # It says nothing of bubblewrap: there was no room for what it needs, say.
        raise UntestedSandboxError(error.message, remedy=error.remedy) from None
    try:
        code, said, complaint = _run(arrangement)
    finally:
        arrangement.give_back()
    text = complaint.decode(errors="replace").strip()
    if code and "bwrap:" not in text:  # it had started: there was no room for the test, say
        raise OSError(f"exit code {code}: {text[-200:]}")
    if code:
        raise _does_not_start(text)
    return list(json.loads(said))


def _run(arrangement: Arrangement) -> tuple[int, bytes, bytes]:
    """The exit code, the output and the errors. Nothing of it is left, also if it takes too long.

    By the supervisor: a bubblewrap that is just being set up would outlive the end of its group.
    """
    with (
        open(open_null_device(), "rb") as nothing,
        temporary_file() as output,
        temporary_file() as errors,
    ):
        standard = (nothing.fileno(), output.fileno(), errors.fileno())
        process = start_program(arrangement.argv, {}, "/", standard, pass_fds=arrangement.fds)
        arrangement.start_inside()
        until = time.monotonic() + _SECONDS
        try:
            while (code := process.poll()) is None and time.monotonic() < until:
                time.sleep(_POLL)
        finally:
            process.end()
        if code is None:
            raise TimeoutError
        output.seek(0)
        errors.seek(0)
        return code, output.read(), errors.read()


def _does_not_start(said: str) -> SandboxError:
    hint = next(
        (hint for words, hint in _HINTS if words in said), "See docs/sandbox.md for what it needs."
    )
    return SandboxError(f"bubblewrap does not work here ({said.splitlines()[-1]}).", remedy=hint)
