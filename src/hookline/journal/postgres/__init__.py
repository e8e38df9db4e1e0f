"""A journal in PostgreSQL, for runs that many machines share. Needs the extra `postgres`."""

from hookline.journal.postgres.database import has_password
from hookline.journal.postgres.store import PostgresJournal

__all__ = ["PostgresJournal", "has_password"]
