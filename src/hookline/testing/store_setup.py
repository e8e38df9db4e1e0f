"""What a case of the store suite works with: a store, a second one at the same place, and runs to write."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hookline.errors import HooklineError
from hookline.journal import (
    Claim,
    EarlierRun,
    JournalStore,
    PromptSubmitted,
    Record,
    RunFinished,
    RunStarted,
    StatusChanged,
    StepStarted,
)
from hookline.state import RunStatus, StopReason
from hookline.testing.report import Deviation, Inapplicable, Mismatch


class StoreSubject(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of store, and what the suite cannot do through its interface."""

    make: Callable[[Path], JournalStore]
    """A store at this place, a folder of its own for each case. At the same place it is the same store again, as
    another process would open it."""
    is_lasting: bool = True
    """Whether a second store at the same place has what the first has written; not if it is kept in memory."""
    damage: Callable[[JournalStore, Path, str], Awaitable[object]] | None = None
    """Change something in a stored record of a run, behind the store's back."""
    lose_claim: Callable[[JournalStore, Path, str], Awaitable[object]] | None = None
    """Free a run that is claimed, without a word to whoever has it: as when a lock is lost."""
    lose_run: Callable[[JournalStore, Path, str], Awaitable[object]] | None = None
    """Remove a run with all of its records, behind the store's back."""
    restore: Callable[[Path], JournalStore] | None = None
    """A store that has what is in this backup."""


def story(
    run_id: str,
    *,
    at: float = 1000.0,
    status: RunStatus | None = RunStatus.COMPLETED,
    session: str = "",
    parent: str | None = None,
    continues: EarlierRun | None = None,
    prompt: str = "hello",
) -> list[Record]:
    """The records of a short run. Without a status it is running, or its process died."""
    records: list[Record] = []

    def add(kind: type[Record], **fields: Any) -> None:
        seq = len(records)
        records.append(kind(run_id=run_id, seq=seq, at=at + seq, **fields))

    add(
        RunStarted,
        agent_id="agent",
        session_id=session or run_id,
        parent_run_id=parent,
        continues=continues,
    )
    add(PromptSubmitted, text=prompt)
    add(StepStarted, step=0)
    if status is not None:
        add(StatusChanged, status=status, stop_reason=StopReason.COMPLETED)
        add(RunFinished, text="done", status=status)
    return records


class StoreSetup:
    """One case, with a store of its own."""

    def __init__(self, subject: StoreSubject, place: Path, case: str) -> None:
        self._subject = subject
        self.place = place
        self._case = case
        self.store = subject.make(place)
        self._made = [self.store]
        self._processes: list[OtherProcess] = []

    async def close(self) -> None:
        """Close the stores, if the case has not."""
        for process in self._processes:
            process.close()
        for store in self._made:
            with suppress(HooklineError):
                await store.close()

    def another(self) -> JournalStore:
        """A second store at the same place, as another process would have it."""
        if not self._subject.is_lasting:
            raise Inapplicable("it lasts as long as its process")
        self._made.append(self._subject.make(self.place))
        return self._made[-1]

    def another_process(
        self, look: Callable[[JournalStore], Coroutine[Any, Any, str]]
    ) -> OtherProcess:
        """A process that has a store at the same place, and nothing that this one writes from now on."""
        if not self._subject.is_lasting:
            raise Inapplicable("it lasts as long as its process")
        if not hasattr(os, "fork"):
            raise Inapplicable("this system forks no process")
        self._processes.append(OtherProcess(lambda: look(self._subject.make(self.place))))
        return self._processes[-1]

    def restore(self, path: Path) -> JournalStore | None:
        """A store that has what is in a backup; None if the suite was not told how to make one."""
        if self._subject.restore is None:
            return None
        self._made.append(self._subject.restore(path))
        return self._made[-1]

    async def damage(self, run_id: str) -> None:
        """Change something in a stored record."""
        if self._subject.damage is None:
            raise Inapplicable("the suite has no function to damage it")
        await self._subject.damage(self.store, self.place, run_id)

    async def lose_claim(self, run_id: str) -> None:
        """Free a run, without a word to whoever has claimed it."""
        if self._subject.lose_claim is None:
            raise Inapplicable("the suite has no function to lose a claim")
        await self._subject.lose_claim(self.store, self.place, run_id)

    async def lose_run(self, run_id: str) -> None:
        """Remove a run, behind the store's back."""
        if self._subject.lose_run is None:
            raise Inapplicable("the suite has no function to lose a run")
        await self._subject.lose_run(self.store, self.place, run_id)

    # --- writing --------------------------------------------------------------------------------

    async def keep(self, *runs: Sequence[Record]) -> None:
        """Write runs, each as a whole, and give them back."""
        for records in runs:
            claim = await self.store.claim(records[0].run_id)
            await write(claim, records)
            await give_back(claim)

    # --- expecting ------------------------------------------------------------------------------

    def expect(self, what: str, expected: Any, got: Any, remedy: str = "") -> None:
        """Refuse what is not as it should be."""
        if got != expected:
            raise Mismatch(Deviation(self._case, what, expected, got, remedy))

    async def expect_error(
        self, what: str, kind: type[BaseException], waiting: Awaitable[object], *words: str
    ) -> None:
        """Refuse what does not fail like this, with these words in its message."""
        try:
            await waiting
        except kind as error:
            for word in words:
                if word not in str(error):
                    wanted = f"a message with '{word}'"
                    raise Mismatch(Deviation(self._case, what, wanted, str(error))) from None
        except Exception as error:
            raise Mismatch(Deviation(self._case, what, kind.__name__, repr(error))) from None
        else:
            raise Mismatch(Deviation(self._case, what, kind.__name__, "no error"))

    async def expect_sound(self, store: JournalStore | None = None) -> None:
        """Refuse a store that says it is damaged."""
        report = await (store or self.store).check()
        self.expect("what check() finds", "no damage", "no damage" if report.ok else str(report))


async def write(claim: Claim, records: Sequence[Record]) -> None:
    """Write records, and wait until they are committed."""
    try:
        written = claim.write(records)
    except Exception as error:
        wrong = Deviation("write", "what is wrong", "in the future", f"raised: {error!r}")
        raise Mismatch(wrong) from None
    await asyncio.wrap_future(written)


async def give_back(claim: Claim) -> None:
    """Give a run back, and wait until others can have it."""
    await asyncio.wrap_future(claim.give_back())


class Turns:
    """How the event loop fares while something is awaited."""

    def __init__(self) -> None:
        self.count = 0
        """How often others had their turn."""
        self.longest_wait = 0.0
        """Seconds that the thread of the loop has spent in one turn without running. To be busy is no waiting."""

    async def watch(self, asked: Awaitable[object]) -> None:
        """Await something, and watch meanwhile."""
        asking = asyncio.ensure_future(asked)
        while not asking.done():
            before = time.monotonic() - time.thread_time()
            await asyncio.sleep(0)
            waited = time.monotonic() - time.thread_time() - before
            self.longest_wait = max(self.longest_wait, waited)
            self.count += not asking.done()
        await asking


class OtherProcess:
    """A process that is forked now, and looks when it is asked. So it finds nothing that is only in memory here."""

    def __init__(self, look: Callable[[], Coroutine[Any, Any, str]]) -> None:
        begin, self._begin = os.pipe()
        self._answer, answer = os.pipe()
        with warnings.catch_warnings():
            # Newer Pythons warn of threads. What these may hold is of no use to the child: it opens a store of its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            os.close(self._begin)
            os.close(self._answer)
            _answer_and_exit(look, begin, answer)
        os.close(begin)
        os.close(answer)

    async def look(self) -> str:
        """What it finds, or its error; nothing if it died."""
        os.write(self._begin, b".")
        return await asyncio.to_thread(self._read)

    def _read(self) -> str:
        with open(self._answer, "rb", closefd=False) as answer:
            return answer.read().decode()

    def close(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._begin)
        os.close(self._answer)


def _answer_and_exit(look: Callable[[], Coroutine[Any, Any, str]], begin: int, answer: int) -> None:
    def work() -> None:
        try:
            found = asyncio.run(look())
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(answer, found.encode())

    try:
        if os.read(begin, 1):  # otherwise nobody is there any more
            thread = threading.Thread(target=work)  # this one has the parent's event loop
            thread.start()
            thread.join()
    finally:
        os._exit(0)
