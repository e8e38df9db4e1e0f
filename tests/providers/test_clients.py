import asyncio
import gc

import pytest

from hookline.providers.clients import PerLoop


class Pool:
    """A client that only works in the loop it was first used in, as those with connections do."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    async def use(self) -> None:
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop()
        assert not self.is_closed

    async def close(self) -> None:
        await asyncio.sleep(0)
        assert self.loop in (None, asyncio.get_running_loop())
        self.is_closed = True


@pytest.fixture
def made() -> list[Pool]:
    """The clients that were made."""
    return []


@pytest.fixture
def clients(made: list[Pool]) -> PerLoop[Pool]:
    """A keeper of such clients."""

    def make() -> Pool:
        made.append(Pool())
        return made[-1]

    return PerLoop(make, lambda pool: pool.close())


def test_each_loop_has_its_own_client(clients: PerLoop[Pool], made: list[Pool]) -> None:
    """A client is shared within a loop, never between loops, and closed when its loop ends."""

    async def run() -> None:
        await (await clients.get()).use()
        await (await clients.get()).use()
        assert not made[-1].is_closed

    asyncio.run(run())
    asyncio.run(run())
    assert [pool.is_closed for pool in made] == [True, True]


async def test_aclose_closes_the_client_of_this_loop(
    clients: PerLoop[Pool], made: list[Pool]
) -> None:
    """Closing is done once; whoever asks again gets a new client."""
    await (await clients.get()).use()
    await clients.aclose()
    await clients.aclose()
    assert made[0].is_closed
    await (await clients.get()).use()
    assert len(made) == 2
    await clients.aclose()


def test_ended_loops_are_forgotten(clients: PerLoop[Pool], made: list[Pool]) -> None:
    """A program that starts a loop per run does not keep the loops of all of them."""

    async def run() -> None:
        await clients.get()

    for _ in range(5):
        asyncio.run(run())
    gc.collect()
    assert len(made) == 5
    assert len(clients._kept) == 1
