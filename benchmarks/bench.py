"""One run of the benchmark: its candidates, their processes, and the rounds in which they take turns."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from book import Book
from candidates import BARE, Candidate
from remote import Failed, Worker


@dataclass(frozen=True)
class Effort:
    """How much time the numbers are worth."""

    rounds: int
    peer_rounds: int
    long_rounds: (
        int  # of what takes long: thousands of steps, a thousand agents, fresh interpreters
    )
    peer_agents: int  # of the thousand
    peer_growth_rounds: int  # a peer's thousandth step can be a minute away
    budget: float = (
        0.01  # seconds in one sample of a step: short, so that its neighbours see the same machine
    )


FULL = Effort(rounds=100, peer_rounds=12, long_rounds=15, peer_agents=1000, peer_growth_rounds=1)
QUICK = Effort(rounds=20, peer_rounds=3, long_rounds=3, peer_agents=100, peer_growth_rounds=0)

FRESH_AFTER = 5  # rounds


@dataclass
class Bench:
    """What the measurements share."""

    candidates: list[Candidate]  # the bare loop is not among them: each sample is taken beside it
    effort: Effort
    book: Book = field(default_factory=Book)
    workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, candidate: Candidate) -> Worker:
        """The candidate's process, started when first asked for and shown to do the work it is timed for."""
        if candidate.name not in self.workers:
            worker = Worker(candidate)
            try:
                worker.ask("check")
            except Failed:
                worker.close()
                raise
            self.workers[candidate.name] = worker
        return self.workers[candidate.name]

    @property
    def bare(self) -> Worker:
        """The bare loop's process."""
        return self.worker(BARE)

    def __post_init__(self) -> None:
        """Stay on one core with all processes: two cores are rarely equally fast, and a ratio needs the same one."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    def rounds(
        self, part: str, sample: Callable[[Candidate], None], rounds: int, peer_rounds: int
    ) -> None:
        """Every candidate once per round, so that a slow minute of the machine falls on all of them alike."""
        for turn in range(rounds):
            if turn % FRESH_AFTER == 0:
                self.refresh()
            for candidate in self.candidates:
                left_out = candidate.is_peer and turn >= peer_rounds
                if left_out or self.book.failed(candidate.name, part):
                    continue
                say(f"{part}: round {turn + 1} of {rounds}, {candidate.name}")
                with self.book.guard(candidate.name, part):
                    sample(candidate)

    def refresh(self) -> None:
        """New processes for the close race: where its memory lies makes one a few per cent faster for life."""
        for candidate in [BARE, *self.candidates]:
            if not candidate.is_peer and candidate.name in self.workers:
                self.workers.pop(candidate.name).close()

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()


def say(text: str) -> None:
    """Progress, on one line that replaces itself; nothing when nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
