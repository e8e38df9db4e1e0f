"""Records to write, stores to write them to, and other processes to share a file with."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from hookline.journal import (
    CallAdmitted,
    CallSettled,
    MemoryJournal,
    PromptSubmitted,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunStarted,
    SQLiteJournal,
    StatusChanged,
    StepFinished,
    StepStarted,
)
from hookline.journal.stores import LocalStore
from hookline.state import RunStatus, Step, StopReason, ToolCall, ToolResult

Story = Callable[..., list[Record]]


@pytest.fixture
def story() -> Story:
    """The records of a run: so many steps, each with a tool call, and how it ended."""
    return make_records


def make_records(
    run_id: str = "r",
    *,
    steps: int = 1,
    ending: RunStatus | None = RunStatus.COMPLETED,
    session: str = "s",
    parent: str | None = None,
    at: float = 1000.0,
    prompt: str = "hello",
) -> list[Record]:
    """Without an ending the run is still running, or its process died."""
    records: list[Record] = []

    def add(kind: type[Record], *fields: object) -> None:
        records.append(kind(run_id, len(records), at + len(records), *fields))

    add(RunStarted, "agent", session, parent)
    add(PromptSubmitted, prompt)
    for step in range(steps):
        call = ToolCall(f"call_{step}", "echo", {"text": "ä" * step})
        add(StepStarted, step)
        add(RequestSent, step, 1 + 2 * step)
        add(ResponseReceived, step, "", (call,))
        add(CallAdmitted, step, call)
        add(CallSettled, step, ToolResult("ok", call_id=call.id, name="echo"))
        add(StepFinished, Step(step))
    if ending is not None:
        add(StatusChanged, ending, StopReason.COMPLETED)
        add(RunFinished, "done", ending)
    return records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal goes."""
    return tmp_path / "journal.db"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, path: Path) -> Iterator[LocalStore]:
    """A store of each kind: what a test with it says holds for all."""
    store: LocalStore
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_journal")()
    else:
        store = MemoryJournal() if request.param == "memory" else SQLiteJournal(path)
    yield store
    store.close_sync()


@pytest.fixture
def sqlite(path: Path) -> Iterator[SQLiteJournal]:
    """A journal on disk."""
    with SQLiteJournal(path) as store:
        yield store


class Program:
    """Another process that runs some Python, and talks over its standard input and output."""

    def __init__(self, code: str, *arguments: object, wrapper: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[str] = self.process.stdin
        self.stdout: IO[str] = self.process.stdout

    def line(self) -> str:
        """The next line it prints; empty when it has ended."""
        return self.stdout.readline().rstrip("\n")

    def say(self, line: str) -> None:
        """Write something to it."""
        self.stdin.write(f"{line}\n")
        self.stdin.flush()

    def close(self) -> int:
        """End it, if it has not ended by itself. Gives its exit status."""
        self.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stdout.close()
        return self.process.returncode


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Start other processes; they are gone when the test is over."""
    started: list[Program] = []

    def start(code: str, *arguments: object, wrapper: tuple[str, ...] = ()) -> Program:
        started.append(Program(code, *arguments, wrapper=wrapper))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        if not each.stdout.closed:
            each.close()
