"""The cost of a step, of one more hook, and of a step far into a long run."""

from __future__ import annotations

from typing import Literal

from bench import Bench
from candidates import BARE, HOOKLINE, Candidate
from remote import Worker
from script import Workload

EARLY = (5, 15)  # the steps around the tenth
LATE = (900, 1_000)
VERY_LATE = (9_000, 10_000)
HOOKS = 16
DERIVED: tuple[Literal["metadata"], Literal["message"]] = ("metadata", "message")


def measure_step(bench: Bench) -> None:
    """A step without hooks, and what each no-op hook adds to it."""
    book, budget = bench.book, bench.effort.budget

    def sample(candidate: Candidate) -> None:
        worker, name = bench.worker(candidate), candidate.name
        bare = bench.bare.step_us(*EARLY, budget)
        step = worker.step_us(*EARLY, budget)
        book.add(name, "step_us", step)
        book.add(name, "step_x_bare", step / bare)
        first, more = cost_of_hooks(worker, "async", step)
        add_hook(name, "hook", more, bare)
        if name == HOOKLINE:
            add_hook(name, "first_hook", first, bare)
            add_hook(name, "sync_hook", cost_of_hooks(worker, "sync", step)[1], bare)
            add_tracing(worker, name)
            book.add(BARE.name, "step_us", bare)
            add_hook(BARE.name, "hook", cost_of_hooks(bench.bare, "async", bare)[1], bare)

    def add_tracing(worker: Worker, name: str) -> None:
        # Right after each other: a step without it, with it and no exporter, with an exporter.
        plain, idle, sending = (
            worker.step_us(*EARLY, budget, Workload(tracing=each))
            for each in ("", "idle", "sending")
        )
        book.add(name, "idle_tracing_x_step", idle / plain)
        book.add(name, "tracing_us", sending - plain)

    def cost_of_hooks(
        worker: Worker, kind: Literal["async", "sync"], step: float
    ) -> tuple[float, float]:
        one = worker.step_us(*EARLY, budget, Workload(hooks=1, kind=kind))
        many = worker.step_us(*EARLY, budget, Workload(hooks=1 + HOOKS, kind=kind))
        return (one - step) / 2, (many - one) / (2 * HOOKS)

    def add_hook(name: str, kind: str, cost: float, bare: float) -> None:
        book.add(name, f"{kind}_us", cost)
        book.add(name, f"{kind}_x_bare", cost / bare)

    bench.rounds("step", sample, bench.effort.rounds, bench.effort.peer_rounds)


def measure_growth(bench: Bench) -> None:
    """What a step costs late in a run, against one around the tenth."""
    book, budget = bench.book, bench.effort.budget

    def growth(worker: Worker, span: tuple[int, int], workload: Workload | None = None) -> float:
        # The late steps end their run, so the early ones of the next run are timed right after them.
        late = worker.step_us(*span, budget, workload)
        return late / worker.step_us(*EARLY, budget, workload)

    def sample(candidate: Candidate) -> None:
        worker, name = bench.worker(candidate), candidate.name
        book.add(name, "growth_1000", growth(worker, LATE))
        if candidate.is_peer:
            return
        bare, late = bench.bare.step_us(*LATE, budget), worker.step_us(*LATE, budget)
        book.add(BARE.name, "late_step_us", bare)
        book.add(name, "late_step_us", late)
        book.add(name, "late_step_x_bare", late / bare)
        book.add(name, "growth_10000", growth(worker, VERY_LATE))
        book.add(BARE.name, "growth_1000", growth(bench.bare, LATE))
        book.add(BARE.name, "growth_10000", growth(bench.bare, VERY_LATE))
        for derive in DERIVED:
            book.add(name, f"growth_1000_{derive}", growth(worker, LATE, Workload(derive=derive)))
            book.add(
                name, f"growth_10000_{derive}", growth(worker, VERY_LATE, Workload(derive=derive))
            )

    bench.rounds("growth", sample, bench.effort.long_rounds, bench.effort.peer_growth_rounds)
