"""What was recorded is played again, to its end or to where somebody left."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wires.anthropic import error_body
from wires.cassettes import (
    ADDRESSES,
    HELLO,
    WIRES,
    add,
    agent_of,
    asked,
    client_of,
    record,
    replayer,
    text_of,
)
from wires.google import chunk_body
from wires.openai import OpenAIWire, completion
from wires.server import Exchange, Server

from hookline import AgentBuilder, InferenceHookContext, RunStatus
from hookline.errors import AuthenticationError, BuildError, CassetteError, UsageError
from hookline.providers import Provider, make_provider
from hookline.testing import Cassette, Failure, FakeClock, WireCall, WireTurn
from hookline.testing.cassette import differences, explain_mismatch, is_same
from hookline.testing.cassette_file import RecordedRequest
from hookline.testing.secrets import SCRUBBED

pytestmark = pytest.mark.usefixtures("no_keys")


ANSWERS = {
    "text": WireTurn("Good day, café ☕."),
    "calls": WireTurn("Let me see.", (WireCall("add", {"a": 1, "b": 2}), WireCall("add"))),
    "reasoning": WireTurn("Five.", reasoning="Two and three."),
    "rate limit": WireTurn(failure=Failure.RATE_LIMIT, retry_after=7),
    "server error": WireTurn(failure=Failure.SERVER_ERROR),
    "bad key": WireTurn(failure=Failure.BAD_KEY),
    "cut": WireTurn("This will never be read to its end.", failure=Failure.CUT),
    "malformed": WireTurn("This neither, for other reasons.", failure=Failure.MALFORMED),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("name", WIRES)
async def test_an_answer_is_played_as_it_came(
    name: str, answer: str, streamed: bool, path: Path
) -> None:
    """Piece by piece, with the same error at its end, with no server and no key."""
    wire = WIRES[name]()
    with Cassette(path):
        async with wire.provider([ANSWERS[answer]]) as provider:
            heard = await asked(provider, wire.model, streamed=streamed)
    with Cassette(path) as cassette:
        assert cassette.mode == "replay"
        provider = make_provider(name, base_url=ADDRESSES[name])
        assert await asked(provider, wire.model, streamed=streamed) == heard
        assert cassette.unplayed == 0
        await provider.aclose()


@pytest.mark.parametrize("name", WIRES)
async def test_a_conversation_is_played_whichever_way_an_agent_is_driven(
    name: str, path: Path
) -> None:
    """With tool calls, run and streamed: the same records come."""
    wire = WIRES[name]()
    turns = [WireTurn(calls=(WireCall("add", {"a": 2, "b": 3}),)), WireTurn("It is five.")]

    async def drive(provider: Provider) -> list[object]:
        agent = agent_of(provider, wire.model).build()
        result = await agent.run("2+3?")
        stream = agent.stream("2+3?")
        seen = [type(record).__name__ async for record in stream]
        return [result.text, result.usage.total_tokens, stream.result.text, *seen]

    with Cassette(path):
        async with wire.provider([*turns, *turns]) as provider:
            recorded = await drive(provider)
    with Cassette(path, mode="replay"):
        provider = make_provider(name)
        assert await drive(provider) == recorded
        await provider.aclose()
    assert recorded[0] == recorded[2] == "It is five."
    assert recorded.count("TextDelta") > 1


async def test_a_stream_comes_event_by_event(path: Path) -> None:
    """Whoever else has something to do gets a turn between the chunks, as with a network."""
    await record_stream(path)
    arrived: list[str] = []
    is_over = asyncio.Event()

    async def meanwhile() -> None:
        while not is_over.is_set():
            arrived.append("-")
            await asyncio.sleep(0)

    async with httpx2.AsyncClient(transport=Cassette(path).transport()) as client:
        other = asyncio.create_task(meanwhile())
        async with client.stream("POST", "http://test/stream", json={}) as response:
            async for chunk in response.aiter_raw():
                arrived.append(chunk.decode())
        is_over.set()
        await other
    heard = [each for each in arrived if each != "-"]
    assert heard == ['data: {"said": "a\\u00e9"}\n\n', 'event: b\ndata: "b"\n\n', ": c\n\n"]
    places = [arrived.index(each) for each in heard]
    assert all("-" in arrived[first:then] for first, then in pairwise(places))


async def record_stream(path: Path) -> None:
    """Record a stream whose bytes are cut anywhere, also within a letter."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, {"content-type": "text/event-stream"})
        await exchange.send('data: {"said":"aé"}\r\n\r\nevent: b\ndata: "b"\n\n: c\n\n', size=1)
        await exchange.end()

    async with Server(far_end) as server, client_of(Cassette(path)) as client:
        await client.post(f"{server.url}/stream", json={})


async def test_it_works_under_run_sync_without_a_block(path: Path) -> None:
    """Each run has a loop of its own; the recording is written when the connections are closed."""

    def run(cassette: Cassette, **settings: Any) -> str:
        agent = AgentBuilder().with_model("openai:gpt-4o", cassette=cassette, **settings).build()
        return " ".join(agent.run_sync("Hello!").text for _ in range(2))

    turns = iter((WireTurn("One."), WireTurn("Two.")))

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, completion(next(turns), "gpt-4o"))

    async with Server(far_end) as server:
        settings = {"base_url": f"{server.url}/v1", "api_key": "sk-only-for-this-test-1"}
        assert await asyncio.to_thread(run, Cassette(path), **settings) == "One. Two."
    assert await asyncio.to_thread(run, Cassette(path, mode="replay")) == "One. Two."


@pytest.fixture
def playing(path: Path) -> Iterator[Cassette]:
    """A cassette in force for the whole of a test."""
    asyncio.run(record(path))
    with Cassette(path, mode="replay") as cassette:
        yield cassette


async def test_a_fixture_holds_for_the_test_that_uses_it(playing: Cassette) -> None:
    """Though the test runs in a task of its own, and what it starts in others and in threads."""
    assert (await asyncio.create_task(replayer().build().run("Hello!"))).text == "Hello to you."
    assert playing.unplayed == 0


async def test_several_agents_share_a_cassette(path: Path) -> None:
    """At the same time, and in another order than they were recorded in."""
    prompts = ["one", "two", "three", "four"]

    async def far_end(exchange: Exchange) -> None:
        said = exchange.request.json()["messages"][-1]["content"]
        await exchange.reply(200, completion(WireTurn(f"You said {said}."), "gpt-4o"))

    async def talk(cassette: Cassette, prompts: list[str], **settings: Any) -> list[str]:
        builder = [
            AgentBuilder().with_model("openai:gpt-4o", cassette=cassette, **settings)
            for _ in prompts
        ]
        runs = [each.build().run(said) for each, said in zip(builder, prompts, strict=True)]
        return [result.text for result in await asyncio.gather(*runs)]

    cassette = Cassette(path)
    async with Server(far_end) as server:
        await talk(cassette, prompts, base_url=f"{server.url}/v1")
    cassette.save()
    texts = await talk(Cassette(path, mode="replay"), prompts[::-1])
    assert texts == [f"You said {each}." for each in prompts[::-1]]


async def test_the_same_request_is_answered_in_order(path: Path) -> None:
    """As often as it was recorded, and then not again."""
    wire = OpenAIWire()
    with Cassette(path):
        async with wire.provider([WireTurn("Once."), WireTurn("Twice.")]) as provider:
            agent = agent_of(provider, wire.model).build()
            await agent.run("Hello!")
            await agent.run("Hello!")
    agent = replayer(cassette=Cassette(path)).build()
    results = [await agent.run("Hello!") for _ in range(3)]
    assert [result.text for result in results] == ["Once.", "Twice.", ""]
    assert "it was recorded 2 times, and is asked for once more" in str(results[2].error)
    await agent.aclose()


async def test_retries_are_played_too(path: Path) -> None:
    """The wait that the server asked for is asked for again; with a fake clock nobody waits."""
    turns = [WireTurn(failure=Failure.RATE_LIMIT, retry_after=30), *HELLO]
    await record(path, turns)
    clock = FakeClock()
    with Cassette(path, mode="replay"):
        result = await replayer().with_clock(clock).build().run("Hello!")
    assert (result.text, clock.slept) == ("Hello to you.", [30])


async def test_every_model_goes_through_the_block(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent knows nothing of it: not the models of its fallback, nor the one that a hook names for a step."""

    async def far_end(exchange: Exchange) -> None:
        if "generateContent" in exchange.request.path:
            call = {"functionCall": {"name": "add", "args": {"a": 2, "b": 3}}}
            await exchange.reply(200, chunk_body([call], "STOP"))
        elif exchange.request.path == "/v1/messages":
            await exchange.reply(529, error_body("overloaded_error", "Overloaded"))
        else:
            await exchange.reply(200, completion(WireTurn("It is five."), "gpt-4o"))

    def google_first(ctx: InferenceHookContext) -> InferenceHookContext:
        model = "" if ctx.state.steps else "google:gemini-2.5-flash"
        return ctx.with_request(ctx.request.with_model(model))

    async def run() -> str:
        models = ["anthropic:claude-sonnet-4-5", "openai:gpt-4o"]
        builder = AgentBuilder().with_model(models).with_tools(add)
        async with builder.on_before_inference(google_first).build() as agent:
            return (await agent.run("2+3?")).text

    async with Server(far_end) as server:
        with monkeypatch.context() as environment:
            for name in ("ANTHROPIC", "GOOGLE_GEMINI", "OPENAI"):
                ending = "/v1" if name == "OPENAI" else ""
                environment.setenv(f"{name}_BASE_URL", f"{server.url}{ending}")
                environment.setenv(f"{name.removesuffix('_GEMINI')}_API_KEY", "only-for-this-test")
            with Cassette(path):
                assert await run() == "It is five."
    with Cassette(path, mode="replay") as cassette:
        assert cassette.unplayed == 3
        assert await run() == "It is five."
        assert cassette.unplayed == 0


async def test_an_agent_that_was_there_before_goes_through_the_block(path: Path) -> None:
    """Also when it has asked the network in this loop already, and it asks the network again afterwards."""
    wire = OpenAIWire()
    async with wire.provider([WireTurn(f"Answer {number}.") for number in range(3)]) as provider:
        agent = agent_of(provider, wire.model).build()
        texts = [(await agent.run("Hello!")).text]
        with Cassette(path):
            texts.append((await agent.run("Hello!")).text)
        with Cassette(path, mode="replay"):
            texts.append((await agent.run("Hello!")).text)
        texts.append((await agent.run("Hello!")).text)
    assert texts == ["Answer 0.", "Answer 1.", "Answer 1.", "Answer 2."]


async def test_an_answer_that_comes_packed_is_kept_unpacked(path: Path) -> None:
    """A cassette is there to be read."""

    async def far_end(exchange: Exchange) -> None:
        packed = {"content-type": "application/json", "content-encoding": "gzip"}
        await exchange.reply(200, gzip.compress(b'{"said": "hello"}'), packed)

    with Cassette(path) as cassette:
        async with Server(far_end) as server, client_of(cassette) as client:
            assert (await client.get(server.url)).json() == {"said": "hello"}
    async with client_of(Cassette(path)) as client:
        assert (await client.get("http://anywhere")).json() == {"said": "hello"}
    assert '"json": {"said": "hello"}' in text_of(path)


async def test_a_redirection_is_followed_again(path: Path) -> None:
    """To the same path, whatever the host; secrets in its address are gone."""

    async def far_end(exchange: Exchange) -> None:
        if exchange.request.path.startswith("/there"):
            await exchange.reply(200, {"said": "hello"})
        else:
            await exchange.reply(307, "", {"location": "/there?a=1&token=secret-0123456789"})

    with Cassette(path) as cassette:
        async with Server(far_end) as server, client_of(cassette, follow_redirects=True) as client:
            assert (await client.get(f"{server.url}/here")).json() == {"said": "hello"}
        assert server.requests[1].path.endswith("token=secret-0123456789")
    async with client_of(Cassette(path), follow_redirects=True) as client:
        assert (await client.get("http://anywhere/here")).json() == {"said": "hello"}
    assert "secret-" not in text_of(path)


async def test_a_cancelled_run_is_cancelled_again(path: Path) -> None:
    """Where the recording hung up, the server falls silent."""
    wire = OpenAIWire()

    async def cancel_soon(provider: Provider) -> RunStatus:
        agent = agent_of(provider, wire.model).build()
        stream = agent.stream("Hello!")
        async for each in stream:
            if type(each).__name__ == "TextDelta":
                agent.cancel()
        return stream.result.status

    turn = WireTurn("A long answer that nobody reads. " * 40)
    with Cassette(path):
        async with wire.provider([turn]) as provider:
            assert await cancel_soon(provider) is RunStatus.CANCELLED
    answer = json.loads(text_of(path))["exchanges"][0]["answer"]
    assert answer["left"] is True
    with Cassette(path, mode="replay"):
        provider = make_provider("openai")
        assert await cancel_soon(provider) is RunStatus.CANCELLED
        await provider.aclose()


async def test_reading_on_where_the_recording_hung_up_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would have come then, nobody knows."""
    wire = OpenAIWire()
    with Cassette(path):
        async with wire.provider([WireTurn(failure=Failure.SILENCE)]) as provider:
            agent = agent_of(provider, wire.model).build()
            run = asyncio.create_task(agent.run("Hello!"))
            while not wire.requests:  # noqa: ASYNC110 - the server has no event for this
                await asyncio.sleep(0)
            agent.cancel()
            await run
    monkeypatch.setattr("hookline.testing.cassette_transport._PATIENCE", 0)
    agent = replayer(cassette=Cassette(path)).build()
    result = await agent.run("Hello!")
    assert isinstance(result.error, CassetteError)
    assert "the recording stopped there, and this run did not" in str(result.error)
    await agent.aclose()


# --- recording a cassette, asking it for what it does not have, and using it wrongly ------------------


async def test_recording_again_replaces_the_file(path: Path) -> None:
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
    """It would play the failure forever, to someone who has a network by then."""
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


async def test_an_unknown_request_is_reported_with_what_differs(path: Path) -> None:
    """From the recorded request that is most like it; nothing is sent, and nothing is tried again."""
    await record(path, [WireTurn(calls=(WireCall("add", {"a": 2, "b": 3}),)), *HELLO])
    agent = replayer(cassette=Cassette(path)).with_system_prompt("Be brief.").build()
    result = await agent.run("Hello?")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, CassetteError)
    difference_texts = str(result.error)
    assert f"the cassette '{path}' has no answer to POST /v1/chat/completions" in difference_texts
    assert "the nearest, request 1 of 2, differs:" in difference_texts
    assert 'messages[0].content: recorded "Hello!", asked "Be brief."' in difference_texts
    assert (
        'messages[1]: recorded nothing, asked {"role": "user", "content": "Hello?"}'
        in difference_texts
    )
    assert difference_texts.endswith(
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
    with pytest.raises(UsageError, match="is not a regular expression or a function"):
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


# --- which recorded request is asked now --------------------------------------------------------


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def request_for(body: Any, path: str = "/v1/ask", method: str = "POST") -> RecordedRequest:
    """A request."""
    return RecordedRequest(method, path, body)


def difference_texts(recorded: Any, now: Any) -> list[str]:
    """What differs, in words."""
    return [str(each) for each in differences(request_for(recorded), request_for(now))]


@given(VALUES)
def test_a_request_is_the_same_as_itself(body: Any) -> None:
    """Whatever is in it."""
    assert is_same(request_for(body), request_for(body))


@given(VALUES, VALUES)
def test_requests_with_other_bodies_are_others(one: Any, other: Any) -> None:
    """Except for numbers that are equal, and truth is no number."""
    if repr(one) != repr(other) and one != other:
        assert not is_same(request_for(one), request_for(other))
    assert not is_same(request_for([1, one]), request_for([True, one]))


def test_the_order_of_fields_does_not_matter() -> None:
    """The order of items does."""
    assert is_same(request_for({"a": 1, "b": [1.0]}), request_for({"b": [1], "a": 1}))
    assert not is_same(request_for([1, 2]), request_for([2, 1]))


def test_method_and_path_count() -> None:
    """With the query that is in it."""
    assert not is_same(request_for({}), request_for({}, method="GET"))
    assert not is_same(request_for({}, "/v1/ask?alt=sse"), request_for({}))


def test_differences_name_their_place() -> None:
    """As one would write it in code, and from where two texts part."""
    long = "the same words over and over again, " * 3
    assert difference_texts(
        {"messages": [{"content": f"{long}and Hello!"}], "n": 1, "old": None},
        {"messages": [{"content": f"{long}and Hallo!"}, {"role": "user"}], "n": "1", "new": [2]},
    ) == [
        'messages[0].content: recorded "…er and over again, and Hello!", '
        'asked "…er and over again, and Hallo!"',
        'messages[1]: recorded nothing, asked {"role": "user"}',
        'n: recorded 1, asked "1"',
        "old: recorded null, asked nothing",
        "new: recorded nothing, asked [2]",
    ]
    assert difference_texts("text", {"a": 1}) == ['body: recorded "text", asked {"a": 1}']


@given(st.lists(st.text("ab"), min_size=1, max_size=4), st.lists(st.text("abc"), max_size=4))
def test_anything_may_stand_for_what_was_scrubbed(parts: list[str], fillings: list[str]) -> None:
    """The secret is another one by now, or none."""
    recorded = SCRUBBED.join(parts)
    filled = parts[0]
    for number, part in enumerate(parts[1:]):
        filled += (fillings[number] if number < len(fillings) else "") + part
    assert is_same(request_for(recorded), request_for(filled))


def test_what_stands_around_it_must_be_the_same() -> None:
    """In its order, and without one part serving for two."""
    key = f"my key {SCRUBBED}, your key {SCRUBBED}."
    assert is_same(request_for(key), request_for("my key a, your key b."))
    assert not is_same(request_for(key), request_for("my key a, your key b"))
    assert not is_same(request_for(key), request_for("your key b, my key a."))
    assert not is_same(request_for(f"aa{SCRUBBED}aa"), request_for("aaa"))


def test_ids_that_are_made_up_again_do_not_matter() -> None:
    """A provider makes one for a call that came without."""
    one, other = f"hookline-{'0a' * 16}", f"hookline-{'f7' * 16}"
    assert is_same(request_for({"id": one}), request_for({"id": other}))
    assert not is_same(request_for({"id": one}), request_for({"id": "call_1"}))


def test_the_nearest_request_is_explained() -> None:
    """With its place in the recording; of many differences the first few."""
    recorded = [request_for({"a": 1, "b": 2}), request_for(dict.fromkeys("abcdefgh", 1))]
    assert explain_mismatch(recorded, {0}, request_for({"a": 1, "b": 3})) == (
        "the nearest, request 1 of 2 (played already), differs:\n  b: recorded 2, asked 3\n "
    )
    assert "\n  and 3 more\n" in explain_mismatch(
        recorded, (), request_for(dict.fromkeys("abcdefgh", 7))
    )
    assert explain_mismatch([], (), request_for({})) == "nothing is recorded."
