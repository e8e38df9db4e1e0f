"""A model in your own process: no key, and after the first fetch no network."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hookline._aio import call_in_thread
from hookline.errors import BuildError, MalformedResponseError
from hookline.providers.base import EndPiece, Feature, Piece
from hookline.providers.local.asking import Asking
from hookline.providers.local.engine import CompletionEngine, Done
from hookline.providers.local.loading import NOTICE, loaded
from hookline.providers.local.weights import DEFAULT
from hookline.state import InferenceRequest, Usage

_FEATURES = frozenset({Feature.TOOLS, Feature.TOOL_CHOICE, Feature.STRUCTURED_OUTPUT})


class LocalProvider:
    """Models that run here: `local:` is a small one that is fetched once, `local:/path.gguf` any other.

    `threads` is one less than there are processors, and at most eight, unless it is given; `context` is how many
    tokens a conversation may have, episodes and tools included. With an `engine` of your own nothing is loaded or
    fetched.
    """

    notice = NOTICE
    """What whoever uses the default model should know. It is logged when that is loaded."""

    def __init__(
        self,
        *,
        threads: int | None = None,
        context: int = 4096,
        engine: CompletionEngine | None = None,
    ) -> None:
        for name, value in (("threads", threads), ("context", context)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise BuildError(f"local: {name}={value!r} is not a whole number above zero.")
        if engine is None and importlib.util.find_spec("xllamacpp") is None:
            raise BuildError(
                "provider 'local' needs the package 'xllamacpp', which is not installed.",
                remedy='Run: pip install "hookline[local]".',
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
        asking = Asking(request, is_small=is_small)
        engine = await self._engine_for(request.model)
        unread, end = "", None
        async with aclosing(engine.complete(asking.completion)) as items:
            async for item in items:
                if isinstance(item, Done):
                    end = item
                    break
                unread += item.text
                if streamed:
                    for piece in asking.feed(unread):
                        yield piece
                    unread = ""
        if end is None:
            raise MalformedResponseError(
                "local: the answer has no end.", remedy="Try again, or use another engine."
            )
        for piece in (*asking.feed(unread), *asking.end(is_cut=end.is_cut)):
            yield piece
        usage = Usage(end.input_tokens, end.output_tokens, 1, 0.0, 0, end.cached_tokens)
        yield EndPiece(usage, request.model or DEFAULT.name, "length" if end.is_cut else "")

    async def aclose(self) -> None:
        """Give the memory of the models back, unless another provider uses them too. An engine of yours is yours."""
        held = [self._held]
        self._held = {}
        await call_in_thread(held.clear)

    async def _engine_for(self, model: str) -> CompletionEngine:
        if self._engine is not None:
            return self._engine
        if model not in self._held:
            stop = threading.Event()
            try:
                found = await call_in_thread(loaded, model, self._threads, self._context, stop)
            finally:
                stop.set()
            self._held[model] = found
        return self._held[model]
