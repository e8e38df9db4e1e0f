"""The openai provider against a real llama.cpp server with a real, small model; skipped without the model."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from hookline import AgentBuilder
from hookline.errors import ContextOverflowError, ModelError, ModelNotFoundError, UnsupportedError
from hookline.providers import EndPiece, Piece, TextPiece
from hookline.providers.local.weights import DEFAULT, ensure
from hookline.providers.openai import OpenAIProvider
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

pytestmark = pytest.mark.timeout(300)  # the model is fetched once

CONTEXT = 512
SERVER = f"""
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = {CONTEXT}
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()  # serves until the test closes this
"""
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="session")
def model() -> Path:
    """The model that `local` is, fetched once as it fetches it."""
    pytest.importorskip("xllamacpp")
    try:
        return ensure(DEFAULT)
    except ModelError as error:
        pytest.skip(f"the model cannot be fetched: {error}")


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a llama.cpp server with the model, on a port the system picked."""
    log = tmp_path_factory.mktemp("llama") / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", SERVER, str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), log.read_text()
        yield address
        process.stdin.close()
        process.wait()


@pytest.fixture
async def provider(server: str) -> AsyncIterator[OpenAIProvider]:
    """A provider that talks to it, without a key."""
    provider = OpenAIProvider(base_url=f"{server}/v1", api_key="")
    yield provider
    await provider.aclose()


def asking(text: str, *, max_tokens: int = 8, **fields: Any) -> InferenceRequest:
    """A question that takes few tokens to answer."""
    options = {"max_tokens": max_tokens, "temperature": 0}
    return InferenceRequest(
        messages=[UserMessage(text)], model="smollm2", options=options, **fields
    )


async def answer(
    provider: OpenAIProvider, request: InferenceRequest, *, streamed: bool
) -> tuple[str, EndPiece, list[Piece]]:
    """The text, the end and all the pieces of an answer."""
    async with aclosing(provider.ask(request, streamed=streamed)) as asked:
        pieces = [piece async for piece in asked]
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    return text, end, pieces


@BOTH
async def test_a_question_is_answered_and_counted(provider: OpenAIProvider, streamed: bool) -> None:
    """Text comes, with the tokens it took; the answer that runs out of tokens says so."""
    request = asking("Tell me a story about a fisherman.", system="You are a poet.")
    text, end, pieces = await answer(provider, request, streamed=streamed)
    assert text
    assert end.finish == "length"
    assert end.usage.output_tokens == 8
    assert end.usage.input_tokens > 10
    assert end.usage.requests == 1
    assert (end.usage.cost, end.usage.unpriced_requests) == (None, 1)
    assert end.model.endswith(".gguf")
    assert (len(pieces) > 2) is streamed


SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"enum": [1, 2, 3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@BOTH
async def test_an_answer_has_the_shape_asked_for(provider: OpenAIProvider, streamed: bool) -> None:
    """With a schema, whatever the model says is JSON of that shape."""
    request = asking("Where to, and how long?", max_tokens=120, output_schema=SCHEMA)
    text, _, _ = await answer(provider, request, streamed=streamed)
    found = msgspec.json.decode(text)
    assert set(found) == {"city", "days"}
    assert found["city"] in ("Paris", "Rome")
    assert found["days"] in (1, 2, 3)


@BOTH
async def test_an_answer_ends_at_a_stop_sequence(provider: OpenAIProvider, streamed: bool) -> None:
    """The schema makes the text certain, and the stop word cuts it."""
    request = asking("Say it.", max_tokens=60, output_schema={"const": "alpha beta gamma"})
    text, end, _ = await answer(provider, request.with_options(stop=["beta"]), streamed=streamed)
    assert text == '"alpha '
    assert end.finish == ""


@BOTH
async def test_a_wrong_option_is_the_servers_own_complaint(
    provider: OpenAIProvider, server: str, streamed: bool
) -> None:
    """HTTP 400 names the server, the option and what is wrong with it."""
    request = asking("Hi.").with_options(temperature="warm")
    with pytest.raises(ModelError, match="temperature") as caught:
        await answer(provider, request, streamed=streamed)
    assert type(caught.value) is ModelError
    assert server in str(caught.value)


@BOTH
async def test_a_conversation_that_is_too_long_overflows(
    provider: OpenAIProvider, streamed: bool
) -> None:
    """llama.cpp's own words for it are understood."""
    with pytest.raises(ContextOverflowError, match="Shorten the conversation"):
        await answer(provider, asking("word " * CONTEXT), streamed=streamed)


async def test_a_model_that_sees_nothing_says_so(provider: OpenAIProvider) -> None:
    """An image is sent as the protocol says, and this model cannot take it."""
    image = Attachment.from_bytes(b"not really a picture", "image/png")
    request = asking("What is this?").with_messages([UserMessage("?", attachments=(image,))])
    with pytest.raises(UnsupportedError, match="image"):
        await answer(provider, request, streamed=False)


async def test_an_address_that_leads_elsewhere_is_found_out(server: str) -> None:
    """The remedy shows how to list the models, and what a base_url looks like."""
    provider = OpenAIProvider(base_url=f"{server}/api", api_key="")
    with pytest.raises(ModelNotFoundError, match=r"curl .*/models .*ends in /v1"):
        await answer(provider, asking("Hi."), streamed=False)
    await provider.aclose()


async def test_calls_and_their_results_are_taken(provider: OpenAIProvider) -> None:
    """A conversation with tools in it, also with a call that was no JSON, goes through the model's template."""
    conversation: list[Message] = [
        UserMessage("What is 1 + 2?"),
        AssistantMessage("", (ToolCall("c1", "add", {"a": 1, "b": 2}),)),
        ToolMessage("c1", "add", "3"),
        AssistantMessage("", (ToolCall.from_json("c2", "add", '{"a": '),)),
        ToolMessage("c2", "add", "Error: the arguments are not JSON."),
    ]
    text, _, _ = await answer(provider, asking("").with_messages(conversation), streamed=False)
    assert text


async def test_streams_follow_each_other_at_once(provider: OpenAIProvider) -> None:
    """llama.cpp closes a connection after a stream without a word; the next request must not be lost to that."""
    for streamed in (True, False, True, True, True, False):
        text, _, _ = await answer(provider, asking("Hi.", max_tokens=2), streamed=streamed)
        assert text


async def test_leaving_a_stream_stops_the_model(provider: OpenAIProvider, server: str) -> None:
    """The server sees that nobody listens any more, and stops long before its last token."""
    async with aclosing(
        provider.ask(asking("Tell a long story.", max_tokens=400), streamed=True)
    ) as pieces:
        assert isinstance(await anext(pieces), TextPiece)
    async with httpx2.AsyncClient(headers={"Connection": "close"}) as client:
        slot = {"is_processing": True}
        while slot["is_processing"]:
            (slot,) = (await client.get(f"{server}/slots")).json()
            await asyncio.sleep(0.01)
    assert slot["next_token"][0]["n_decoded"] < 400  # type: ignore[index]


def test_an_agent_runs_on_it_again_and_again(server: str) -> None:
    """From the name of the model to the answer, in one event loop after another."""
    agent = (
        AgentBuilder()
        .with_model(
            "openai:smollm2", base_url=f"{server}/v1", api_key="", options={"max_tokens": 4}
        )
        .build()
    )
    for _ in range(2):
        result = agent.run_sync("Hi.")
        assert result.text
        assert result.usage.output_tokens == 4
