"""What a case of the store suite works with: a store, a second one at the same place, and runs to write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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

    async def close(self) -> None:
        """Close the stores, if the case has not."""
        for store in self._made:
            with suppress(HooklineError):
                await store.close()

    def another(self) -> JournalStore:
        """A second store at the same place, as another process would have it."""
        if not self._subject.is_lasting:
            raise Inapplicable("it lasts as long as its process")
        self._made.append(self._subject.make(self.place))
        return self._made[-1]

    async def damage(self, run_id: str) -> None:
        """Change something in a stored record."""
        if self._subject.damage is None:
            raise Inapplicable("the suite was not told how to damage it")
        await self._subject.damage(self.store, self.place, run_id)

    async def lose_claim(self, run_id: str) -> None:
        """Free a run, without a word to whoever has claimed it."""
        if self._subject.lose_claim is None:
            raise Inapplicable("the suite was not told how a claim is lost")
        await self._subject.lose_claim(self.store, self.place, run_id)

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
    await asyncio.wrap_future(claim.write(records))


async def give_back(claim: Claim) -> None:
    """Give a run back, and wait until others can have it."""
    await asyncio.wrap_future(claim.give_back())
