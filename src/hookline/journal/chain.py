"""The hash chain of a run: each record is linked to all before it, so damage is found, with its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from hookline.errors import DamagedRunError, NewerRunError, StateVersionError
from hookline.journal.record import Record
from hookline.journal.run_info import RunInfo
from hookline.journal.stored_form import StoredForm

Harm: TypeAlias = Literal[
    "edited", "missing", "re-ordered", "truncated", "added", "summary", "stray", "unreadable"
]


class Damage(msgspec.Struct, frozen=True):
    """One thing that is wrong with a run's journal."""

    run_id: str
    harm: Harm
    words: str
    """What is wrong, in a sentence without its full stop."""
    position: int | None = None
    """The record, counted from zero, where it is about one."""

    def __str__(self) -> str:
        return f"run '{self.run_id}': {self.words}"


class CheckReport(msgspec.Struct, frozen=True):
    """What an integrity check examined and what is wrong. `str()` of it is for people."""

    journal: str
    runs: int
    records: int
    damage: tuple[Damage, ...] = ()
    """In the records, by run."""
    file_damage: tuple[str, ...] = ()
    """In the file itself, in the words of SQLite, and what was committed and is not there."""
    notes: tuple[str, ...] = ()
    """What is no damage, and worth knowing."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damage and not self.file_damage

    def __str__(self) -> str:
        examined = f"{self.journal}: {_count(self.runs, 'run')}, {_count(self.records, 'record')}"
        if self.ok:
            return "\n".join(
                (f"{examined}, no damage", *(f"  note: {note}" for note in self.notes))
            )
        harmed = len({damage.run_id for damage in self.damage})
        lines = [f"{examined}, damaged ({_count(harmed, 'run')})"]
        lines += [f"  {damage}" for damage in self.damage]
        lines += [f"  the file itself: {words}" for words in self.file_damage]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Row(NamedTuple):
    """One record as it is stored."""

    position: int
    link: bytes
    body: bytes


LINK = 32
"""The length of a link, in bytes."""
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def unpack(position: int, links: bytes, records: bytes) -> list[Row]:
    """The rows of a batch of records. Records that cannot be read are empty."""
    try:
        bodies = [bytes(raw) for raw in _ARRAY.decode(records)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        bodies = [b""] * (len(links) // LINK)
    return [
        Row(position + index, links[LINK * index : LINK * (index + 1)], body)
        for index, body in enumerate(bodies)
    ]


class StoredRun(msgspec.Struct, frozen=True):
    """One run as it is stored: its summary, the last link of its chain, its records."""

    info: RunInfo
    head: bytes
    rows: list[Row]


def anchor(run_id: str) -> bytes:
    """What the first record of a run is linked to: it differs from run to run."""
    return hashlib.sha256(b"hookline run " + run_id.encode()).digest()


_NEW_HASH = hashlib.sha256()
"""It is copied, which takes less than to make one."""


def link(previous: bytes, body: bytes) -> bytes:
    """The link of a record that follows `previous`."""
    return link_all(previous, (body,))[0]


def link_all(previous: bytes, bodies: Sequence[bytes]) -> list[bytes]:
    """The links of records that follow `previous`, and each other."""
    links = []
    for body in bodies:
        hashed = _NEW_HASH.copy()
        hashed.update(previous + body)
        previous = hashed.digest()
        links.append(previous)
    return links


def examine(stored: StoredRun) -> Iterator[Damage]:
    """Everything that is wrong with a chain. After a break the search continues behind it."""
    run_id, count = stored.info.run_id, stored.info.records

    def damage(harm: Harm, position: int, words: str) -> Damage:
        return Damage(run_id=run_id, harm=harm, words=words, position=position)

    previous, expected = anchor(run_id), 0
    for position, found, body in stored.rows:
        if position > expected:
            yield damage("missing", expected, f"{_records(expected, position)} missing")
        elif position < expected:
            yield damage("re-ordered", position, f"record {position} is there twice")
        elif link(previous, body) != found:
            claimed = _seq(body)
            if claimed is not None and claimed != position:
                words = f"record {position} is out of order: it says it is record {claimed}"
                yield damage("re-ordered", position, words)
            else:
                words = f"record {position} was edited, or does not follow the one before it"
                yield damage("edited", position, words)
        previous, expected = found, max(expected, position + 1)
    if expected < count:
        words = f"its end is cut off: {_records(expected, count)} missing"
        yield damage("truncated", expected, words)
    elif expected > count:
        yield damage("added", count, f"{_records(count, expected)} beyond its end")
    elif previous != stored.head:
        yield damage("edited", expected - 1, "its last record is not the one it ended with")


def check_chain(stored: StoredRun) -> None:
    """Raise for the first thing that is wrong."""
    damage = next(examine(stored), None)
    if damage is not None:
        raise DamagedRunError(f"the journal is damaged: {damage}.", remedy=DAMAGE_REMEDY)


def decode_all(stored: StoredRun) -> list[Record]:
    """The records of a run whose chain was checked."""
    records: list[Record] = []
    form = StoredForm()
    try:
        for row in stored.rows:
            records.append(form.decode(row.body))
    except StateVersionError as error:
        # The chain is whole, so this is what was written: by a version that knows more than this one.
        raise NewerRunError(
            f"record {len(records)} of run '{stored.info.run_id}' cannot be understood: {error.message}",
            remedy=error.remedy or "Upgrade hookline to read it.",
        ) from None
    return records


DAMAGE_REMEDY = "Restore the journal from a backup; journal.check() lists damage, journal.delete(run_id) drops a run."


class _RecordNumber(msgspec.Struct):
    seq: int


def _seq(body: bytes) -> int | None:
    try:
        return msgspec.json.decode(body, type=_RecordNumber).seq
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _records(first: int, end: int) -> str:
    if end - first == 1:
        return f"record {first} is"
    return f"records {first} to {end - 1} are"
