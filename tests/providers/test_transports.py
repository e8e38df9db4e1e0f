from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import httpx2
import pytest

from hookline.errors import AuthenticationError, BuildError
from hookline.providers import make_provider
from hookline.providers.connections import (
    LoopClients,
    TransportSource,
    check_source,
    current_source,
    use_source,
)


class Mock:
    """A source that is known by its transport."""

    def __init__(self, *, needs_key: bool = False) -> None:
        self.needs_key = needs_key
        self.made = httpx2.MockTransport(lambda request: httpx2.Response(200))

    def transport(self) -> httpx2.AsyncBaseTransport:
        """The one it has."""
        return self.made


def test_the_source_of_the_innermost_block_is_used() -> None:
    """Until its block ends, also when it ends with an exception; outside it is the network."""
    outer, inner = Mock(), Mock(needs_key=True)
    assert current_source() is None
    with use_source(outer):
        with suppress(ZeroDivisionError), use_source(inner):
            assert current_source() is inner
            raise ZeroDivisionError
        assert current_source() is outer
    assert current_source() is None


def test_a_providers_own_source_comes_first() -> None:
    """Whatever block it is in."""
    own: TransportSource = Mock()
    with use_source(Mock(needs_key=True)):
        assert current_source(own) is own


def test_a_key_is_needed_where_the_source_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording that is played needs none; the network and a recording that is made do."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    make_provider("openai", cassette=Mock())
    with use_source(Mock()):
        make_provider("openai")
    for settings in ({}, {"cassette": Mock(needs_key=True)}):
        with pytest.raises(AuthenticationError):
            make_provider("openai", **settings)


def test_what_makes_no_transports_is_refused() -> None:
    """A file name, say, or the class."""
    assert check_source(None) is None
    for wrong in ("file.json", Mock, httpx2.MockTransport(lambda request: httpx2.Response(200))):
        with pytest.raises(BuildError, match="is not a cassette"):
            check_source(wrong)  # type: ignore[arg-type]


# --- one client for each event loop ---


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
def clients(made: list[Pool]) -> LoopClients[Pool]:
    """A keeper of such clients."""

    def make() -> Pool:
        made.append(Pool())
        return made[-1]

    return LoopClients(make, lambda pool: pool.close())


def test_each_loop_has_its_own_client(clients: LoopClients[Pool], made: list[Pool]) -> None:
    """A client is shared within a loop, never between loops, and closed when its loop ends."""

    async def run() -> None:
        await (await clients.get()).use()
        await (await clients.get()).use()
        assert not made[-1].is_closed

    asyncio.run(run())
    asyncio.run(run())
    assert [pool.is_closed for pool in made] == [True, True]


async def test_aclose_closes_the_client_of_this_loop(
    clients: LoopClients[Pool], made: list[Pool]
) -> None:
    """Closing is done once; a later request gets a new client."""
    await (await clients.get()).use()
    await clients.aclose()
    await clients.aclose()
    assert made[0].is_closed
    await (await clients.get()).use()
    assert len(made) == 2
    await clients.aclose()


def test_ended_loops_are_forgotten(clients: LoopClients[Pool], made: list[Pool]) -> None:
    """A program that starts a loop per run does not keep the loops of all of them."""

    async def run() -> None:
        await clients.get()

    for _ in range(5):
        asyncio.run(run())
    gc.collect()
    assert len(made) == 5
    assert len(clients._held) == 1
