from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hookline.errors import ContextOverflowError, ModelError
from hookline.providers.local import Chunk, Completion, CompletionEngine, Done
from hookline.providers.local.engine import LlamaEngine

Callback = Callable[[dict[str, Any]], bool]


class Server:
    """Plays llama.cpp: hands chunks to the callback until that says stop. `gate` lets it continue, chunk by chunk."""

    def __init__(
        self, *chunks: dict[str, Any] | Exception, gate: threading.Semaphore | None = None
    ) -> None:
        self.chunks = chunks
        self.gate = gate
        self.bodies: list[dict[str, Any]] = []
        self.begun = threading.Event()
        self.handed = 0
        self.ended = threading.Event()

    def handle_completions(self, body: dict[str, Any], callback: Callback) -> None:
        """Play."""
        self.bodies.append(body)
        self.begun.set()
        try:
            for chunk in self.chunks:
                if self.gate:
                    self.gate.acquire()
                if isinstance(chunk, Exception):
                    raise chunk
                self.handed += 1
                if callback(chunk):
                    return
        finally:
            self.ended.set()


def text(words: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk as llama.cpp has it."""
    return {"choices": [{"text": words, "index": 0, "finish_reason": finish}], **more}


READING = text("", prompt_progress={"total": 64, "cache": 0, "processed": 32, "time_ms": 9})
USAGE = {
    "usage": {
        "prompt_tokens": 11,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 7},
    }
}


ANYTHING = Completion("x")


async def completed(engine: LlamaEngine, completion: Completion = ANYTHING) -> list[Chunk | Done]:
    """All that comes."""
    async with aclosing(engine.complete(completion)) as items:
        return [item async for item in items]


async def test_chunks_come_as_they_are_made() -> None:
    """Progress with the prompt is not text; the end has the counts."""
    server = Server(READING, READING, text("Hel"), text("lo"), text("", "stop", **USAGE))
    engine = LlamaEngine(server)
    assert isinstance(engine, CompletionEngine)
    assert await completed(engine) == [Chunk("Hel"), Chunk("lo"), Done(11, 2, 7)]


async def test_running_out_of_tokens_is_reported() -> None:
    """The end says why."""
    engine = LlamaEngine(Server(text("Hm", "length", **USAGE)))
    assert await completed(engine) == [Chunk("Hm"), Done(11, 2, 7, True)]


async def test_what_is_asked_reaches_llama() -> None:
    """With the prompt cache on, and a grammar only where there is one."""
    server = Server(text("", "stop"))
    engine = LlamaEngine(server)
    await completed(engine, Completion("p", "root ::= [a]", 5, ("!",), 0.5, 0.9, 3, 4))
    await completed(engine)
    first, second = server.bodies
    assert first["prompt"] == "p"
    assert first["grammar"] == "root ::= [a]"
    assert (first["max_tokens"], first["stop"], first["temperature"]) == (5, ["!"], 0.5)
    assert (first["top_p"], first["top_k"], first["seed"]) == (0.9, 3, 4)
    assert first["cache_prompt"] is True
    assert "grammar" not in second


async def test_a_prompt_that_is_too_long_overflows() -> None:
    """With both numbers."""
    error = {
        "code": 400,
        "message": "request (5704 tokens) exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5704,
        "n_ctx": 4096,
    }
    with pytest.raises(ContextOverflowError, match=r"5704 tokens.*4096.*context=8192"):
        await completed(LlamaEngine(Server({"error": error})))


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (({"error": {"code": 500, "message": "out\nof luck"}},), "out of luck"),
        ((text("So"), RuntimeError("it broke")), "it broke"),
        ((text("So"),), "stopped without saying why"),
        ((), "stopped without saying why"),
    ],
)
async def test_a_failure_is_a_model_error(chunks: tuple[Any, ...], problem: str) -> None:
    """In one line, with what to do."""
    with pytest.raises(ModelError, match=problem) as caught:
        await completed(LlamaEngine(Server(*chunks)))
    assert type(caught.value) is ModelError
    assert caught.value.remedy
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("chunk", [text("word"), READING], ids=["writing", "reading"])
async def test_closing_stops_the_model_at_its_next_step(chunk: dict[str, Any]) -> None:
    """While it writes, and while it still reads the prompt."""
    gate = threading.Semaphore(0)
    server = Server(text("first"), *[chunk] * 1000, gate=gate)
    engine = LlamaEngine(server)
    items = engine.complete(Completion("x"))
    gate.release()
    assert await anext(items) == Chunk("first")
    await items.aclose()
    gate.release(1000)
    assert await asyncio.to_thread(server.ended.wait, 10)
    assert server.handed <= 2


async def test_a_cancelled_task_stops_the_model() -> None:
    """The same, from without."""
    gate = threading.Semaphore(0)
    server = Server(*[READING] * 1000, gate=gate)
    task = asyncio.create_task(completed(LlamaEngine(server)))
    assert await asyncio.to_thread(server.begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.release(1000)
    assert await asyncio.to_thread(server.ended.wait, 10)
    assert server.handed <= 1


async def test_the_event_loop_continues_meanwhile() -> None:
    """The model has a thread of its own."""
    gate = threading.Semaphore(0)
    engine = LlamaEngine(Server(text("late"), text("", "stop"), gate=gate))
    task = asyncio.create_task(completed(engine))
    await asyncio.sleep(0.01)
    assert not task.done()
    gate.release(2)
    assert await task == [Chunk("late"), Done()]


async def test_several_runs_may_ask_at_once() -> None:
    """Each gets its own answer."""
    engine = LlamaEngine(Server(text("a"), text("", "stop")))
    answers = await asyncio.gather(*(completed(engine) for _ in range(5)))
    assert answers == [[Chunk("a"), Done()]] * 5


def test_it_is_asked_from_one_event_loop_after_another() -> None:
    """As `run_sync` does."""
    engine = LlamaEngine(Server(text("a"), text("", "stop")))
    for _ in range(3):
        assert asyncio.run(completed(engine)) == [Chunk("a"), Done()]


async def test_a_closed_engine_is_closed() -> None:
    """The request ends, the server stops, and a new request is an error that says what to do."""
    server = Server(*[text("word")] * 1000, text("", "stop"))
    server.gate = threading.Semaphore(1)
    engine = LlamaEngine(server)
    items = engine.complete(Completion("x"))
    await anext(items)
    server.gate.release(1000)
    await engine.aclose()
    assert server.ended.is_set()
    await engine.aclose()
    await items.aclose()
    with pytest.raises(ModelError, match=r"is closed\. Make a new provider"):
        await completed(engine)


@pytest.mark.parametrize(("processors", "threads"), [(1, 1), (2, 1), (4, 3), (64, 8)])
def test_a_processor_is_left_for_the_rest(
    monkeypatch: pytest.MonkeyPatch, processors: int, threads: int
) -> None:
    """With all of them busy, generation collapses."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    started: list[int] = []
    monkeypatch.setattr(
        "hookline.providers.local.engine._start_server",
        lambda path, threads, context: started.append(threads) or Server(),
    )
    LlamaEngine.load(Path("x.gguf"))
    LlamaEngine.load(Path("x.gguf"), threads=5)
    assert started == [threads, 5]
