"""Both stores are what the runtime asks of a store. Checked by mypy, never run."""

from __future__ import annotations

from hookline import SQLiteJournal
from hookline.journal import Claim, JournalStore, MemoryJournal

disk: JournalStore = SQLiteJournal("journal.db", synchronous="FULL")
memory: JournalStore = MemoryJournal()
claim: Claim = disk.claim_sync("run")

SQLiteJournal("journal.db", synchronous="OFF").open_sync()  # type: ignore[arg-type]
SQLiteJournal("journal.db", "FULL").open_sync()  # type: ignore[call-arg]
