"""A store of journals in memory that remembers in which order it was written, so that it can be cut anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from plain_inbox import PlainInbox, done_future

from hookline.errors import JournalError, RunInUseError, UnknownRunError
from hookline.journal import (
    EarlierRun,
    Record,
    RunInfo,
    SessionInfo,
    decode,
    encode,
    session_info,
    summarise,
)
from hookline.journal.session import stream_of
from hookline.state import RunStatus


class PlainStore(PlainInbox):
    """Keeps records as bytes. A claim is a name in a set."""

    def __init__(self, written: Iterable[tuple[str, bytes]] = ()) -> None:
        self.written = list(written)
        self.ends: list[int] = []
        """How many records there were after each write: those of one write are there together, or not at all."""
        self.claimed: set[str] = set()
        self.is_full = False

    def cut(self, at: int) -> PlainStore:
        """The store as a process that died after so many records would have left it."""
        store = PlainStore(self.written[:at])
        store.messages = self.messages
        return store

    async def claim(self, run_id: str) -> PlainClaim:
        if run_id in self.claimed:
            raise RunInUseError(f"run '{run_id}' is already running in process 1.", remedy="Wait.")
        self.claimed.add(run_id)
        return PlainClaim(self, run_id)

    def records(self, run_id: str) -> list[Record]:
        found: list[Record] = [decode(line) for name, line in self.written if name == run_id]
        if not found:
            raise UnknownRunError(f"there is no run '{run_id}' in the journal.")
        return found

    async def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        lines = [line for name, line in self.written if name == run_id][:records]
        if not lines:
            raise UnknownRunError(f"there is no run '{run_id}' in the journal.")
        return EarlierRun(run_id, len(lines), hashlib.sha256(b"\n".join(lines)).hexdigest())

    async def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        if await self.refer(earlier.run_id, earlier.records) != earlier:
            raise JournalError("the journal is damaged.")
        return self.records(earlier.run_id)[: earlier.records]

    def entries(self) -> list[RunInfo]:
        """What a list shows, newest first."""
        names = dict.fromkeys(name for name, _ in self.written)
        made = [_entry(name, self.records(name)) for name in reversed(names)]
        return sorted(made, key=lambda info: info.started_at, reverse=True)

    async def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        found = [
            info
            for info in self.entries()
            if info.kind == "run"
            and session_id in (None, info.session_id)
            and status in (None, info.status)
        ]
        return found[:limit]

    async def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        found = [session_info(info) for info in self.entries() if info.kind == "session"]
        return sorted(found, key=lambda info: info.updated_at, reverse=True)[:limit]

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        assert not with_later
        gone = [run_id]
        for name in gone:
            if name in self.claimed:
                raise RunInUseError(
                    f"run '{name}' is already running in process 1.", remedy="Wait."
                )
            gone += [info.run_id for info in self.entries() if name in _owners(info)]
        self.records(run_id)
        self.written = [entry for entry in self.written if entry[0] not in gone]
        self.messages = tuple(each for each in self.messages if each.run_id not in gone)
        return gone


class PlainClaim:
    """Writes at once."""

    steps_before_loss = None

    def __init__(self, store: PlainStore, run_id: str) -> None:
        self._store = store
        self._is_held = True
        self.run_id = run_id

    def write(self, records: Sequence[Record]) -> Future[None]:
        done: Future[None] = Future()
        if self._store.is_full:
            done.set_exception(JournalError("the disk is full."))
        else:
            assert self._is_held
            assert all(record.run_id == self.run_id for record in records)
            self._store.written += [(self.run_id, encode(record)) for record in records]
            self._store.ends.append(len(self._store.written))
            done.set_result(None)
        return done

    def give_back(self) -> Future[None]:
        if self._is_held:
            self._is_held = False
            self._store.claimed.discard(self.run_id)
        return done_future()


def _owners(info: RunInfo) -> list[str]:
    if info.kind == "session":
        return []
    return [info.parent_run_id or stream_of(info.session_id)]


def _entry(run_id: str, records: Sequence[Record]) -> RunInfo:
    assert [record.seq for record in records] == list(range(len(records)))
    return summarise(RunInfo(run_id=run_id), records)
