"""Models that run in your own process, on llama.cpp. The default one is fetched once, and needs no key."""

from hookline.providers.local.engine import Chunk, Completion, CompletionEngine, Done
from hookline.providers.local.provider import LocalProvider

__all__ = ["Chunk", "Completion", "CompletionEngine", "Done", "LocalProvider"]
