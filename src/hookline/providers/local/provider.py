"""A model in your own process: no key, and after the first fetch no network."""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from hookline._aio import call_in_thread
from hookline.errors import BuildError, MalformedResponseError, ModelNotFoundError
from hookline.extras import install_command
from hookline.option_checks import check_count
from hookline.providers.base import EndPiece, Feature, Piece
from hookline.providers.local.engine import CompletionEngine, Done, LlamaEngine
from hookline.providers.local.request import LocalRequest
from hookline.providers.local.weights import (
    DEFAULT,
    KNOWN,
    ProgressBar,
    Weights,
    ensure,
    find_weights,
    is_gguf,
)
from hookline.state import InferenceRequest, Usage

_FEATURES = frozenset({Feature.TOOLS, Feature.TOOL_CHOICE, Feature.STRUCTURED_OUTPUT})


class LocalProvider:
    """Models that run here: `local:` is a small one that is fetched once, `local:/path.gguf` any other.

    `threads` is one less than there are processors, and at most eight, unless it is given; `context` is how many
    tokens a conversation may have, examples and tools included. With an `engine` of your own nothing is loaded or
    fetched.
    """

    notice = f"local: {DEFAULT.title} is a small demonstration model: it shows how an agent runs, and is often wrong."
    """What users of the default model should know. It is logged when that model is loaded."""

    def __init__(
        self,
        *,
        threads: int | None = None,
        context: int = 4096,
        engine: CompletionEngine | None = None,
    ) -> None:
        for name, value in (("threads", threads), ("context", context)):
            if value is not None:
                check_count("local", name, value)
        if engine is None and importlib.util.find_spec("xllamacpp") is None:
            raise BuildError(
                "provider 'local' needs the package 'xllamacpp', which is not installed.",
                remedy=f"Run: {install_command('local')}",
            )
        self._threads = threads
        self._context = context
        self._engine = engine
        self._held: dict[str, CompletionEngine] = {}

    def __repr__(self) -> str:
        return f"LocalProvider(context={self._context})"

    @property
    def name(self) -> str:
        """The part before the colon in `local:NAME`."""
        return "local"

    @property
    def features(self) -> frozenset[Feature]:
        """One call at a time, and answers of a given form: what a grammar can ensure."""
        return _FEATURES

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider."""
        is_small = self._engine is None and request.model in ("", DEFAULT.name)
        local = LocalRequest(request, is_small=is_small)
        engine = await self._engine_for(request.model)
        unread, end = "", None
        async with aclosing(engine.complete(local.completion)) as items:
            async for item in items:
                if isinstance(item, Done):
                    end = item
                    break
                unread += item.text
                if streamed:
                    for piece in local.feed(unread):
                        yield piece
                    unread = ""
        if end is None:
            raise MalformedResponseError(
                "local: the answer has no end.", remedy="Try again, or use another engine."
            )
        for piece in (*local.feed(unread), *local.end(is_cut=end.is_cut)):
            yield piece
        usage = Usage(
            input_tokens=end.input_tokens,
            output_tokens=end.output_tokens,
            requests=1,
            cost=0.0,
            cache_read_tokens=end.cached_tokens,
        )
        yield EndPiece(usage, request.model or DEFAULT.name, "length" if end.is_cut else "")

    async def aclose(self) -> None:
        """Free the memory of the models, unless another provider uses them too. An engine of yours is yours."""
        held = [self._held]
        self._held = {}
        await call_in_thread(held.clear)

    async def _engine_for(self, model: str) -> CompletionEngine:
        if self._engine is not None:
            return self._engine
        if model not in self._held:
            stop = threading.Event()
            try:
                engine = await call_in_thread(
                    load_engine, model, self._threads, self._context, stop
                )
            finally:
                stop.set()
            self._held[model] = engine
        return self._held[model]


# --- models in memory: each is loaded once, however many agents use it ------------------------------

_LONGEST_LOAD = 10.0
"""Seconds in which a model is loaded."""
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_engines: weakref.WeakValueDictionary[tuple[Path, int | None, int], LlamaEngine] = (
    weakref.WeakValueDictionary()
)


def load_engine(
    model: str, threads: int | None, context: int, stop: threading.Event
) -> LlamaEngine:
    """The model of that name or path, loaded. The first time this takes a while; `stop` ends a fetch."""
    is_path = model not in KNOWN and (model.endswith(".gguf") or "/" in model or os.sep in model)
    weights = None if is_path else find_weights(model)
    path = weights.path if weights else Path(model).expanduser().absolute()
    with _lock:
        engine = _engines.get((path, threads, context))
        if engine is None:
            if weights is not None:
                _fetch(weights, stop)
            else:
                _check_file(path)
            engine = LlamaEngine.load(path, threads=threads, context=context)
            _engines[path, threads, context] = engine
            if weights is DEFAULT:
                # The command shows a user such a notice once.
                _log.warning("%s", LocalProvider.notice, extra={"is_once": True})
        return engine


@atexit.register
def _wait_for_load() -> None:
    """A thread that is inside llama.cpp when the interpreter ends would crash the process."""
    if _lock.acquire(timeout=_LONGEST_LOAD):
        _lock.release()


def _fetch(weights: Weights, stop: threading.Event) -> None:
    if not weights.is_here:
        _log.info("local: fetching %s, once, into %s", weights.title, weights.path.parent)
    bar = ProgressBar(f"fetching {weights.title}")
    try:
        ensure(weights, progress=bar, stop=stop)
    finally:
        bar.end()


def _check_file(path: Path) -> None:
    try:
        is_model = is_gguf(path)
    except OSError as error:
        raise ModelNotFoundError(
            f"local: the model '{path}' cannot be read: {error.strerror}.",
            remedy="Give the path of a GGUF file, or `local:` alone for the default model.",
        ) from None
    if not is_model:
        raise ModelNotFoundError(
            f"local: '{path}' is not a GGUF file.", remedy="Give the path of one."
        )
