"""The conformance suite for stores: those that ship pass it, and broken ones do not."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from postgres_server import PostgresServer

from hookline import SQLiteJournal
from hookline.errors import JournalError, RunInUseError, UsageError
from hookline.journal import (
    CheckReport,
    EarlierRun,
    InboxMessage,
    JournalStore,
    MemoryJournal,
    PostgresJournal,
    PromptSubmitted,
    Record,
    operations,
)
from hookline.journal.chain import decode_all
from hookline.journal.stores import LocalStore
from hookline.testing import StoreCase, StoreSubject, check_store, store_cases

_OF_RUN = "id >> 32 = (SELECT id FROM runs WHERE run_id = ?)"
_DAMAGE = f"UPDATE batches SET records = replace(records, 'hello', 'hallo') WHERE {_OF_RUN}"
_LOSE_RECORDS = f"DELETE FROM batches WHERE {_OF_RUN}"
_LOSE_RUN = "DELETE FROM runs WHERE run_id = ?"


def edit_file(*changes: str) -> Any:
    """Changes a file behind the back of its store."""

    async def edit(_: JournalStore, folder: Path, run_id: str) -> None:
        with closing(sqlite3.connect(folder / "journal.db")) as connection:
            for change in changes:
                connection.execute(change, (run_id,))
            connection.commit()

    return edit


def edit_memory(*changes: str) -> Any:
    """The same in memory."""

    async def edit(store: Any, _: Path, run_id: str) -> None:
        for change in changes:
            store._open()._get_writer().run_exclusively(
                lambda connection, change=change: connection.execute(change, (run_id,))
            )
            store._open()._get_writer()._connection.commit()

    return edit


async def lose_claim_of_file(_: JournalStore, folder: Path, run_id: str) -> None:
    """Remove the file of the locks."""
    assert run_id
    (folder / "journal.db-lease").unlink()


async def lose_claim_in_memory(store: Any, _: Path, run_id: str) -> None:
    """Forget who has it."""
    del store._open()._held[run_id]


def file_subject(kind: Callable[..., JournalStore] = SQLiteJournal, **options: Any) -> StoreSubject:
    """A file, or what a test has broken of it."""
    return StoreSubject(
        make=lambda folder: kind(folder / "journal.db", **options),
        damage=edit_file(_DAMAGE),
        lose_claim=lose_claim_of_file,
        lose_run=edit_file(_LOSE_RECORDS, _LOSE_RUN),
        restore=SQLiteJournal,
    )


def memory_subject(kind: Callable[[], JournalStore] = MemoryJournal) -> StoreSubject:
    """Memory, or what a test has broken of it."""
    return StoreSubject(
        make=lambda _: kind(),
        is_lasting=False,
        damage=edit_memory(_DAMAGE),
        lose_claim=lose_claim_in_memory,
        lose_run=edit_memory(_LOSE_RECORDS, _LOSE_RUN),
        restore=SQLiteJournal,
    )


SUBJECTS = {
    "memory": memory_subject(),
    "NORMAL": file_subject(),
    "FULL": file_subject(synchronous="FULL"),
}


async def test_a_journal_in_postgresql_conforms(postgres: PostgresServer) -> None:
    """Every case."""
    schemas: dict[Path, str] = {}

    def make(folder: Path) -> JournalStore:
        if folder not in schemas:
            schemas[folder] = call_here(postgres.new_schema)
        return PostgresJournal(postgres.url(), schema=schemas[folder])

    def edit(*changes: str) -> Any:
        async def edit(_: JournalStore, folder: Path, run_id: str) -> None:
            for change in changes:
                await asyncio.to_thread(postgres.ask, change.format(schemas[folder]), run_id)

        return edit

    of_run = "id >> 32 = (SELECT id FROM {0}.runs WHERE run_id = %s)"
    text = "replace(convert_from(records, 'UTF8'), 'hello', 'hallo')"
    subject = StoreSubject(
        make=make,
        damage=edit(
            f"UPDATE {{0}}.batches SET records = convert_to({text}, 'UTF8') WHERE {of_run}"
        ),
        lose_run=edit(
            f"DELETE FROM {{0}}.batches WHERE {of_run}", "DELETE FROM {0}.runs WHERE run_id = %s"
        ),
        lose_claim=edit(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND %s <> ''"
        ),
    )
    report = await check_store(subject)
    assert report.ok, str(report)
    assert "0 do not apply" in str(report)


def call_here(work: Callable[[], str]) -> str:
    """Call something in a thread that has no event loop, and wait for it."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(work).result()


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
        self._open()._held.pop(run_id, None)  # type: ignore[attr-defined]
        return await super().claim(run_id)


class FreesTheClaimOfAnother(Broken):
    """`DELETE FROM claims WHERE run_id = ?`."""

    async def claim(self, run_id: str) -> Any:
        held = self._open()._held  # type: ignore[attr-defined]

        class Freeing(Passing):
            def give_back(self) -> Future[None]:
                held.pop(run_id, None)
                return self.claim.give_back()  # type: ignore[no-any-return]

        return Freeing(await MemoryJournal.claim(self, run_id))


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


class MindsWhoAnswers(MemoryJournal):
    """The same answer of somebody else is another one."""

    async def post(self, message: InboxMessage) -> None:
        if any(each.by != message.by for each in await self.inbox(message.run_id)):
            raise UsageError("there is an answer already.")
        await super().post(message)


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


class LimitsFirst(MemoryJournal):
    """Of the newest runs, those that are wanted."""

    async def runs(self, *, limit: int | None = None, **wanted: Any) -> list[Any]:
        newest = await super().runs(limit=limit)
        return [each for each in await super().runs(**wanted) if each in newest]


class ListsSessionsByStart(MemoryJournal):
    """The one that was made last first."""

    async def sessions(self, *, limit: int | None = None) -> list[Any]:
        listed = await super().sessions(limit=limit)
        return sorted(listed, key=lambda each: each.created_at, reverse=True)


class RaisesFromWrite(Broken):
    """A claim that was given back raises, and its future says nothing."""

    class kind(Passing):
        def write(self, records: Sequence[Record]) -> Future[None]:
            written: Future[None] = self.claim.write(records)
            if written.done():
                written.result()
            return written


class WritesAfterAFailure(Broken):
    """A record is missing in the middle."""

    class kind(Passing):
        def write(self, records: Sequence[Record]) -> Future[None]:
            self.claim.failure = None
            return self.claim.write(records)  # type: ignore[no-any-return]


class TakesAnyName(MemoryJournal):
    """Also none."""

    async def claim(self, run_id: str) -> Any:
        return await super().claim(run_id if run_id.isprintable() and run_id else "somebody")


class TrimsNames(MemoryJournal):
    """As some databases compare text."""

    async def read(self, run_id: str) -> list[Record]:
        return await super().read(run_id.strip())


class NeverCloses(MemoryJournal):
    """There is nothing to close, it says."""

    async def close(self) -> None:
        return


class ChecksInOneLoop(MemoryJournal):
    """As with a connection that belongs to the event loop that opened it."""

    loop: asyncio.AbstractEventLoop | None = None

    async def check(self) -> CheckReport:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return await super().check()


class ForgetsWhatItContinues(MemoryJournal):
    """The list does not say."""

    async def runs(self, **wanted: Any) -> list[Any]:
        return [replace(each, continues=None) for each in await super().runs(**wanted)]


class TakesZeroForAll(MemoryJournal):
    """`limit or None`."""

    async def runs(self, *, limit: int | None = None, **wanted: Any) -> list[Any]:
        return await super().runs(limit=limit or None, **wanted)

    async def sessions(self, *, limit: int | None = None) -> list[Any]:
        return await super().sessions(limit=limit or None)


class CountsFromTheEnd(MemoryJournal):
    """`[:limit]`."""

    async def runs(self, *, limit: int | None = None, **wanted: Any) -> list[Any]:
        return (await super().runs(**wanted))[:limit]

    async def sessions(self, *, limit: int | None = None) -> list[Any]:
        return (await super().sessions())[:limit]


class RefersToTheWhole(MemoryJournal):
    """However many records were asked for."""

    async def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        return await super().refer(run_id)


class RefersToWhatIsNotThere(MemoryJournal):
    """More records than there are."""

    async def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        try:
            return await super().refer(run_id, records)
        except JournalError:
            return EarlierRun(run_id, records or 0, "")


class DeletesClaimedLaterRuns(MemoryJournal):
    """It looks only whether the first one is claimed."""

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        held: dict[str, object] = self._open()._held  # type: ignore[attr-defined]
        for name in [each for each in held if with_later and each != run_id]:
            del held[name]
        return await super().delete(run_id, with_later=with_later)


class PrunesBySeconds(MemoryJournal):
    """The seconds of a day are not those of a timedelta."""

    async def prune(self, *, older_than: Any = None, **limits: Any) -> list[str]:
        if isinstance(older_than, timedelta):
            older_than = older_than.seconds
        return await super().prune(older_than=older_than, **limits)


class PrunesLessThanNothing(MemoryJournal):
    """What is negative is nothing."""

    async def prune(self, *, keep: int | None = None, **limits: Any) -> list[str]:
        return await super().prune(keep=None if keep is None else max(keep, 0), **limits)


class MissesLostRuns(MemoryJournal):
    """It checks what is there."""

    async def check(self) -> CheckReport:
        found = await super().check()
        there = {each.run_id for each in await super().runs()}
        return replace(found, damage=tuple(each for each in found.damage if each.run_id in there))


class MissesLostSessions(MemoryJournal):
    """A session is no run."""

    async def check(self) -> CheckReport:
        found = await super().check()
        runs = (each for each in found.damage if not each.run_id.startswith("session/"))
        return replace(found, damage=tuple(runs))


class MissesLostChildren(MemoryJournal):
    """A child is no run."""

    async def check(self) -> CheckReport:
        found = await super().check()
        runs = (each for each in found.damage if each.run_id != "r/0")
        return replace(found, damage=tuple(runs))


class BacksUpRunsOnly(MemoryJournal):
    """Messages are not in the copy."""

    async def backup(self, path: Any) -> None:
        await super().backup(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM inbox")
            connection.commit()


class MakesAnEmptyBackup(MemoryJournal):
    """The file is there."""

    async def backup(self, path: Any) -> None:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError as error:
            raise JournalError(str(error)) from None


class BacksUpNothing(MemoryJournal):
    """A journal without a run."""

    async def backup(self, path: Any) -> None:
        await MemoryJournal().backup(path)


class LastsInItsProcess(MemoryJournal):
    """It says that it lasts, and a second one at the same place has the same memory."""

    places: dict[Path, Any] = {}  # noqa: RUF012 - of the whole process

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._journal = self.places.setdefault(place, self._journal)


class ClaimsInItsProcess(SQLiteJournal):
    """No other process knows what is claimed."""

    held: dict[str, set[str]] = {}  # noqa: RUF012 - of the whole process

    def _open(self) -> Any:
        file, held = super()._open(), self.held.setdefault(self.path, set())

        def lease(run_id: str) -> Any:
            if run_id in held:
                raise RunInUseError(f"run '{run_id}' is already running.")
            held.add(run_id)
            return lambda: held.discard(run_id)

        file._lease = lease  # type: ignore[method-assign]
        return file


class KeepsTheClaimsOfTheDead(SQLiteJournal):
    """A row says who drives a run, until it is given back."""

    def _open(self) -> Any:
        file = super()._open()

        def lease(run_id: str) -> Any:
            row = Path(f"{self.path}-{run_id.encode().hex()}")
            try:
                row.touch(exist_ok=False)
            except FileExistsError:
                raise RunInUseError(f"run '{run_id}' is being driven.") from None
            return lambda: row.unlink(missing_ok=True)

        file._lease = lease  # type: ignore[method-assign]
        return file


class DeletesChildrenAlone(SQLiteJournal):
    """Whatever started them."""

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operations, "may_continue", lambda _: False)
            return await super().delete(run_id, with_later=with_later)


class DeletesWhatOthersDrive(SQLiteJournal):
    """It knows its own claims only."""

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._open(), "_lease", lambda _: lambda: None)
            return await super().delete(run_id, with_later=with_later)


class SleepsInTheLoop(SQLiteJournal):
    """Before it asks elsewhere."""

    async def read(self, run_id: str) -> list[Record]:
        time.sleep(0.1)  # noqa: ASYNC251 - that is what is wrong with it
        return await super().read(run_id)


class ReadsInTheLoop(SQLiteJournal):
    """What is quick on a local disk."""

    async def read(self, run_id: str) -> list[Record]:
        return self._open().read(run_id)


BROKEN: dict[type[LocalStore], dict[str, str]] = {
    LosesTheLast: {"large records are kept": "whether the many are the same"},
    AcknowledgesEarly: {"what is committed is seen": "no run 'r'"},
    WritesAfterGivingBack: {"giving back waits for what is queued": "after it was given back"},
    RaisesFromWrite: {"giving back waits for what is queued": "raised"},
    WritesAfterAFailure: {"a batch is written whole or not at all": "what follows it"},
    HasNoFence: {"a lost claim writes nothing": "a write with a lost claim"},
    FreesTheClaimOfAnother: {
        "a lost claim writes nothing": "a claim after the lost one was given back"
    },
    KeepsTheClaimsOfTheDead: {"a dead process has no claim": "none within"},
    ClaimsTwice: {
        "a run is claimed once": "a second claim",
        "one of many gets the claim": "how many are refused",
    },
    KeepsCancelledClaims: {
        "a cancelled claim is not taken": "already running",
        "a forgotten claim is given back": "whether it can be claimed again",
    },
    TakesAnyName: {"a run has any name": "a run named ''"},
    TrimsNames: {"a run has any name": "the records of 'r '"},
    ReadsBackwards: {"records come back in order": "the records"},
    CutsAtNul: {"any content is kept": "the records"},
    ReadsDamage: {"damage is found": "read"},
    FindsNothing: {
        "damage is found": "whether check() finds it",
        "a wrong reference is damage": "the damaged runs",
        "a missing run is noticed": "whether check() misses 'gone'",
    },
    MissesLostRuns: {"a missing run is noticed": "whether check() misses 'gone'"},
    MissesLostChildren: {"a missing run is noticed": "whether check() misses 'r/0'"},
    MissesLostSessions: {"a missing run is noticed": "whether check() misses 'session/s'"},
    TrustsReferences: {"a wrong reference is damage": "read_earlier"},
    RefersToTheWhole: {"a reference names the records": "what they name"},
    RefersToWhatIsNotThere: {"a reference names the records": "refer to 4 of 3"},
    TakesAnyAnswer: {
        "the first answer counts": "another answer",
        "of two answers at once one counts": "how many are refused",
    },
    MindsWhoAnswers: {"the first answer counts": "there is an answer already"},
    DeletesAlone: {"a continued run is not deleted alone": "delete"},
    DeletesClaimedLaterRuns: {
        "a later run that is claimed is not deleted": "delete with a later run that is claimed"
    },
    DeletesChildrenAlone: {"a child is not deleted alone": "delete of a child"},
    DeletesWhatOthersDrive: {
        "a run that another store drives is not deleted": "by another store",
        "another process has what was written": "what another process finds",
    },
    PrunesEverything: {"pruning keeps what is wanted": "what is deleted"},
    PrunesBySeconds: {"pruning goes by age": "what is older than 1 day"},
    PrunesLessThanNothing: {"pruning goes by age": "prune with {'keep': -1}"},
    ListsOldestFirst: {"the list says what the records say": "the order"},
    LimitsFirst: {"the list says what the records say": "a limit of the runs of a session"},
    ListsSessionsByStart: {"sessions are a list of their own": "the order after a change"},
    ForgetsWhatItContinues: {"the list says what the records say": "what a later run continues"},
    TakesZeroForAll: {
        "the list says what the records say": "a limit of zero",
        "sessions are a list of their own": "a limit of zero",
    },
    CountsFromTheEnd: {
        "the list says what the records say": "a negative limit",
        "sessions are a list of their own": "a negative limit",
    },
    MakesAnEmptyBackup: {"a backup replaces nothing": "whether the copy is empty"},
    BacksUpRunsOnly: {"a backup replaces nothing": "the messages in the copy"},
    BacksUpNothing: {"a backup replaces nothing": "there is no run 'r'"},
    NeverCloses: {"a closed store is closed": "a write after the store was closed"},
    ChecksInOneLoop: {"any event loop may ask": "attached to a different loop"},
    SleepsInTheLoop: {"the event loop goes on": "whether read blocks the event loop"},
    ReadsInTheLoop: {"others have a turn while a run is read": "while a run is read"},
    LastsInItsProcess: {"another process has what was written": "what another process finds"},
    ClaimsInItsProcess: {"another process has what was written": "what another process finds"},
}
"""What the suite must find wrong with each, and words with which it says so."""


def subject_of(kind: Any) -> StoreSubject:
    """A broken store, made as the one that it is made of."""
    if kind is LastsInItsProcess:
        return StoreSubject(make=kind)
    return file_subject(kind) if issubclass(kind, SQLiteJournal) else memory_subject(kind)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
async def test_a_broken_store_does_not_conform(
    kind: type[LocalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cases that are about what it breaks fail, and each says what it found."""
    if kind is KeepsTheClaimsOfTheDead:  # others are slow at times, and do not wait for ever
        monkeypatch.setattr("hookline.testing.store_suite._PATIENCE", 2.0)
    report = await check_store(subject_of(kind), only=BROKEN[kind])
    assert report.failed.keys() == BROKEN[kind].keys(), str(report)
    for case, words in BROKEN[kind].items():
        assert words in report.failed[case], str(report)


def test_a_thread_that_waits_for_ever_does_not_keep_the_program() -> None:
    """A store with a lock of one event loop makes others wait, and the suite still ends with what it found."""
    code = (
        "import asyncio\n"
        "from hookline.journal import MemoryJournal\n"
        "from hookline.testing import StoreSubject, check_store\n"
        "class OneLoop(MemoryJournal):\n"
        "    lock = asyncio.Lock()\n"
        "    async def read(self, run_id):\n"
        "        async with self.lock:\n"
        "            await asyncio.sleep(0.01)\n"
        "            return await super().read(run_id)\n"
        "subject = StoreSubject(make=lambda folder: OneLoop())\n"
        "print(asyncio.run(check_store(subject, only=['any event loop may ask'])))\n"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert "is bound to a different event loop" in done.stdout, done.stderr


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
