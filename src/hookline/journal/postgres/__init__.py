"""A journal in PostgreSQL, for runs that many machines share. Needs the extra `postgres`."""
