"""Who is measured: the bare loop, Hookline, and the peers that have an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".envs"


@dataclass(frozen=True)
class Peer:
    """A framework to be measured beside Hookline, at the release its adapter was written against."""

    name: str
    distribution: str
    version: str
    imports: str  # what a program that uses it has to import

    @property
    def python(self) -> Path:
        """The interpreter of its own environment."""
        folder, program = (
            ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
        )
        return ENVIRONMENTS / self.name / folder / program

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.distribution}=={self.version}"


# The slim or core distribution where there is one: it is what a user who counts megabytes installs.
PEERS = (
    Peer(
        "agent-framework",
        "agent-framework-core",
        "1.23.0",
        "from agent_framework import Agent, tool",
    ),
    Peer("smolagents", "smolagents", "1.26.0", "import smolagents"),
    Peer("strands-agents", "strands-agents", "1.62.0", "from strands import Agent, tool"),
    Peer("langchain", "langchain", "1.4.7", "from langchain.agents import create_agent"),
    Peer("pydantic-ai", "pydantic-ai-slim", "2.66.0", "from pydantic_ai import Agent"),
    Peer("google-adk", "google-adk", "2.13.0", "from google.adk.agents import LlmAgent"),
    Peer("openai-agents", "openai-agents", "0.24.0", "from agents import Agent, Runner"),
)


@dataclass(frozen=True)
class Candidate:
    """One column of the comparison: an interpreter, and the adapter that runs in it."""

    name: str
    python: str
    adapter: str
    version: str = ""
    distribution: str | None = None
    imports: str = "pass"

    @property
    def is_peer(self) -> bool:
        """Peers get fewer rounds: they are slow, and their ratios are large."""
        return self.adapter.startswith("peers.")


BARE = Candidate("bare loop", sys.executable, "bare_loop")
HOOKLINE = "hookline"


def hookline() -> Candidate:
    """Hookline, from the interpreter that runs the benchmark."""
    version = installed_version(sys.executable, HOOKLINE)
    if version is None:
        sys.exit(
            "hookline is not installed here; run the benchmark with the python it is installed in"
        )
    return Candidate(
        HOOKLINE, sys.executable, "workload_hookline", version, HOOKLINE, "import hookline"
    )


def find_peers(names: list[str]) -> tuple[list[Candidate], list[str]]:
    """The named peers that are installed, and a line for each that is not."""
    found, missing = [], []
    for peer in PEERS:
        if peer.name not in names:
            continue
        version = (
            installed_version(str(peer.python), peer.distribution) if peer.python.exists() else None
        )
        if version is None:
            missing.append(
                f"{peer.name}: skipped, not installed (python benchmarks/install_peers.py {peer.name})"
            )
            continue
        adapter = "peers." + peer.name.replace("-", "_")
        found.append(
            Candidate(
                peer.name, str(peer.python), adapter, version, peer.distribution, peer.imports
            )
        )
    return found, missing


def installed_version(python: str, distribution: str) -> str | None:
    """The version an interpreter finds, or None."""
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or None
