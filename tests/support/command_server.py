"""Starts the `hookline` command for tests, by a fork of a process that has imported what it needs.

Each command is a process of its own with its own arguments, variables, directory, standard input and output, and it
ends as a process ends. Only the start of Python and the imports, which take most of its time, are done once.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

NOT_NEEDED = ("hookline.providers.", "hookline.mcp.", "hookline.testing.", "hookline.__main__")
"""These import the clients of vendors; whoever needs one imports it then."""


class CommandServer:
    """The process, as the tests see it."""

    def __init__(self, source: Path) -> None:
        self._ours, theirs = socket.socketpair()
        argv = [sys.executable, "-P", __file__, str(theirs.fileno())]
        env = {**os.environ, "PYTHONPATH": str(source)}
        pipe = subprocess.PIPE  # for each of these, as a command has them later
        with theirs:
            self._process = subprocess.Popen(
                argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=[theirs.fileno()]
            )

    def run(
        self, arguments: tuple[str, ...], *, cwd: Path, env: dict[str, str], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, as `subprocess.run` does."""
        order = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": env}).encode()
        (theirs, given), (out, their_out), (errors, their_errors) = (os.pipe() for _ in range(3))
        fds = [theirs, their_out, their_errors]
        try:
            socket.send_fds(self._ours, [len(order).to_bytes(4, "big")], fds)
            self._ours.sendall(order)
        finally:
            for fd in fds:
                os.close(fd)
        with ThreadPoolExecutor(2) as pool:
            said = pool.map(_read, (out, errors))
            with contextlib.suppress(BrokenPipeError), open(given, "w", encoding="utf-8") as file:
                file.write(stdin)
            answer = self._ours.recv(16)
            assert answer, self._process.communicate()[1].decode()
            return subprocess.CompletedProcess(arguments, int(answer), *said)

    def close(self) -> None:
        """End it."""
        self._ours.close()
        self._process.kill()
        self._process.communicate()


def _read(fd: int) -> str:
    with open(fd, encoding="utf-8") as file:
        return file.read()


def serve(wire: socket.socket) -> None:
    """Start what is ordered. Returns in each process that is to be the command; ends with the tests."""
    while True:
        size, fds, *_ = socket.recv_fds(wire, 4, 3)
        if not size:
            sys.exit()
        order = b""
        while len(order) < int.from_bytes(size, "big"):
            order += wire.recv(65536)
        pid = os.fork()
        if pid == 0:
            become(json.loads(order), fds)
            wire.close()
            return
        for fd in fds:
            os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        wire.send(b"%d" % code)


def become(order: dict[str, Any], fds: list[int]) -> None:
    """Be the process that was ordered."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["-c", *order["arguments"]]


def main() -> int:
    """Import, serve, and in the end be the command."""
    import hookline

    for module in pkgutil.walk_packages(hookline.__path__, "hookline."):
        if not f"{module.name}.".startswith(NOT_NEEDED):
            importlib.import_module(module.name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as wire:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        serve(wire)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from hookline.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
