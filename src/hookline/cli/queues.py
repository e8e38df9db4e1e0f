"""`hookline queue` and `hookline schedule`: the limits of queues, and runs that are submitted at certain times."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from hookline.cli.exits import Exit
from hookline.cli.journal_location import queue_of
from hookline.cli.terminal import print_text, printable
from hookline.errors import UsageError

_NONE = "none"


def set_limits(arguments: argparse.Namespace) -> int:
    """Set the limits that are named, and leave the others as they are."""
    concurrency, rate, length = arguments.concurrency, arguments.rate, arguments.max_length
    if concurrency is None and rate is None and length is None:
        raise UsageError(
            "nothing is to be set.",
            remedy="Give --concurrency N, --rate RUNS/SECONDS or --max-length N.",
        )
    from hookline.workers.queue import check_limits  # the engine takes its time

    runs = None if concurrency is None else _number(concurrency)
    pace = None if rate is None else _rate(rate)
    most = None if length is None else _number(length)
    check_limits(concurrency=runs, rate=pace, length=most)
    with queue_of(arguments) as journal:
        if concurrency is not None:
            journal.set_concurrency_sync(arguments.name, runs)
        if rate is not None:
            journal.set_rate_sync(arguments.name, pace)
        if length is not None:
            journal.set_max_length_sync(arguments.name, most)
    return Exit.DONE


def set_schedule(arguments: argparse.Namespace) -> int:
    """Add a schedule, or replace one."""
    with queue_of(arguments) as journal:
        made = journal.set_schedule_sync(
            arguments.name,
            arguments.cron,
            arguments.agent,
            arguments.prompt,
            queue=arguments.queue,
            timezone=arguments.timezone,
        )
    print_text(f"{printable(made.name)}: next at {_time(made.next_at)}")
    return Exit.DONE


def list_schedules(arguments: argparse.Namespace) -> int:
    """Print one line for each schedule."""
    with queue_of(arguments) as journal:
        for each in journal.schedules_sync():
            words = f"{each.name}: {each.cron} ({each.timezone}), {each.agent} in {each.queue}: {each.prompt}"
            print_text(f"{_time(each.next_at)}  {printable(words)}")
    return Exit.DONE


def remove_schedule(arguments: argparse.Namespace) -> int:
    """Remove a schedule."""
    with queue_of(arguments) as journal:
        journal.remove_schedule_sync(arguments.name)
    return Exit.DONE


def _number(text: str) -> int | None:
    if text == _NONE:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"'{text}' is not a number.", remedy="Give a number, or none.") from None


def _rate(text: str) -> tuple[int, float] | None:
    if text == _NONE:
        return None
    runs, _, seconds = text.partition("/")
    try:
        return int(runs), float(seconds)
    except ValueError:
        raise UsageError(
            f"'{text}' is not a rate.",
            remedy="Give RUNS/SECONDS, for example 100/60, or none.",
        ) from None


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
