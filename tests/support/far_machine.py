"""Processes on a machine of their own, as far as the network is concerned: a namespace with one link to this one."""

from __future__ import annotations

import os
import shutil
import subprocess

PROGRAM = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def why_not() -> str:
    """Why there can be none here; empty if there can."""
    if PROGRAM is None:
        return "iproute2 is not installed: scripts/system_tools.py says why"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "network namespaces are not allowed here"


class FarMachine:
    """A network namespace. `near` is the address of this side of its link."""

    def __init__(self) -> None:
        number = os.getpid()
        self._name, self._end = f"far{number}", f"near{number}"
        network = (
            f"198.18.{number // 64 % 256}.{number % 64 * 4}"  # for tests of networks, by RFC 2544
        )
        start, last = network.rsplit(".", 1)
        self.network = f"{network}/30"
        self.near = f"{start}.{int(last) + 1}"
        far = f"{start}.{int(last) + 2}/30"
        _ip("netns", "add", self._name)
        try:
            _ip("link", "add", self._end, "type", "veth", "peer", "name", "eth0", "netns", self._name)  # fmt: skip
            _ip("addr", "add", f"{self.near}/30", "dev", self._end)
            _ip("link", "set", self._end, "up")
            _ip("-n", self._name, "addr", "add", far, "dev", "eth0")
            _ip("-n", self._name, "link", "set", "lo", "up")
            self.link("up")
        except BaseException:
            self.close()
            raise

    @property
    def command(self) -> tuple[str, ...]:
        """Goes before a command that runs there."""
        assert PROGRAM is not None
        return (PROGRAM, "netns", "exec", self._name)

    def link(self, state: str) -> None:
        """Set its link `up` or `down`: nothing arrives, and nobody is told."""
        _ip("-n", self._name, "link", "set", "eth0", state)

    def close(self) -> None:
        """Remove it, with its link."""
        # The kernel removes what is in a namespace later, and the next machine has the same names.
        assert PROGRAM is not None
        subprocess.run([PROGRAM, "link", "delete", self._end], check=False, capture_output=True)
        _ip("netns", "delete", self._name)


def _ip(*words: str) -> None:
    assert PROGRAM is not None
    subprocess.run([PROGRAM, *words], check=True)
