"""Models in memory: each is loaded once, however many agents use it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from pathlib import Path

from hookline.errors import ModelNotFoundError
from hookline.providers.local.llama import LlamaEngine
from hookline.providers.local.weights import DEFAULT, KNOWN, ProgressBar, Weights, ensure, known

NOTICE = f"local: {DEFAULT.title} is a small demonstration model: it shows how an agent runs, and is often wrong."
_MAGIC = b"GGUF"
_PATIENCE = 10.0
"""Seconds in which a model is loaded."""
_log = logging.getLogger(__name__)
_loading = threading.Lock()
_loaded: weakref.WeakValueDictionary[tuple[Path, int | None, int], LlamaEngine] = (
    weakref.WeakValueDictionary()
)
"""By file and settings, for as long as somebody holds it."""


def loaded(model: str, threads: int | None, context: int, stop: threading.Event) -> LlamaEngine:
    """The model of that name or path, loaded. The first time this takes a while; `stop` ends a fetch."""
    weights = None if _is_path(model) else known(model)
    path = weights.path if weights else Path(model).expanduser().absolute()
    with _loading:
        engine = _loaded.get((path, threads, context))
        if engine is None:
            if weights is not None:
                _fetched(weights, stop)
            else:
                _check(path)
            engine = LlamaEngine.load(path, threads=threads, context=context)
            _loaded[path, threads, context] = engine
            if weights is DEFAULT:
                _log.warning("%s", NOTICE)
        return engine


@atexit.register
def _await_loading() -> None:
    """A thread that is inside llama.cpp when the interpreter ends would take the process down with it."""
    if _loading.acquire(timeout=_PATIENCE):
        _loading.release()


def _is_path(model: str) -> bool:
    """Whether a model is named by its file."""
    return model not in KNOWN and (model.endswith(".gguf") or "/" in model or os.sep in model)


def _fetched(weights: Weights, stop: threading.Event) -> None:
    if not weights.is_here:
        _log.info("local: fetching %s, once, into %s", weights.title, weights.path.parent)
    bar = ProgressBar(f"fetching {weights.title}")
    try:
        ensure(weights, progress=bar, stop=stop)
    finally:
        bar.end()


def _check(path: Path) -> None:
    try:
        with path.open("rb") as file:
            is_model = file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise ModelNotFoundError(
            f"local: the model '{path}' cannot be read: {error.strerror}.",
            remedy="Give the path of a GGUF file, or `local:` alone for the model that comes along.",
        ) from None
    if not is_model:
        raise ModelNotFoundError(
            f"local: '{path}' is not a GGUF file.", remedy="Give the path of one."
        )
