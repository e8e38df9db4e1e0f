"""The real model, where it was fetched: what only llama.cpp itself can prove."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus
from hookline.errors import ContextOverflowError, MalformedResponseError, ModelError
from hookline.providers import CallPiece, EndPiece, Piece, TextPiece
from hookline.providers.local import Chunk, Completion, Done, LocalProvider
from hookline.providers.local.engine import LlamaEngine, LlamaServer
from hookline.providers.local.reply import ReplyFormat, schema_grammar
from hookline.state import InferenceRequest, ToolSpec, UserMessage

pytestmark = pytest.mark.timeout(300)  # the model is slow where others are busy

CONTEXT = 2048
SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {'a "b" \\ ö': {"type": "integer"}},
        "required": ['a "b" \\ ö'],
    },
    {"enum": ["x\ny", 'q"', "\\", "世界 🦦", "]", "[^a", "{", "<|im_end|>", 1.5, None, True]},
    {"type": "integer", "minimum": -12, "maximum": 3456},
    {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "boolean"}}},
    {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}},
    },
    {"type": "string", "maxLength": 4},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "date-time"},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {},
]


@pytest.fixture(scope="module")
def engine(model: Path) -> LlamaEngine:
    """The model, loaded once."""
    return LlamaEngine.load(model, context=CONTEXT)


@pytest.fixture
async def provider(engine: LlamaEngine) -> AsyncIterator[LocalProvider]:
    """A provider over it."""
    provider = LocalProvider(engine=engine)
    yield provider
    await provider.aclose()


async def completed(engine: LlamaEngine, completion: Completion) -> tuple[str, Done]:
    """The whole text, and the end."""
    text = ""
    async with aclosing(engine.complete(completion)) as items:
        async for item in items:
            if isinstance(item, Done):
                return text, item
            text += item.text
    raise AssertionError("no end")


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
async def test_llama_reads_our_grammars(engine: LlamaEngine, schema: dict[str, Any]) -> None:
    """Alone and inside a turn, whatever is in them: one that it cannot read is an error."""
    parameters = {"type": "object", "properties": {"x": schema, "y": schema}, "required": ["y"]}
    tool = ToolSpec('to"ol', "", {**parameters, "$defs": schema.get("$defs", {})})
    for text in (
        schema_grammar(schema),
        ReplyFormat([tool]).grammar([tool]),
        ReplyFormat([tool]).grammar([], answer=schema),
    ):
        _, end = await completed(engine, Completion("Say: ", text, 1))
        assert end.output_tokens == 1


async def test_a_grammar_it_cannot_read_is_an_error(
    engine: LlamaEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    """So that the test above proves something."""
    with pytest.raises(ModelError, match="failed to parse grammar"):
        await completed(engine, Completion("Say: ", "root ::= nothing", 1))


async def test_a_schema_it_cannot_use_is_an_error(provider: LocalProvider) -> None:
    """The model is free then, and what it writes is refused."""
    asked = InferenceRequest(
        messages=[UserMessage("Tell me about the sea.")],
        output_schema={"$ref": "#/$defs/Gone"},
        options={"max_tokens": 400},
    )
    with pytest.raises(MalformedResponseError, match="is not JSON"):
        await _answer(provider, asked)


async def test_what_it_writes_keeps_to_the_grammar(engine: LlamaEngine) -> None:
    """Letter by letter, also where the model would rather write something else."""
    tool = ToolSpec(
        "pick", "", {"type": "object", "properties": {"n": SCHEMAS[2]}, "required": ["n"]}
    )
    said, _ = await completed(
        engine,
        Completion("Once upon a time", ReplyFormat([tool]).grammar([tool], may_answer=False), 30),
    )
    found = json.loads(said)
    assert found["tool"] == "pick"
    assert -12 <= found["n"] <= 3456


async def test_a_prompt_is_read_once(engine: LlamaEngine) -> None:
    """The second time, only what is new is read."""
    prompt = "<|im_start|>user\n" + "Tell me about the sea. " * 30
    _, first = await completed(engine, Completion(f"{prompt}Now.", max_tokens=1))
    _, second = await completed(engine, Completion(f"{prompt}Later.", max_tokens=1))
    assert first.input_tokens > 150
    assert second.cached_tokens > 0.9 * second.input_tokens


async def test_leaving_stops_it_long_before_its_last_token(engine: LlamaEngine) -> None:
    """The next question does not wait for the one that was left."""
    async with aclosing(engine.complete(Completion("Once upon a time", max_tokens=1500))) as items:
        assert isinstance(await anext(items), Chunk)
    async with asyncio.timeout(20):
        await completed(engine, Completion("Hi", max_tokens=1))


class Counting:
    """A server that counts what it says."""

    def __init__(self, server: LlamaServer) -> None:
        self.server = server
        self.said = 0
        self.ended = threading.Event()

    def handle_completions(
        self, body: dict[str, Any], callback: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Hand everything on."""

        def count(data: dict[str, Any]) -> bool:
            self.said += 1
            return callback(data)

        self.server.handle_completions(body, count)
        self.ended.set()


async def test_a_prompt_can_be_left_while_it_is_read(engine: LlamaEngine) -> None:
    """It does not read on to the end, which would be sixty batches away."""
    assert engine._server is not None
    counting = Counting(engine._server)
    task = asyncio.create_task(completed(LlamaEngine(counting), Completion("word " * 1900)))
    await asyncio.sleep(0.05)
    task.cancel()
    assert await asyncio.to_thread(counting.ended.wait, 60)
    assert counting.said < 20
    assert task.cancelled()


async def test_too_long_a_prompt_overflows(engine: LlamaEngine) -> None:
    """llama.cpp's own words for it are understood."""
    with pytest.raises(ContextOverflowError, match=str(CONTEXT)):
        await completed(engine, Completion("word " * (CONTEXT + 10)))


async def test_calls_and_answers_come_out_of_it(provider: LocalProvider) -> None:
    """A demanded tool is called with arguments of its schema; a demanded form is kept; an answer streams."""
    schema = {"type": "object", "properties": {"key": {"enum": ["a", "b"]}}, "required": ["key"]}
    tool = ToolSpec("look_up", "Look something up.", schema)
    asked = InferenceRequest(
        messages=[UserMessage("Look up a.")],
        tools=(tool,),
        tool_choice="look_up",
        options={"max_tokens": 30},
    )
    *pieces, end = await _answer(provider, asked)
    arguments = "".join(piece.arguments for piece in pieces if isinstance(piece, CallPiece))
    assert json.loads(arguments)["key"] in ("a", "b")
    assert isinstance(end, EndPiece)
    assert end.usage.cost == 0.0
    assert end.usage.output_tokens > 3
    *pieces, end = await _answer(
        provider, asked.with_tool_choice("none").with_output_schema({"type": "boolean"})
    )
    assert json.loads("".join(piece.text for piece in pieces if isinstance(piece, TextPiece))) in (
        True,
        False,
    )


async def _answer(provider: LocalProvider, request: InferenceRequest) -> list[Piece]:
    async with aclosing(provider.ask(request, streamed=True)) as pieces:
        return [piece async for piece in pieces]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_an_agent_runs_on_a_path(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From the name to the answer, again and again; a model of the user's own comes without our notice."""
    agent = (
        AgentBuilder()
        .with_model(f"local:{model}", context=CONTEXT, options={"max_tokens": 40})
        .with_tools(add)
        .with_limits(steps=3)
        .build()
    )
    with caplog.at_level(logging.INFO):
        for question in ("What is 2 plus 3?", "What is 2 plus 4?"):
            result = agent.run_sync(question)
            assert result.status in (RunStatus.COMPLETED, RunStatus.STOPPED), result.error
            assert result.usage.cost == 0.0
    assert result.usage.cache_read_tokens > result.usage.input_tokens // 2
    assert [one for one in caplog.records if one.name.startswith("hookline.providers.local")] == []


LEAVES_IN_THE_MIDDLE = """
import asyncio, pathlib, sys
from hookline.providers.local import Completion
from hookline.providers.local.engine import LlamaEngine, LlamaServer

async def main():
    engine = LlamaEngine.load(pathlib.Path(sys.argv[1]), context=512)
    task = asyncio.create_task(anext(engine.complete(Completion(sys.argv[2], max_tokens=400))))
    await asyncio.sleep(0.05)
    if sys.argv[3] == "raise":
        raise SystemExit(7)
    await task
    sys.exit(7)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("prompt", "how"), [("word " * 300, "raise"), ("Hi", "return")], ids=["reading", "writing"]
)
def test_a_process_may_end_in_the_middle(model: Path, prompt: str, how: str) -> None:
    """Its exit code is its own, and nothing is printed on the way out."""
    command = [sys.executable, "-c", LEAVES_IN_THE_MIDDLE, str(model), prompt, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (7, "")


NOTICED_ONCE = """
import logging
from hookline.providers.local.provider import load_engine
import threading
logging.basicConfig(format="%(levelname)s %(message)s")
held = [load_engine(name, 1, 256, threading.Event()) for name in ("", "smollm2", "")]
assert held[0] is held[1] is held[2]
"""


def test_the_default_model_says_once_what_it_is(model: Path, tmp_path: Path) -> None:
    """However many agents use it: it is in memory once, too. And it needs no network."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "smollm2-b179c9523d0e.gguf").symlink_to(model)
    environment = {
        **os.environ,
        "HOOKLINE_CACHE_DIR": str(tmp_path),
        "PIP_INDEX_URL": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        [sys.executable, "-c", NOTICED_ONCE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line == f"WARNING {LocalProvider.notice}"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nobody_can_connect_to_it(engine: LlamaEngine) -> None:
    """The binding listens, at an address that is gone."""
    sockets = {os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
    inodes = {one[8:-1] for one in sockets if one.startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            assert not (fields[9] in inodes and fields[3] == "0A"), line
    for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]:
        *_, inode, path = line.split() if line.count(" ") > 6 else ("", "")
        if "hookline-" in path and inode in inodes:
            assert not os.path.exists(path)
