"""What every test shares."""

import asyncio
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from postgres_server import PROGRAMS, PostgresServer

from hookline.journal import PostgresJournal

# An agent without a model has none here, whatever the machine is set to.
os.environ.pop("HOOKLINE_MODEL", None)

# Nothing is written to the directories of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="hookline-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# The compiled package is kept, also where the machine is set to keep none: every process that a test starts would
# otherwise compile it again, which takes three times as long as importing it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How fast the machine is must not decide whether a test passes. Where changes are admitted the examples are the same
# every time, so that a change is judged by what it does; everywhere else new ones are looked for.
settings.register_profile("hookline", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("hookline")


SkipTime = Callable[[float, Callable[[], bool]], asyncio.Task[None]]


@pytest.fixture
def skip_time(monkeypatch: pytest.MonkeyPatch) -> SkipTime:
    """Let the event loop's time jump ahead once something has happened, however long that takes.

    A test of a time limit has a long one, and does not wait for it: a short one may be over before a slow machine has
    come to what the test is about.
    """

    def skip_time(seconds: float, when: Callable[[], bool]) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()

        async def skip() -> None:
            while not when():  # noqa: ASYNC110 - another process may do it
                await asyncio.sleep(0.01)
            clock = loop.time
            monkeypatch.setattr(loop, "time", lambda: clock() + seconds)

        return asyncio.create_task(skip())

    return skip_time


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the files with the longest time limits to the front: a long file that starts last keeps one core alone."""
    longest: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0), mark.args[0] if mark else 0)
    items.sort(key=lambda item: -longest[item.path])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server. Tests have schemas of their own in its database."""
    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed: scripts/system_tools.py says why")
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres_journal(postgres: PostgresServer) -> Iterator[Callable[..., PostgresJournal]]:
    """Makes journals in a schema that no other test uses; each is another client of the same journal."""
    schema = postgres.new_schema()
    made: list[PostgresJournal] = []

    def make(**options: str) -> PostgresJournal:
        options = {"url": postgres.url(), "schema": schema, **options}
        made.append(PostgresJournal(**options))
        return made[-1]

    yield make
    for each in made:
        each.close_sync()
    postgres.ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
