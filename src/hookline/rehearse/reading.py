"""Where recorded runs come from: a store of journals, or records that somebody has in hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from hookline.errors import UnknownRunError, UsageError
from hookline.journal import JournalStore, Record

Read: TypeAlias = Callable[[str], list[Record]]
"""The records of a run, by its id; raises UnknownRunError when there is no such run."""


def is_store(journal: object) -> bool:
    """Whether this is a store, rather than records."""
    return all(callable(getattr(journal, name, None)) for name in ("read", "runs"))


def reader_of(journal: JournalStore | Iterable[Record]) -> Read:
    """How to read the runs of a journal, or of a list of records in which there may be children too."""
    if is_store(journal):
        return journal.read  # type: ignore[union-attr]
    by_run: dict[str, list[Record]] = {}
    try:
        for record in journal:  # type: ignore[union-attr]
            by_run.setdefault(_checked(record).run_id, []).append(record)
    except TypeError:
        raise _not_a_journal(journal) from None

    def read(run_id: str) -> list[Record]:
        if run_id not in by_run:
            known = ", ".join(sorted(by_run)) or "nothing"
            raise UnknownRunError(
                f"there is no run '{run_id}' among these records.", remedy=f"There is: {known}."
            )
        return by_run[run_id]

    return read


def _checked(record: object) -> Record:
    if not isinstance(record, Record):
        raise _not_a_journal(record)
    return record


def _not_a_journal(given: object) -> UsageError:
    return UsageError(
        f"{given!r} is not a journal.",
        remedy="Pass the store the agent was built with, or records: result.records.",
    )
