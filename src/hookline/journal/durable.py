"""The record of one run, which the loop writes: in memory, or also in a store.

The loop never knows which one it has. A store of another kind implements `JournalStore`, not this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from hookline.errors import HooklineError, UnknownRunError, UsageError
from hookline.journal.record import Record, ResponseReceived, RunStarted, StepFinished, parent_of
from hookline.journal.store import Claim, JournalStore
from hookline.state import AssistantMessage, Attachment, Message
from hookline.state.frozen import encode_as_text

Listener = Callable[[Record], object]
"""Gets every record as it happens. What it returns is ignored; what it raises never reaches the run.

One that says `hears_deltas = False` does not read text piece by piece: for it alone no model is asked to stream."""
Redact = Callable[[Any], Any]
"""Gives a JSON value without secrets: the very same object if there were none."""
RedactContent = Callable[..., Any]
"""The same for what models and tools write: `(value, before="")`, with the text that came directly before."""

R = TypeVar("R", bound=Record)

_log = logging.getLogger("hookline")


class Durable:
    """The record of one run in memory: nothing on disk, nothing to recover. The library's default."""

    __slots__ = ("_held", "_listeners", "_redact", "append", "records")
    append: Callable[[Record], None]
    """Write a record and pass it to the listeners. Without listeners it is the list's own, which costs nothing."""

    def __init__(self, listeners: tuple[Listener, ...] = ()) -> None:
        self.records: list[Record] = []
        """What has happened so far."""
        self.append = self._append if listeners else self.records.append
        self._listeners = listeners
        self._held: list[Record] | None = None
        self._redact: Redact | None = None

    def redact_with(self, redact: Redact) -> None:
        """From now on, redact what is written and what listeners get. Hooks have removed most of it already."""
        write, before = self.append, self._redact
        self.append = lambda record: write(_redact_record(record, redact))
        self._redact = redact if before is None else lambda value: before(redact(value))

    def as_written(self, record: R) -> R:
        """A record as it is written: redacted, if that is wanted."""
        return record if self._redact is None else _redact_record(record, self._redact)

    @property
    def is_heard(self) -> bool:
        """Whether anyone reads along, piece by piece."""
        return any(getattr(each, "hears_deltas", True) for each in self._listeners)

    @property
    def store(self) -> JournalStore | None:
        """Where the record is kept; None when it is only in memory."""
        return None

    @property
    def is_after_loss(self) -> bool:
        """Whether records of the step that continues may be lost, so that what is not on record may have happened."""
        return False

    @property
    def is_lost(self) -> bool:
        """Whether another process may have the run by now: nothing more is written here."""
        return False

    @property
    def commit(self) -> Callable[[], Awaitable[None]] | None:
        """Waits until everything that was appended is safe; None when nothing ever is."""
        return None

    def _append(self, record: Record) -> None:
        self.records.append(record)
        self._tell(record)

    def tell(self, record: Record) -> None:
        """Pass a record to the listeners without writing it: for the deltas between records."""
        self._tell(record if self._redact is None else _redact_record(record, self._redact))

    def _tell(self, record: Record) -> None:
        if self._held is not None:
            self._held.append(record)
            return
        for listener in self._listeners:
            try:
                listener(record)
            except (Exception, asyncio.CancelledError, SystemExit):
                # A listener awaits nothing, so a CancelledError is its own too: of a future that it reads, say.
                _log.exception(
                    "an event listener failed on a '%s' record; the run continues", record.type
                )

    def flush(self) -> None:
        """Begin to write what was appended, without waiting for it."""

    def flush_soon(self) -> None:
        """Flush when the run next waits: records until then are written together."""

    async def close(self) -> None:
        """The run is over, or paused: let others have it."""

    def hold(self) -> None:
        """Hold records back from the listeners: a hook may still withhold an answer, or the end may not be written."""
        if self._listeners and self._held is None:
            self._held = []

    def drop_held(self) -> None:
        """Pass what was held back to nobody: another process has the run."""
        self._held = None

    def release(self, text: str = "") -> None:
        """Pass the records that were held back to the listeners, with this text as the answer."""
        held, self._held = self._held, None
        text = text if self._redact is None else self._redact(text)
        for record in held or ():
            self._tell(_with_final_text(record, text))

    async def for_child(self, run_id: str, listeners: tuple[Listener, ...]) -> Durable:
        """The record of a child run, redacted in the same way. Listeners of the parent get its records too."""
        child = await self._make_child(run_id, listeners)
        if self._redact is not None:
            child.redact_with(self._redact)
        return child

    async def _make_child(self, run_id: str, listeners: tuple[Listener, ...]) -> Durable:  # noqa: ARG002 - for stores
        return Durable((*self._listeners, *listeners))


def _redact_record(record: R, redact: Redact) -> R:
    if isinstance(record, RunStarted) and record.continues is not None:
        # A link looks like a key, and without it the conversation would be lost.
        rest = _redact_record(replace(record, continues=None), redact)
        return replace(rest, continues=record.continues)
    plain = msgspec.to_builtins(record, enc_hook=encode_as_text)
    contents: dict[str, str] = {}
    for file in [each for each in _objects_in(plain) if _is_file(each)]:
        mark = f"{_TAKEN_OUT}-{len(contents)}"
        contents[mark], file["data"] = file["data"], mark
    redacted = redact(plain)
    if redacted is plain:
        return record
    for each in _objects_in(redacted) if contents else ():
        if each.get("data") in contents:
            each["data"] = contents[each["data"]]
    return msgspec.convert(redacted, type(record))


_TAKEN_OUT = uuid.uuid4().hex
"""Stands for the content of a file while a record is redacted."""
_SHORTEST_FILE = 1_024
"""Characters. What is shorter is not spared: it may be a secret in the form of a file."""
_FILE_KEYS = frozenset(Attachment.__struct_fields__)


def _is_file(value: dict[str, Any]) -> bool:
    """Whether this is an image or a file, and no text: a redactor takes minutes to look through one, and base64 with
    a mark in it could not be read again.
    """
    if not value.keys() <= _FILE_KEYS or len(str(value.get("data", ""))) < _SHORTEST_FILE:
        return False
    try:
        return not msgspec.convert(value, Attachment).is_text
    except (msgspec.ValidationError, UsageError):
        return False


def _objects_in(value: object) -> Iterator[dict[str, Any]]:
    """Every object of a JSON value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _objects_in(part)


def _with_final_text(record: Record, text: str) -> Record:
    """A record of a model's final answer, with the text that hooks made of it."""
    if isinstance(record, ResponseReceived):
        return replace(record, text=text)
    if isinstance(record, StepFinished):
        step, before = record.step, record.step.text
        return replace(
            record,
            step=replace(step, text=text),
            messages=_with_text(record.messages, before, text),
            replaced=_with_text(record.replaced, before, text) if record.replaced else None,
        )
    return record


def _with_text(messages: tuple[Message, ...], before: str, text: str) -> tuple[Message, ...]:
    return tuple(
        replace(message, text=text)
        if isinstance(message, AssistantMessage) and not message.calls and message.text == before
        else message
        for message in messages
    )


# --- in a store ----------------------------------------------------------------------------------------


class StoredRecords(Durable):
    """Records are kept in memory and written in batches: `flush` queues them, `commit` waits for them."""

    __slots__ = ("_claim", "_flushed", "_is_due", "_lost_steps", "_store", "_written")

    def __init__(
        self,
        store: JournalStore,
        claim: Claim,
        records: list[Record],
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        super().__init__(listeners)
        self.records = records
        self.append = self._append if self._listeners else records.append
        self._store = store
        self._claim: Claim | None = claim
        self._flushed = len(records)
        """How many of the records were passed to the store."""
        self._is_due = False
        self._written: Future[None] | None = None
        self._lost_steps: float | None = claim.steps_before_loss

    @property
    def is_after_loss(self) -> bool:
        """Until it has settled the steps that it may have made, and the one that may have begun then."""
        if self._lost_steps is None:
            return False
        return sum(isinstance(each, StepFinished) for each in self.records) <= self._lost_steps

    @property
    def is_lost(self) -> bool:
        """Whether the claim was lost. A store that cannot lose one need not say so."""
        return bool(getattr(self._claim, "is_lost", False))

    @property
    def store(self) -> JournalStore:
        """Where the record is kept."""
        return self._store

    def flush(self) -> None:
        """Write what is not written yet, or queue it. The next commit reports whether that worked."""
        count = len(self.records)
        if count > self._flushed and self._claim is not None:
            batch, self._flushed = self.records[self._flushed :], count
            self._written = self._claim.write(batch)

    def flush_soon(self) -> None:
        """Flush when the run next waits: records until then go into the same batch."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._is_due = False
        self.flush()

    @property
    def commit(self) -> Callable[[], Awaitable[None]]:
        """Waits until everything that was appended is written. Raises JournalError when it cannot be."""
        return self._commit

    async def _commit(self) -> None:
        self.flush()
        written = self._written
        if written is None:
            return
        if not written.done():
            await _wait_for(written)
        written.result()

    async def _make_child(self, run_id: str, listeners: tuple[Listener, ...]) -> StoredRecords:
        """In the same store. The child may have begun in a process that died."""
        async with _open_claim(self._store, run_id) as claim:
            known = await _records(self._store, run_id)
            self._refuse_other_child(run_id, known)
            child = StoredRecords(self._store, claim, known, (*self._listeners, *listeners))
            if claim.steps_before_loss is None and self.is_after_loss:
                # It began after the loss. If it did so for the second time, nothing of the first is left.
                child._lost_steps = math.inf
            return child

    def _refuse_other_child(self, run_id: str, known: list[Record]) -> None:
        """Refuse a run with the id of a child that is not this run's own: its result is no answer to a call here."""
        assert self._claim is not None
        if known and parent_of(known) != self._claim.run_id:
            raise UsageError(
                f"run '{self._claim.run_id}' cannot have a child with the id '{run_id}': another run has it.",
                remedy="Delete that run, or start this one again under another id.",
            )

    async def close(self) -> None:
        """Let others have the run."""
        given = self._give_back()
        if given is not None and not given.done():
            await _wait_for(given)

    def _give_back(self) -> Future[None] | None:
        self.flush()
        claim, self._claim = self._claim, None
        return None if claim is None else claim.give_back()

    def __del__(self) -> None:
        with contextlib.suppress(HooklineError):  # the journal may be closed already
            self._give_back()  # a run that was prepared and never started, or abandoned


async def _wait_for(written: Future[None]) -> None:
    """Wait until a future of a thread is done. A run that is cancelled does not cancel what is written.

    Rejected: `shield(wrap_future(...))`, which takes twice the time of the event loop.
    """
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: Future[None]) -> None:
        if asyncio._get_running_loop() is loop:  # it took the answer itself
            _set_done(waiter)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_set_done, waiter)

    written.add_done_callback(wake)
    await waiter


def _set_done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@contextlib.asynccontextmanager
async def _open_claim(store: JournalStore, run_id: str) -> AsyncIterator[Claim]:
    """The claim of a run, which is given back if something fails."""
    claim = await store.claim(run_id)
    try:
        yield claim
    except BaseException:
        claim.give_back()
        raise


async def _records(store: JournalStore, run_id: str) -> list[Record]:
    """The records of a run; a new one has none."""
    try:
        return await store.read(run_id)
    except UnknownRunError:
        return []


async def begin(store: JournalStore, run_id: str, listeners: tuple[Listener, ...]) -> StoredRecords:
    """The record of a new run."""
    async with _open_claim(store, run_id) as claim:
        if await _records(store, run_id):
            raise UsageError(
                f"run '{run_id}' is in the journal already.",
                remedy="Continue it: agent.resume(run_id). Or give the new run another run_id=.",
            )
        return StoredRecords(store, claim, [], listeners)


async def reopen(
    store: JournalStore, run_id: str, listeners: tuple[Listener, ...]
) -> StoredRecords:
    """The record of a run that paused, or whose process died."""
    async with _open_claim(store, run_id) as claim:
        return StoredRecords(store, claim, await store.read(run_id), listeners)
