"""The conformance suite for stores: those that ship pass it, and broken ones do not."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookline import SQLiteJournal
from hookline.errors import JournalError, UsageError
from hookline.journal import (
    CheckReport,
    EarlierRun,
    InboxMessage,
    JournalStore,
    MemoryJournal,
    PromptSubmitted,
    Record,
)
from hookline.journal.chain import decode_all
from hookline.testing import StoreCase, StoreSubject, check_store, store_cases


async def damage_file(_: JournalStore, folder: Path, run_id: str) -> None:
    """Change a word of the run's prompt."""
    with closing(sqlite3.connect(folder / "journal.db")) as edit:
        edit.execute(
            "UPDATE batches SET records = replace(records, 'hello', 'hallo') "
            "WHERE id >> 32 = (SELECT id FROM runs WHERE run_id = ?)",
            (run_id,),
        )
        edit.commit()


async def lose_claim_of_file(_: JournalStore, folder: Path, run_id: str) -> None:
    """Remove the file of the locks."""
    assert run_id
    (folder / "journal.db-lease").unlink()


async def damage_memory(store: Any, _: Path, run_id: str) -> None:
    """The same in memory."""
    store._open()._get_writer().run_exclusively(
        lambda edit: edit.execute(
            "UPDATE batches SET records = replace(records, 'hello', 'hallo') "
            "WHERE id >> 32 = (SELECT id FROM runs WHERE run_id = ?)",
            (run_id,),
        )
    )


async def lose_claim_in_memory(store: Any, _: Path, run_id: str) -> None:
    """Forget who has it."""
    store._open()._held.discard(run_id)


def sqlite_subject(**options: Any) -> StoreSubject:
    """A file."""
    return StoreSubject(
        make=lambda folder: SQLiteJournal(folder / "journal.db", **options),
        damage=damage_file,
        lose_claim=lose_claim_of_file,
    )


def memory_subject(kind: Callable[[], JournalStore] = MemoryJournal) -> StoreSubject:
    """Memory, or what a test has broken of it."""
    return StoreSubject(
        make=lambda _: kind(),
        is_lasting=False,
        damage=damage_memory,
        lose_claim=lose_claim_in_memory,
    )


SUBJECTS = {
    "memory": memory_subject(),
    "NORMAL": sqlite_subject(),
    "FULL": sqlite_subject(synchronous="FULL"),
}


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("case", store_cases(), ids=str)
async def test_the_stores_that_ship_conform(case: StoreCase, subject: str) -> None:
    """Every case, unless it is about something that the store has not."""
    reason = await case.check(SUBJECTS[subject])
    assert reason == "" or (subject, reason) == ("memory", "it lasts as long as its process")


# --- broken stores ------------------------------------------------------------------------------------


class Passing:
    """Passes everything on to a claim, for one that is broken in one way."""

    def __init__(self, claim: Any) -> None:
        self.claim = claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self.claim, name)


class Broken(MemoryJournal):
    """A store whose claims are of this kind."""

    kind: type[Passing] = Passing

    async def claim(self, run_id: str) -> Any:
        return self.kind(await super().claim(run_id))


class LosesTheLast(Broken):
    """Of a large batch, the last record is not written, and nobody is told."""

    class kind(Passing):
        def write(self, records: Sequence[Record]) -> Future[None]:
            return self.claim.write(records[:-1] if len(records) > 1000 else records)  # type: ignore[no-any-return]


class AcknowledgesEarly(Broken):
    """A write is done before it is written: it is written with the next one, or when the run is given back."""

    class kind(Passing):
        def __init__(self, claim: Any) -> None:
            super().__init__(claim)
            self.late: list[Record] = []

        def write(self, records: Sequence[Record]) -> Future[None]:
            done: Future[None] = Future()
            done.set_result(None)
            self.late += records
            return done

        def give_back(self) -> Future[None]:
            late, self.late = self.late, []
            if late:
                self.claim.write(late)
            return self.claim.give_back()  # type: ignore[no-any-return]


class WritesAfterGivingBack(Broken):
    """A claim that was given back still writes."""

    class kind(Passing):
        def give_back(self) -> Future[None]:
            self.claim._release()
            done: Future[None] = Future()
            done.set_result(None)
            return done


class HasNoFence(Broken):
    """A claim that was lost writes all the same, at the end of what is there."""

    async def claim(self, run_id: str) -> Any:
        claim, journal = await super().claim(run_id), self._open()

        class Unfenced(Passing):
            def write(self, records: Sequence[Record]) -> Future[None]:
                with journal._snapshot() as tables:
                    known = tables.end_of(run_id)
                if known is not None:
                    claim.claim._info, claim.claim.tail = known[0], known[1]
                return claim.claim.write(records)  # type: ignore[no-any-return]

        return Unfenced(claim.claim)


class ClaimsTwice(MemoryJournal):
    """Everybody gets the run."""

    async def claim(self, run_id: str) -> Any:
        self._open()._held.discard(run_id)  # type: ignore[attr-defined]
        return await super().claim(run_id)


class KeepsCancelledClaims(MemoryJournal):
    """Whoever is cancelled while it waits has taken the run for ever."""

    kept: list[Any] = []  # noqa: RUF012 - of the whole test

    async def claim(self, run_id: str) -> Any:
        claim = await super().claim(run_id)
        self.kept.append(claim)
        await asyncio.sleep(0.001)
        return claim


class ReadsBackwards(MemoryJournal):
    """The first record last."""

    async def read(self, run_id: str) -> list[Record]:
        return (await super().read(run_id))[::-1]


class CutsAtNul(MemoryJournal):
    """As a C string is cut."""

    async def read(self, run_id: str) -> list[Record]:
        return [
            PromptSubmitted(each.run_id, each.seq, each.at, each.text.split("\0")[0])
            if isinstance(each, PromptSubmitted)
            else each
            for each in await super().read(run_id)
        ]


class ReadsDamage(MemoryJournal):
    """It does not look at the chain: the journal is opened anew without it."""

    async def read(self, run_id: str) -> list[Record]:
        with self._open()._snapshot() as tables:
            stored = tables.read_stored(run_id)
        if stored is None:
            return await super().read(run_id)
        return decode_all(stored)


class FindsNothing(MemoryJournal):
    """A check that cannot fail."""

    async def check(self) -> CheckReport:
        found = await super().check()
        return CheckReport(journal=found.journal, runs=found.runs, records=found.records)


class TrustsReferences(MemoryJournal):
    """Whatever the head is."""

    async def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        try:
            return (await self.read(earlier.run_id))[: earlier.records]
        except Exception as error:
            raise JournalError(str(error)) from None


class TakesAnyAnswer(MemoryJournal):
    """The last one counts."""

    async def post(self, message: InboxMessage) -> None:
        try:
            await super().post(message)
        except UsageError:
            return


class DeletesAlone(MemoryJournal):
    """Runs that continue a deleted one are left behind."""

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        try:
            return await super().delete(run_id, with_later=with_later)
        except JournalError as error:
            if type(error) is JournalError:
                return [run_id]
            raise


class PrunesEverything(MemoryJournal):
    """Also what waits for an answer."""

    async def prune(self, **limits: Any) -> list[str]:
        return await super().prune(**{**limits, "unfinished": True})


class ListsOldestFirst(MemoryJournal):
    """A list is sorted somehow."""

    async def runs(self, **wanted: Any) -> list[Any]:
        return (await super().runs(**wanted))[::-1]


BROKEN: dict[type[MemoryJournal], set[str]] = {
    LosesTheLast: {"large records are kept"},
    AcknowledgesEarly: {"what is committed is seen"},
    WritesAfterGivingBack: {"giving back waits for what is queued"},
    HasNoFence: {"a lost claim writes nothing"},
    ClaimsTwice: {"a run is claimed once", "one of many gets the claim"},
    KeepsCancelledClaims: {"a cancelled claim is not taken", "a forgotten claim is given back"},
    ReadsBackwards: {"records come back in order"},
    CutsAtNul: {"any content is kept"},
    ReadsDamage: {"damage is found"},
    FindsNothing: {"damage is found", "a wrong reference is damage"},
    TrustsReferences: {"a wrong reference is damage"},
    TakesAnyAnswer: {"the first answer counts", "of two answers at once one counts"},
    DeletesAlone: {"a continued run is not deleted alone"},
    PrunesEverything: {"pruning keeps what is wanted"},
    ListsOldestFirst: {"the list says what the records say"},
}
"""What the suite must find wrong with each."""


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
async def test_a_broken_store_does_not_conform(kind: type[MemoryJournal]) -> None:
    """The cases that are about what it breaks fail, and each says what it found."""
    report = await check_store(memory_subject(kind), only=BROKEN[kind])
    assert not report.ok
    assert report.failed.keys() == BROKEN[kind], str(report)
    assert all(report.failed.values())


async def test_a_report_can_be_read() -> None:
    """What fails is shown with what was expected; what does not apply, with the reason."""
    only = ["the list says what the records say", "what was written is there again"]
    report = await check_store(memory_subject(ListsOldestFirst), only=only)
    assert str(report).splitlines()[0] == "does not conform: 0 passed, 1 failed, 1 do not apply"
    assert "the order" in str(report)
    assert "it lasts as long as its process" in str(report)


async def test_a_case_that_is_not_there_is_refused() -> None:
    """With those that are."""
    with pytest.raises(UsageError, match=r"no case 'x'.*records come back in order"):
        await check_store(memory_subject(), only=["x"])


def test_a_case_says_what_it_is_about() -> None:
    """For whoever reads the list."""
    assert all(case.meaning.endswith(".") for case in store_cases())
