"""What completes a prompt: a model in this process, or whatever stands in for one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, runtime_checkable

import msgspec


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
