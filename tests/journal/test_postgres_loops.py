"""Commits to PostgreSQL that event loops send: who takes the answer, and what happens when that loop does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from postgres_server import PostgresServer, wait_until

from hookline.errors import JournalError
from hookline.journal import PostgresJournal, PromptSubmitted, Record
from hookline.journal.postgres import exchange

Make = Callable[..., PostgresJournal]
Story = Callable[..., list[Record]]
_SECONDS = 60


@contextmanager
def waiting_commit(server: PostgresServer, journal: PostgresJournal, run_id: str) -> Iterator[None]:
    """Keep a run from being written."""
    with psycopg.connect(server.url()) as other:
        schema = journal.database.schema
        other.execute(f"SELECT 1 FROM {schema}.runs WHERE run_id = %s FOR UPDATE", (run_id,))
        yield
        other.rollback()


def wait_for_lock(server: PostgresServer) -> None:
    """Wait until a commit waits."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    wait_until(lambda: server.ask(query) != [(0,)], "the commit waits")


async def test_the_loop_works_while_a_commit_waits(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """A waiting commit blocks nothing, and what is written meanwhile follows, also with other runs."""
    journal = postgres_journal()
    claims = {name: await journal.claim(name) for name in "ab"}
    for name, claim in claims.items():
        await asyncio.wrap_future(claim.write(story(name)[:3]))
    with waiting_commit(postgres, journal, "a"):
        written = [claims["a"].write(story("a")[3:5])]
        await asyncio.to_thread(wait_for_lock, postgres)
        written.append(claims["a"].write(story("a")[5:]))
        written.append(claims["b"].write(story("b")[3:]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(each.done() for each in written)
    await asyncio.gather(*map(asyncio.wrap_future, written))
    for name in "ab":
        assert await journal.read(name) == story(name)


async def test_a_thread_that_needs_the_connection_does_not_wait_for_the_loop(
    postgres_journal: Make, story: Story
) -> None:
    """The loop has sent a commit and is busy: somebody else claims and writes a run, and takes the answer too."""
    journal = postgres_journal()
    claim = await journal.claim("a")
    written = claim.write(story("a"))

    def write_other() -> None:
        other = journal.claim_sync("b")
        other.write(story("b")).result(_SECONDS)
        other.give_back().result(_SECONDS)

    with ThreadPoolExecutor() as threads:
        threads.submit(write_other).result(_SECONDS)  # the loop is blocked until this is done
        assert written.result(_SECONDS) is None
    await asyncio.wrap_future(claim.give_back())
    for name in "ab":
        assert await journal.read(name) == story(name)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "stopped"])
def test_a_loop_that_ends_leaves_its_commit_to_the_thread(
    postgres: PostgresServer, postgres_journal: Make, story: Story, is_closed: bool
) -> None:
    """Nobody waits for the commit, and the next one to claim the run is not kept waiting either."""
    journal = postgres_journal()

    async def begin() -> tuple[Future[None], Future[None]]:
        claim = await journal.claim("r")
        await asyncio.wrap_future(claim.write(story()[:3]))
        with waiting_commit(postgres, journal, "r"):
            written = claim.write(story()[3:])
            await asyncio.to_thread(wait_for_lock, postgres)
            return written, claim.give_back()

    loop = asyncio.new_event_loop()
    written, freed = loop.run_until_complete(begin())
    if is_closed:
        loop.close()
    written.result(_SECONDS)
    freed.result(_SECONDS)
    assert postgres_journal(schema=journal.database.schema).claim_sync("r").tail.records == len(
        story()
    )
    loop.close()


def test_many_loops_write_at_once(postgres_journal: Make, story: Story) -> None:
    """Each in its thread, and one loop after the other in the same thread."""
    journal = postgres_journal()

    async def write_all(name: str) -> None:
        claim = await journal.claim(name)
        for number in range(len(story(name, steps=5))):
            await asyncio.wrap_future(claim.write(story(name, steps=5)[number : number + 1]))
        await asyncio.wrap_future(claim.give_back())

    def work(worker: int) -> None:
        for number in range(3):
            asyncio.run(write_all(f"{worker}-{number}"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert len(journal.runs_sync()) == 12
    assert journal.check_sync().ok


@pytest.mark.parametrize("size", [10_000, 5_000_000])
async def test_batches_of_any_size_are_written(
    postgres_journal: Make, story: Story, size: int
) -> None:
    """What does not fit into the buffer of the socket is left to the thread, and so is a large group."""
    journal = postgres_journal()
    claims = [await journal.claim(f"r{number}") for number in range(60)]
    written = []
    for number, claim in enumerate(claims[: 3 if size > 100_000 else None]):
        first = story(f"r{number}")[0]
        written += [claim.write([first])]
        written += [claim.write([PromptSubmitted(claim.run_id, 1, 2.0, "x" * size)])]
    await asyncio.gather(*map(asyncio.wrap_future, written))
    assert (await journal.check()).records == len(written)


async def test_many_small_batches_that_do_not_fit_into_the_socket_are_written(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """The server reads nothing meanwhile: the loop does not wait until it does."""
    journal = postgres_journal()
    claims = [await journal.claim(f"r{number}") for number in range(150)]
    begun = [claim.write(story(claim.run_id)[:1]) for claim in claims]
    await asyncio.gather(*map(asyncio.wrap_future, begun))
    with waiting_commit(postgres, journal, "r0"):
        text = "x" * 60_000
        written = [claim.write([PromptSubmitted(claim.run_id, 1, 2.0, text)]) for claim in claims]
        await asyncio.to_thread(wait_for_lock, postgres)
        assert not any(each.done() for each in written)
    await asyncio.gather(*map(asyncio.wrap_future, written))
    assert (await journal.check()).ok


def test_a_loop_that_cannot_watch_a_socket_leaves_the_answer_to_the_thread(
    postgres_journal: Make, story: Story
) -> None:
    """Not every event loop has a selector."""

    class Loop(asyncio.SelectorEventLoop):
        is_limited = False

        def add_reader(self, *arguments: object) -> None:
            if self.is_limited:
                raise NotImplementedError
            super().add_reader(*arguments)  # type: ignore[arg-type]

    journal = postgres_journal()

    async def write_all() -> None:
        loop.is_limited = True
        claim = await journal.claim("r")
        for record in story(steps=3):
            await asyncio.wrap_future(claim.write([record]))
        await asyncio.wrap_future(claim.give_back())

    loop = Loop()
    try:
        loop.run_until_complete(write_all())
    finally:
        loop.close()
    assert journal.read_sync("r") == story(steps=3)


async def test_a_connection_that_ends_fails_what_the_loop_has_sent(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """With the words of the server. The next connection is used like the first, also if its socket has that number."""
    journal = postgres_journal()
    for turn in range(3):
        name = f"r{turn}"
        claim = await journal.claim(name)
        await asyncio.wrap_future(claim.write(story(name)[:3]))
        with waiting_commit(postgres, journal, name):
            written = [claim.write(story(name)[3:4]), claim.write(story(name)[4:])]
            await asyncio.to_thread(wait_for_lock, postgres)
            postgres.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            )
            results = await asyncio.gather(
                *map(asyncio.wrap_future, written), return_exceptions=True
            )
        assert "administrator command" in str(results[0])
        assert all(isinstance(each, JournalError) for each in results)
        again = await journal.claim(name)
        await asyncio.wrap_future(again.write(story(name)[3:]))
        await asyncio.wrap_future(again.give_back())
        assert await journal.read(name) == story(name)


async def test_no_socket_is_left_open(postgres_journal: Make, story: Story) -> None:
    """After the journal is closed."""
    before = len(os.listdir("/proc/self/fd"))
    journal = postgres_journal()
    claim = await journal.claim("r")
    await asyncio.wrap_future(claim.write(story()))
    await journal.close()
    await asyncio.sleep(0)
    del claim, journal
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "all are closed")


async def test_a_cancelled_run_does_not_cancel_its_commit(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """What happened is recorded."""
    journal = postgres_journal()
    claim = await journal.claim("r")
    await asyncio.wrap_future(claim.write(story()[:3]))
    with waiting_commit(postgres, journal, "r"):
        written = claim.write(story()[3:])
        waiting = asyncio.ensure_future(asyncio.wrap_future(written))
        await asyncio.to_thread(wait_for_lock, postgres)
        waiting.cancel()
        await asyncio.wait([waiting])
    await asyncio.wrap_future(claim.give_back())
    assert await journal.read("r") == story()


async def test_no_thread_is_between_the_loop_and_the_server(
    postgres_journal: Make, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is what makes a step quick."""
    journal = postgres_journal()
    claim = await journal.claim("r")
    waits: list[object] = []
    monkeypatch.setattr(exchange.CommitExchange, "wait", waits.append)
    for record in story(steps=9):
        await asyncio.wrap_future(claim.write([record]))
    assert not waits
