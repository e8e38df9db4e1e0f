"""Runs that are submitted again and again, at times that a cron line names.

The next time of each schedule is in a table of the journal. A worker that finds it over submits the run and writes the
time after that, in one transaction: of all workers one does it, and the clock is that of the database. Rejected: the
schedules of the engine, which go by the clocks of the workers and know nothing of the journal.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]

from hookline.errors import UsageError
from hookline.journal.postgres.database import Connection, from_column, to_column

_COLUMNS = "name, cron, timezone, agent, prompt, queue, next_at"


class Schedule(msgspec.Struct, frozen=True):
    """When a run of an agent is submitted."""

    name: str
    cron: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    timezone: str
    agent: str
    prompt: str
    queue: str
    next_at: float = 0.0
    """The next time, in seconds since 1970."""

    @property
    def run_id(self) -> str:
        """The id of the next run."""
        return f"{self.name} {datetime.fromtimestamp(self.next_at, UTC):%Y-%m-%dT%H:%MZ}"


def time_after(cron: str, timezone: str, now: float) -> float:
    """The first time of a cron line after now. Refuses what is none."""
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f"there is no time zone '{timezone}' here.",
            remedy="Give a name such as Europe/Berlin; the package tzdata has them all.",
        ) from None
    # croniter also takes R for a random value: such a schedule would be another in each worker.
    if len(cron.split()) != 5 or re.search(r"(?i)\bR\b", cron) or not croniter.is_valid(cron):
        raise UsageError(
            f"'{cron}' is not a cron line.",
            remedy="Give five fields: minute, hour, day of the month, month, day of the week.",
        )
    try:
        return float(croniter(cron, datetime.fromtimestamp(now, zone)).get_next(float))
    except CroniterBadDateError:
        raise UsageError(
            f"'{cron}' never happens.", remedy="Give a day that its month has."
        ) from None


def write_schedule(connection: Connection, schedule: Schedule) -> None:
    """Add a schedule, or replace the one of that name."""
    connection.execute("DELETE FROM schedules WHERE name = %s", (to_column(schedule.name),))
    values = [to_column(value) for value in msgspec.structs.astuple(schedule)]
    marks = ", ".join(["%s"] * len(values))
    connection.execute(f"INSERT INTO schedules ({_COLUMNS}) VALUES ({marks})".encode(), values)


def delete_schedule(connection: Connection, name: str) -> bool:
    """Remove a schedule. False when there is no such schedule."""
    query = "DELETE FROM schedules WHERE name = %s"
    return connection.execute(query, (to_column(name),)).rowcount == 1


def read_schedules(connection: Connection) -> list[Schedule]:
    """The schedules, the next one first."""
    query = f"SELECT {_COLUMNS} FROM schedules ORDER BY next_at, name"
    return [_schedule(row) for row in connection.execute(query.encode()).fetchall()]


def take_due(connection: Connection) -> Schedule | None:
    """A schedule whose time is over. Until the end of the transaction no other worker has it."""
    now = "extract(epoch FROM clock_timestamp())"
    query = (
        f"SELECT {_COLUMNS} FROM schedules WHERE next_at <= {now} ORDER BY next_at LIMIT 1"
        " FOR UPDATE SKIP LOCKED"
    )
    row = connection.execute(query.encode()).fetchone()
    return None if row is None else _schedule(row)


def write_next_time(connection: Connection, schedule: Schedule, now: float) -> None:
    """Times that went by while no worker was there are left out."""
    following = time_after(schedule.cron, schedule.timezone, now)
    query = "UPDATE schedules SET next_at = %s WHERE name = %s"
    connection.execute(query, (following, to_column(schedule.name)))


def _schedule(row: tuple[Any, ...]) -> Schedule:
    return Schedule(*map(from_column, row))  # type: ignore[arg-type]
