"""Recording a cassette, asking it for what it does not have, and using it wrongly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from wires.cassettes import HELLO, WIRES, agent_of, asked, client_of, record, replayer, text_of
from wires.openai import OpenAIWire
from wires.server import Exchange, Server

from hookline import AgentBuilder, RunStatus
from hookline.errors import AuthenticationError, BuildError, CassetteError, UsageError
from hookline.providers import Provider, make_provider
from hookline.testing import Cassette, WireCall, WireTurn

pytestmark = pytest.mark.usefixtures("no_keys")


async def test_recording_anew_replaces_the_file(path: Path) -> None:
    """In mode "record" it does not matter what is there; nothing else is left behind."""
    await record(path, [WireTurn("The old answer.")])
    await record(path, [WireTurn("The new answer.")])
    with Cassette(path):
        assert (await replayer().build().run("Hello!")).text == "The new answer."
    assert list(path.parent.iterdir()) == [path]


async def test_a_recording_that_fails_leaves_the_old_one(path: Path) -> None:
    """An exception in the block means that what was recorded is not what was wanted."""
    await record(path)
    before = text_of(path)
    wire = OpenAIWire()

    async def fails() -> None:
        with Cassette(path, mode="record"):
            async with wire.provider([WireTurn("Something else.")]) as provider:
                result = await agent_of(provider, wire.model).build().run("Hello!")
                assert result.text == "Hello to you."

    with pytest.raises(AssertionError):
        await fails()
    assert text_of(path) == before


async def test_a_recording_of_no_network_is_not_written(path: Path) -> None:
    """It would play the failure for ever, to someone who has a network by then."""
    provider = make_provider("openai", base_url="http://127.0.0.1:1/v1")
    with Cassette(path):
        assert await asked(provider, "any", streamed=False) == ["ConnectionLostError None"]
        await provider.aclose()
    assert not text_of(path)


async def test_a_host_that_is_not_there_is_recorded_beside_one_that_is(path: Path) -> None:
    """So that a fallback from one to the other can be played."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, {"said": "hello"})

    with Cassette(path) as cassette:
        async with Server(far_end) as server, client_of(cassette) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get("http://127.0.0.1:1/first")
            await client.get(f"{server.url}/second")
    async with client_of(Cassette(path)) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://anywhere/first")
        assert (await client.get("http://anywhere/second")).json() == {"said": "hello"}


def test_recording_needs_a_key(path: Path) -> None:
    """Where the server wants one: its refusal is not worth recording."""
    for name in WIRES:
        with pytest.raises(AuthenticationError, match="there is no key"):
            make_provider(name, cassette=Cassette(path))


async def test_recording_twice_gives_the_same_file(path: Path) -> None:
    """Nothing of this run is in it: not its port, not its ids, not its time."""
    turns = [WireTurn(calls=(WireCall("add", {"a": 2, "b": 3}),)), *HELLO]
    await record(path, turns)
    first = text_of(path)
    await record(path, turns)
    assert text_of(path) == first


async def test_what_changes_from_run_to_run_is_scrubbed(path: Path) -> None:
    """By a pattern or a function, in requests and in answers, before they are written or compared."""
    wire = OpenAIWire()
    rules = (r"\d{4}-\d\d-\d\d", lambda text: text.replace("Ada", "someone"))

    async def ask(provider: Provider, day: str, who: str) -> str:
        agent = agent_of(provider, wire.model).with_system_prompt(f"Today is {day}.").build()
        return (await agent.run(f"I am {who}.")).text

    with Cassette(path, scrub=rules):
        async with wire.provider([WireTurn("Good day Ada, on 2026-01-31.")]) as provider:
            await ask(provider, "2026-01-31", "Ada")
    assert "2026" not in text_of(path)
    assert "Ada" not in text_of(path)
    with Cassette(path, scrub=rules):
        provider = make_provider("openai")
        said = await ask(provider, "2027-12-24", "Ada")
        await provider.aclose()
    assert said == "Good day someone, on [scrubbed]."


async def test_an_unknown_request_is_told_with_what_differs(path: Path) -> None:
    """From the recorded request that is most like it; nothing is sent, and nothing is tried again."""
    await record(path, [WireTurn(calls=(WireCall("add", {"a": 2, "b": 3}),)), *HELLO])
    agent = replayer(cassette=Cassette(path)).with_system_prompt("Be brief.").build()
    result = await agent.run("Hello?")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, CassetteError)
    told = str(result.error)
    assert f"the cassette '{path}' has no answer to POST /v1/chat/completions" in told
    assert "the nearest, request 1 of 2, differs:" in told
    assert 'messages[0].content: recorded "Hello!", asked "Be brief."' in told
    assert 'messages[1]: recorded nothing, asked {"role": "user", "content": "Hello?"}' in told
    assert told.endswith(
        "Delete the file to record it again, or scrub= what changes from run to run."
    )
    await agent.aclose()


@pytest.mark.parametrize("name", WIRES)
async def test_an_unknown_request_is_the_same_error_with_every_provider(
    name: str, path: Path
) -> None:
    """Whatever a vendor's client makes of an exception in its transport."""
    await record(path)
    provider = make_provider(name, cassette=Cassette(path))
    for streamed in (False, True):
        assert await asked(provider, "another", streamed=streamed) == ["CassetteError None"]
    await provider.aclose()


async def test_a_run_that_failed_over_it_fails_the_block(path: Path) -> None:
    """A result may be thrown away; the reason for a failing test must not be."""
    await record(path)
    with pytest.raises(CassetteError, match="has no answer"), Cassette(path):
        await replayer().build().run("Something else.")

    async def fails() -> None:
        with Cassette(path):
            result = await replayer().build().run("Something else.")
            assert result.text == "Hello to you."

    with pytest.raises(AssertionError) as failed:
        await fails()
    assert "has no answer to POST" in failed.value.__notes__[0]


def test_a_replay_without_a_file_is_an_error(path: Path) -> None:
    """Said when the cassette is made, with the file's name."""
    with pytest.raises(CassetteError, match=f"'{path}' cannot be read: .*Record it first"):
        Cassette(path, mode="replay")


def test_wrong_use_says_what_to_do(path: Path) -> None:
    """At once, and not at the first request."""
    with pytest.raises(UsageError, match=r"no mode 'play'\. Modes: auto, replay"):
        Cassette(path, mode="play")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not a regular expression"):
        Cassette(path, scrub="(")
    with pytest.raises(UsageError, match="no way to find a secret"):
        Cassette(path, scrub=[7])  # type: ignore[list-item]
    with pytest.raises(BuildError, match=r"is not a cassette. Pass hookline\.testing\.Cassette"):
        AgentBuilder().with_model("openai:gpt-4o", cassette="file.json")
    with Cassette(path) as cassette, pytest.raises(UsageError, match="in use already"), cassette:
        pass


def test_it_is_there_without_any_client_installed() -> None:
    """`hookline.testing` imports nothing of httpx; recording and playing do."""
    program = "import sys, hookline.testing; print([m for m in sys.modules if 'httpx' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
