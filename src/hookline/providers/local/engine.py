"""What completes a prompt: llama.cpp in this process, or whatever stands in for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from hookline._aio import call_in_thread
from hookline.errors import ContextOverflowError, ModelError, ModelNotFoundError


class Completion(msgspec.Struct, frozen=True):
    """A prompt to be completed, and how."""

    prompt: str
    grammar: str = ""
    """What the text may look like, in llama.cpp's notation. Empty: anything."""
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    """Texts that end the completion; they are not part of it."""
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    repeat_penalty: float = 1.0
    """Above one: words that were said lately become less likely, so that a small model does not go round in circles."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the text."""

    text: str


class Done(msgspec.Struct, frozen=True, gc=False):
    """The end of a completion, and what it took."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens: those that had been read before."""
    is_cut: bool = False
    """Whether it ended because `max_tokens` were used up."""


@runtime_checkable
class CompletionEngine(Protocol):
    """A loaded model. It is asked from any event loop, and by several runs at once; it may take them in turn."""

    def complete(self, completion: Completion) -> AsyncGenerator[Chunk | Done, None]:
        """Complete a prompt; the last item is `Done`. Closing the generator stops the model.

        Failures are raised as ModelError.
        """
        ...

    async def aclose(self) -> None:
        """Stop, and give the memory back."""
        ...


# --- llama.cpp inside this process ---------------------------------------------------------------

_BATCH = 32
"""Tokens read at a time. A prompt that is given up is noticed after each batch; larger ones are not faster."""
_CACHE_MIB = 256
"""Memory for prompts that were read and then displaced by others."""


_MOST_THREADS = 8
_LONGEST_STOP = 10.0
"""Seconds in which a generation that was stopped has ended; it takes far less."""


_Item: TypeAlias = Chunk | Done | ModelError


class LlamaServer(Protocol):
    """What we use of `xllamacpp.Server`."""

    def handle_completions(
        self, body: dict[str, Any], callback: Callable[[dict[str, Any]], bool], /
    ) -> object:
        """Complete, handing each chunk to the callback, until it is done or the callback says True."""
        ...


class LlamaEngine:
    """A model in this process. Prompts are read in a thread; what was read stays read for the next prompt."""

    def __init__(self, server: LlamaServer) -> None:
        self._server: LlamaServer | None = server
        self._running: set[_Generation] = set()
        # A thread that is inside llama.cpp when the interpreter ends would take the process down with it.
        self._at_exit = weakref.finalize(self, _end_all, self._running)

    @classmethod
    def load(cls, path: Path, *, threads: int | None = None, context: int = 4096) -> LlamaEngine:
        """Load a model from a GGUF file. This takes a while, and blocks."""
        return cls(_start_server(path, threads or _spare_processors(), context))

    async def complete(self, completion: Completion) -> AsyncGenerator[Chunk | Done, None]:
        """Complete a prompt; see CompletionEngine."""
        server = self._server
        if server is None:
            raise ModelError("local: the model is closed.", remedy="Make a new provider.")
        generation = _Generation(asyncio.get_running_loop(), _body(completion))
        self._running.add(generation)
        generation.start(server, self._running.discard)
        try:
            while True:
                item = await generation.items.get()
                if isinstance(item, ModelError):
                    raise item
                yield item
                if isinstance(item, Done):
                    return
        finally:
            generation.stop()

    async def aclose(self) -> None:
        """Stop what runs, and give the memory back."""
        server, self._server = self._server, None
        if server is None:
            return
        await call_in_thread(_end_all, self._running)
        self._at_exit.detach()
        holder = [server]
        del server
        await call_in_thread(holder.clear)  # the last reference: llama.cpp's threads end here


class _Generation:
    """One completion, running in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, body: dict[str, Any]) -> None:
        self.items: asyncio.Queue[_Item] = asyncio.Queue()
        self.ended = threading.Event()
        self._loop = loop
        self._body = body
        self._stopped = threading.Event()
        self._is_over = False

    def start(self, server: LlamaServer, at_end: Callable[[_Generation], None]) -> None:
        """Begin, in a thread that does not keep the interpreter from ending."""
        threading.Thread(
            target=self._run, args=(server, at_end), name="hookline:local", daemon=True
        ).start()

    def stop(self) -> None:
        """Have it end with the token, or the batch of the prompt, that it is at."""
        self._stopped.set()

    def _run(self, server: LlamaServer, at_end: Callable[[_Generation], None]) -> None:
        try:
            server.handle_completions(self._body, self._pass_on)
            if not self._is_over and not self._stopped.is_set():
                self._put(_broken_error("it stopped without saying why"))
        except Exception as error:
            self._put(_broken_error(str(error)))
        finally:
            del server
            self.ended.set()
            at_end(self)

    def _pass_on(self, data: dict[str, Any]) -> bool:
        """Pass a chunk of llama.cpp's on. True stops the model; an exception here would be lost."""
        if not self._stopped.is_set() and not self._is_over:
            for item in _items(data):
                self._is_over = not isinstance(item, Chunk)
                self._put(item)
        return self._stopped.is_set()

    def _put(self, item: _Item) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this
            self._loop.call_soon_threadsafe(self.items.put_nowait, item)


def _items(data: dict[str, Any]) -> Iterator[_Item]:
    """What a chunk says; nothing for one that says how far the prompt is read."""
    if "error" in data:
        yield _failure(data["error"])
        return
    choice = (data.get("choices") or [{}])[0]
    if choice.get("text"):
        yield Chunk(choice["text"])
    if choice.get("finish_reason"):
        usage = data.get("usage") or {}
        yield Done(
            input_tokens=usage.get("prompt_tokens", 0),
            output_tokens=usage.get("completion_tokens", 0),
            cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
            is_cut=choice["finish_reason"] == "length",
        )


def _body(completion: Completion) -> dict[str, Any]:
    body = {
        **msgspec.structs.asdict(completion),
        "stop": list(completion.stop),
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        # Something to answer "stop" to while a long prompt is being read.
        "return_progress": True,
    }
    if not completion.grammar:
        del body["grammar"]
    return body


def _failure(error: dict[str, Any]) -> ModelError:
    message = " ".join(str(error.get("message", error)).split())
    if error.get("type") == "exceed_context_size_error":
        return ContextOverflowError(
            f"local: the prompt has {error.get('n_prompt_tokens')} tokens, and the model was loaded with space "
            f"for {error.get('n_ctx')}.",
            remedy="Shorten the conversation, or give the model more space, for example context=8192.",
        )
    return _broken_error(message)


def _broken_error(problem: str) -> ModelError:
    return ModelError(
        f"local: the model failed: {problem.rstrip('.')}.",
        remedy="Try again; if it stays, fetch the model again or use another.",
    )


def _end_all(running: set[_Generation]) -> None:
    """Stop what runs, and wait until it has."""
    ending = tuple(running)
    for generation in ending:
        generation.stop()
    for generation in ending:
        generation.ended.wait(_LONGEST_STOP)


def _spare_processors() -> int:
    """One is left for everything else: with all of them busy, generation collapses. Many do not help a small model."""
    usable = getattr(os, "sched_getaffinity", None)
    count = len(usable(0)) if usable else os.cpu_count() or 2
    return max(1, min(_MOST_THREADS, count - 1))


def _start_server(path: Path, threads: int, context: int) -> LlamaServer:
    import xllamacpp  # type: ignore[import-untyped]  # 100 MB of machine code: not before a model is loaded

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context
    params.n_batch = params.n_ubatch = _BATCH
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = _CACHE_MIB
    params.warmup = False
    params.verbosity = -1
    # The binding always listens somewhere. Nobody must find it: a socket in a folder that is gone at once.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.endpoint_slots = params.endpoint_props = False
    with tempfile.TemporaryDirectory(prefix="hookline-") as folder:
        params.hostnames = [os.path.join(folder, "local.sock")]
        try:
            server: LlamaServer = xllamacpp.Server(params)
        except RuntimeError:
            raise ModelNotFoundError(
                f"local: '{path}' is not a model that llama.cpp can load.",
                remedy="Give the path of a whole GGUF file; `hookline model list` shows those that were fetched.",
            ) from None
    return server
