"""Makes an environment for each peer: `python benchmarks/install_peers.py [name ...]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv

from candidates import ENVIRONMENTS, PEERS, Peer


def install(peer: Peer) -> bool:
    """A fresh environment with the pinned release in it."""
    print(f"{peer.name}: installing {peer.requirement}", flush=True)
    venv.create(ENVIRONMENTS / peer.name, clear=True, with_pip=True)
    command = [
        str(peer.python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        peer.requirement,
    ]
    done = subprocess.run(command)
    if done.returncode:
        print(f"{peer.name}: pip failed", file=sys.stderr)
    return done.returncode == 0


def main() -> int:
    """Install the named peers, or all of them."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"any of: {', '.join(names)} (default: all)"
    )
    chosen = parser.parse_args().names or names
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"unknown peer {', '.join(unknown)}; known are {', '.join(names)}")
    results = [install(peer) for peer in PEERS if peer.name in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
