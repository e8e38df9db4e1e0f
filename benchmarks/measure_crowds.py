"""Many at once: a thousand agents in one event loop, a hundred calls in one step, a thousand agents built."""

from __future__ import annotations

from bench import Bench
from candidates import BARE, Candidate
from remote import Worker

AGENTS, STEPS, CALLS, BUILT = 1_000, 10, 100, 1_000


def measure_fleet(bench: Bench) -> None:
    """CPU and memory of a whole process that runs many agents at once."""
    book = bench.book

    def sample(candidate: Candidate) -> None:
        agents = bench.effort.peer_agents if candidate.is_peer else AGENTS
        for each in [candidate] if candidate.is_peer else [BARE, candidate]:
            with Worker(
                each
            ) as worker:  # a fresh one, or the peak would be that of an earlier measurement
                answer = worker.ask("fleet", agents=agents, steps=STEPS)
            book.add(each.name, "fleet_cpu_s", answer["cpu_s"])
            book.add(each.name, "fleet_peak_mb", answer["peak_mb"])
            book.add(each.name, "fleet_agents", agents)

    bench.rounds("fleet", sample, bench.effort.long_rounds, 1)


def measure_parallel(bench: Bench) -> None:
    """Wall time of one step whose calls each only wait."""
    book = bench.book

    def sample(candidate: Candidate) -> None:
        if not candidate.is_peer:
            book.add(BARE.name, "parallel_ms", bench.bare.ask("parallel", calls=CALLS)["wall_ms"])
        book.add(
            candidate.name,
            "parallel_ms",
            bench.worker(candidate).ask("parallel", calls=CALLS)["wall_ms"],
        )

    bench.rounds("parallel", sample, bench.effort.long_rounds, bench.effort.peer_rounds)


def measure_build(bench: Bench) -> None:
    """Time to build an agent, and what it weighs."""
    book = bench.book

    def sample(candidate: Candidate) -> None:
        for each in [candidate] if candidate.is_peer else [BARE, candidate]:
            count = BUILT // 5 if each.is_peer else BUILT
            answer = bench.worker(each).ask("build", count=count)
            book.add(each.name, "build_us", answer["cpu_us"])
            book.add(each.name, "agent_kb", answer["kb"])

    bench.rounds("build", sample, bench.effort.long_rounds, 1)
