"""The stores that ship: SQLite in a file, shared by many runs and many processes, or in memory.

What waits for a file is done in a thread of the store, and what may take long in a thread of its own. Memory never
waits.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, get_args

from hookline._aio import WorkerThread
from hookline.errors import UsageError
from hookline.journal.connection import Synchronous, closed_error, forked_error
from hookline.journal.operations import Journal
from hookline.journal.sqlite import JournalFile, JournalInMemory
from hookline.journal.store import JournalStore
from hookline.journal.writer import RunClaim

T = TypeVar("T")
P = ParamSpec("P")


def _ask_form(
    method: Callable[Concatenate[Journal, P], T], *, is_long: bool = False
) -> Callable[Concatenate[LocalStore, P], Coroutine[Any, Any, T]]:
    """The async form of a method of `Journal`, and of what a kind of journal has in its place."""
    name = method.__name__

    async def ask(self: LocalStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def work(journal: Journal) -> T:
            bound: Callable[P, T] = getattr(journal, name)
            return bound(*args, **kwargs)

        return await self._ask(work, is_long=is_long)

    ask.__name__, ask.__qualname__ = name, f"LocalStore.{name}"
    ask.__doc__ = method.__doc__
    return ask


def _check_path(path: object, example: str) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        raise UsageError(f"{path!r} is not a path.", remedy=f"For example: {example}.")


class LocalStore(JournalStore):
    """What both stores can do: they ask a journal, each in its own thread or in another."""

    @abstractmethod
    def _open(self) -> Journal:
        """The journal, opened if it is not open."""

    @abstractmethod
    async def _ask(self, work: Callable[[Journal], T], *, is_long: bool = False) -> T:
        """Do something with the journal, where it disturbs nobody."""

    async def open(self) -> None:
        """Open it, which is done with the first use anyway."""
        await self._ask(lambda _: None)

    claim = _ask_form(Journal.claim)
    read = _ask_form(Journal.read)
    read_earlier = _ask_form(Journal.read_earlier)
    refer = _ask_form(Journal.refer)
    runs = _ask_form(Journal.runs)
    sessions = _ask_form(Journal.sessions)
    inbox = _ask_form(Journal.inbox)
    post = _ask_form(Journal.post, is_long=True)
    delete = _ask_form(Journal.delete, is_long=True)
    prune = _ask_form(Journal.prune, is_long=True)
    check = _ask_form(Journal.check, is_long=True)

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the journal as it is now to a new file, which only its owner can read. Others may write meanwhile."""
        _check_path(path, 'journal.backup("copy.db")')
        await self._ask(lambda journal: journal.backup(path), is_long=True)

    # --- JSON Lines: not in the interface, and in the thread of the caller ------------------------------

    def export_lines(self, run_id: str | None, file: IO[bytes]) -> int:
        """Write a run and its children, or all runs, as JSON Lines. Returns the number of runs.

        The earlier runs whose conversation it continues are written too.
        """
        return self._open().export_lines(run_id, file)

    def import_lines(self, file: Iterable[bytes]) -> list[str]:
        """Add the runs that `export_lines` wrote, all or none. Returns their ids.

        Damage, and runs that are here already, are refused.
        """
        return self._open().import_lines(file)


async def _give_back(taking: asyncio.Future[RunClaim]) -> None:
    """Nobody waits for this claim any more."""
    await asyncio.wait([taking])
    if not taking.cancelled() and taking.exception() is None:
        await asyncio.wrap_future(taking.result().give_back())


class OpenedStore(LocalStore):
    """A store outside of this process: it is opened with its first use, and waits in threads of its own."""

    def __init__(self) -> None:
        self._journal: Journal | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread: WorkerThread | None = None
        self._pid = os.getpid()

    @abstractmethod
    def _connect(self) -> Journal:
        """Open the journal."""

    def _open(self) -> Journal:
        if os.getpid() != self._pid:
            raise forked_error(str(self))
        with self._lock:
            if self._is_closed:
                raise closed_error()
            if self._journal is None:
                self._journal = self._connect()
            return self._journal

    async def claim(self, run_id: str) -> RunClaim:
        """Take a run, new or known, for this process. Raises RunInUseError when somebody has it."""
        taking = asyncio.ensure_future(self._ask(lambda journal: journal.claim(run_id)))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            giving = asyncio.ensure_future(_give_back(taking))
            while not giving.done():  # the next one can have it, also if this is cancelled again
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([giving])
            raise

    async def _ask(self, work: Callable[[Journal], T], *, is_long: bool = False) -> T:
        if os.getpid() != self._pid:  # where its thread is not
            raise forked_error(str(self))
        return await self._in_thread(lambda: work(self._open()), is_long=is_long)

    async def _in_thread(self, work: Callable[[], T], *, is_long: bool) -> T:
        try:
            thread = None if is_long else self._thread
            if thread is None:
                thread = WorkerThread("hookline-journal-reader")
                weakref.finalize(thread if is_long else self, thread.close)
        except RuntimeError:  # no thread can be started: the process is exiting, or has too many
            return work()
        if not is_long:
            self._thread = thread
        return await thread.call(work)

    async def close(self) -> None:
        """Write what is queued, give back what is claimed, and close it."""
        if os.getpid() == self._pid:  # otherwise it is the parent's
            await self._in_thread(self._shut, is_long=True)

    def _shut(self) -> None:
        with self._lock:
            self._is_closed = True
            journal = self._journal
        if journal is not None:
            journal.close()


class SQLiteJournal(OpenedStore):
    """A file of journals. Any number of processes may have it open; each run is driven by one of them at a time.

    With `synchronous="NORMAL"` what is written survives the death of the process; after a power cut the last
    moments may be missing, and nothing is torn. With `"FULL"` it is on the disk before it counts as written.

    A file whose end is lost can only be read, unless `accept_loss=True`: then it continues with what is left, and says
    so in its list.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "NORMAL",
        accept_loss: bool = False,
    ) -> None:
        if synchronous not in get_args(Synchronous):
            raise UsageError(
                f"synchronous cannot be {synchronous!r}.", remedy='Give "NORMAL" or "FULL".'
            )
        _check_path(path, 'SQLiteJournal("runs.db")')
        path = os.fsdecode(path)
        if path in ("", ":memory:"):
            raise UsageError("a SQLite journal needs a file.", remedy="In memory: MemoryJournal().")
        if not isinstance(accept_loss, bool):  # what is lost is written over
            raise UsageError(
                f"accept_loss cannot be {accept_loss!r}.", remedy="Give True or False."
            )
        self.given = os.path.join(os.getcwd(), path)
        """The path as it was given. Symbolic links in it may lead elsewhere at the next start."""
        self.path = os.path.realpath(path)
        self._synchronous: Synchronous = synchronous
        self._accepts_loss = accept_loss
        super().__init__()

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"SQLiteJournal({self.path!r})"

    def _connect(self) -> JournalFile:
        return JournalFile(self.path, synchronous=self._synchronous, accept_loss=self._accepts_loss)

    @property
    def losses(self) -> tuple[str, ...]:
        """What is lost of its end, as it was found when it was opened, and not accepted. Empty if nothing is."""
        return self._file().losses

    def vacuum(self) -> int:
        """Give the space of deleted runs back to the disk, while others wait. Returns the number of bytes."""
        return self._file().vacuum()

    def _file(self) -> JournalFile:
        file = self._open()
        assert isinstance(file, JournalFile)
        return file


class MemoryJournal(LocalStore):
    """Many runs in memory, for tests and for runs that need not last. They are kept and checked as on disk."""

    def __init__(self) -> None:
        self._journal = JournalInMemory()

    def __str__(self) -> str:
        return str(self._journal)

    def _open(self) -> Journal:
        return self._journal

    async def _ask(self, work: Callable[[Journal], T], *, is_long: bool = False) -> T:  # noqa: ARG002 - it never waits
        return work(self._journal)

    async def close(self) -> None:
        """Give back what is claimed. The runs are gone."""
        self._journal.close()
