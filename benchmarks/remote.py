"""The measuring side of a worker process: start it, ask it, end it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from dataclasses import asdict
from types import TracebackType
from typing import Any

from candidates import HERE, Candidate
from script import Workload

PATIENCE_SECONDS = 900.0

# Frameworks are measured without their telemetry and never reach for the network.
QUIET = {
    "OTEL_SDK_DISABLED": "true",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "DO_NOT_TRACK": "1",
}


def environment() -> dict[str, str]:
    """The caller's environment without what would change how Python itself runs."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | QUIET


class Failed(Exception):
    """A candidate that could not do what was asked of it; the text is for the table's notes."""


class Worker:
    """One candidate in one process of its own."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        # What the framework prints: kept out of sight, shown only when it dies.
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [candidate.python, str(HERE / "worker.py"), candidate.adapter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=environment(),
        )

    def ask(self, op: str, **request: Any) -> dict[str, Any]:
        """One request, one answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(json.dumps({"op": op, **request}), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise Failed(self.last_words()) from None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise Failed(self.last_words() if ready else f"no answer in {PATIENCE_SECONDS:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def step_us(
        self, first: int, last: int, budget: float, workload: Workload | None = None
    ) -> float:
        """CPU time of one step, over the steps from `first` to `last` of a run."""
        options = asdict(workload or Workload()) | {"max_steps": last + 1}
        answer = self.ask("steps", first=first, last=last, budget=budget, workload=options)
        return float(answer["cpu_us"])

    def last_words(self) -> str:
        """The last line it printed before it died."""
        self.process.wait(10)
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "died without a word"

    def close(self) -> None:
        """End the process; one that does not listen is killed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.complaints.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
