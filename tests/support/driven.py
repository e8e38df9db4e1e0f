"""Every way to drive a run, and dying in the middle of one: for tests of what must be the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from plain_inbox import PlainInbox, done_future

from hookline import RunResult, SQLiteJournal
from hookline.errors import UnknownRunError
from hookline.journal import Record

WAYS = ("run", "stream", "iterate")


async def drive(agent: Any, way: str, prompt: str = "go", **options: Any) -> RunResult:
    """The result of a run that is driven this way."""
    if way == "run":
        return await agent.run(prompt, **options)  # type: ignore[no-any-return]
    stream = getattr(agent, way)(prompt, **options)
    async for _ in stream:
        pass
    return stream.result  # type: ignore[no-any-return]


class Tape(PlainInbox):
    """A journal that remembers the order of all records, so that it can be cut anywhere."""

    def __init__(self, written: Sequence[Record] = ()) -> None:
        self.written = list(written)

    async def claim(self, run_id: str) -> Any:
        """Write to it."""
        return _Claim(self, run_id)

    def records(self, run_id: str) -> list[Record]:
        """The records of one run."""
        found = [record for record in self.written if record.run_id == run_id]
        if not found:
            raise UnknownRunError(f"no run '{run_id}'.")
        return found


class _Claim(NamedTuple):
    tape: Tape
    run_id: str
    steps_before_loss = None

    def write(self, records: Sequence[Record]) -> Future[None]:
        self.tape.written += records
        return done_future()

    def give_back(self) -> Future[None]:
        return done_future()


async def lives(
    build: Callable[[Any], Any], prompt: str = "go"
) -> tuple[RunResult, list[RunResult]]:
    """A whole run, and the same run resumed after every one of its records by a process that was just started."""
    tape = Tape()
    whole: RunResult = await build(tape).run(prompt, run_id="run")
    begun = next(i for i, record in enumerate(tape.written) if record.type == "prompt") + 1
    resumed = []
    for at in range(begun, len(tape.written) + 1):
        resumed.append(await build(Tape(tape.written[:at])).resume("run"))
    return whole, resumed


async def on_disk(build: Callable[[Any], Any], path: Path, prompt: str = "go") -> RunResult:
    """A run of which all but the last step and the end is on disk, resumed from there."""
    tape = Tape()
    await build(tape).run(prompt, run_id="run")
    last = max(i for i, record in enumerate(tape.written) if record.type == "step")
    journal = SQLiteJournal(path)
    claim = await journal.claim("run")
    claim.write([record for record in tape.written[:last] if record.run_id == "run"]).result()
    claim.give_back().result()
    result: RunResult = await build(journal).resume("run")
    await journal.close()
    return result
