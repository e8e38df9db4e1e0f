"""What a measured run is asked to do, and the clock readings taken while it does it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

ARGUMENTS = '{"text": "hello"}'
PROMPT = "Echo until you are told to stop."
FINAL = "done"
NAP_SECONDS = 0.010


@dataclass(frozen=True)
class Workload:
    """How an agent is built: its tool, and how many no-op hooks stand before and after each call of it."""

    hooks: int = 0  # this many before the tool and as many after it
    tool: Literal["echo", "nap"] = "echo"  # nap sleeps NAP_SECONDS, echo returns at once
    max_steps: int = 20  # the run must not end on the framework's own limit
    # The rest is asked of Hookline only.
    kind: Literal["async", "sync"] = "async"  # of the no-op hooks
    derive: Literal["", "metadata", "message"] = ""  # what a hook derives each step, and drops
    tracing: Literal["", "idle", "sending"] = ""  # OpenTelemetry, without and with an exporter


class Script:
    """The model's side of one run: `last` turns with tool calls, then the answer; the clock is read at both edges."""

    def __init__(self, first: int, last: int, calls: int = 1, pause: bool = False) -> None:
        self.first, self.last, self.calls = first, last, calls
        self.pause = pause  # the model lets other runs in before it answers, as a real one would
        self.turns = 0
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def turn(self) -> list[str] | None:
        """The ids of the calls of this turn, or None when it is time to answer."""
        turn = self.turns
        self.turns = turn + 1
        if turn == self.first or turn == self.last:
            self.stamp()
        if turn == self.last:
            return None
        if self.calls == 1:
            return [f"call_{turn}"]
        return [f"call_{turn}_{n}" for n in range(self.calls)]

    def stamp(self) -> None:
        """Read both clocks: CPU time does not count what other processes on the machine took."""
        self.cpu.append(time.process_time())
        self.wall.append(time.perf_counter())

    @property
    def cpu_seconds(self) -> float:
        """CPU time between the edges."""
        return self.cpu[1] - self.cpu[0]

    @property
    def wall_seconds(self) -> float:
        """Wall time between the edges."""
        return self.wall[1] - self.wall[0]


# An adapter's `build(workload)` gives one of these; the plain function where there is no async run.
Run = Callable[[Script], Awaitable[object]] | Callable[[Script], object]
