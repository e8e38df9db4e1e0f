"""What a model vendor's provider is: what it takes, what it gives, and what it must say it cannot do.

A new provider implements `Provider`, has an entry in `catalogue.py`, and passes `testing/provider_suite.py`.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from hookline.state import NO_USAGE, InferenceRequest, Usage


class Feature(enum.StrEnum):
    """What a provider may or may not be able to do. Asking for what it does not declare is an UnsupportedError."""

    TOOLS = "tool calls"
    PARALLEL_TOOLS = "several tool calls in one answer"
    TOOL_CHOICE = "a required tool"
    IMAGES = "images"
    DOCUMENTS = "documents"
    RESULT_FILES = "images and files in the results of tools"
    """It reads `ToolMessage.attachments`. For others the driver makes such a result an error that the model reads."""
    STRUCTURED_OUTPUT = "structured output"
    REASONING = "reasoning"


class TextPiece(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the answer's text."""

    text: str


class ReasoningPiece(msgspec.Struct, frozen=True, gc=False):
    """The next piece of a part of the model's thinking. Pieces with one index are one part."""

    index: int
    text: str = ""
    signature: str = ""
    kind: str = ""
    call_id: str = ""


class CallPiece(msgspec.Struct, frozen=True, gc=False):
    """The next piece of a tool call. The first piece of an index names the tool; later ones add to the arguments."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    """A piece of JSON text."""


class ProviderToolPiece(msgspec.Struct, frozen=True, gc=False):
    """A tool that the provider runs itself. Pieces with one index are about one part, and the last has all of it.

    The first comes as soon as it can: the driver hangs up if the request does not allow the tool.
    """

    index: int
    name: str
    """As it is allowed, in `request.provider_tools`."""
    data: dict[str, Any] = {}


class EndPiece(msgspec.Struct, frozen=True, gc=False):
    """The last piece: what it cost, and why the model stopped. An answer without one was cut off."""

    usage: Usage = NO_USAGE
    model: str = ""
    finish: str = ""
    """Empty when the model was done; `length` when it ran out of tokens."""


Piece: TypeAlias = TextPiece | ReasoningPiece | CallPiece | ProviderToolPiece | EndPiece


@runtime_checkable
class Provider(Protocol):
    """The connection to one vendor's models: its protocol and its errors. Turns, hooks and retries are not its task.

    Every failure is raised as one of the ModelError classes, with a remedy and never with a key in it. Nothing
    is retried here: the error policy decides that, in one place for all providers. An answer that was counted, and
    is an error all the same, says what it used in the `usage` of that error.
    """

    @property
    def name(self) -> str:
        """The part before the colon in `provider:model`."""
        ...

    @property
    def features(self) -> frozenset[Feature]:
        """What it can do."""
        ...

    def ask(self, request: InferenceRequest, *, streamed: bool) -> AsyncGenerator[Piece, None]:
        """Ask the model named by `request.model`. Closing the generator closes the connection at once.

        `streamed` says whether somebody reads along; if nobody does, one request and one answer will do, and
        the pieces are whole parts.
        """
        ...

    async def aclose(self) -> None:
        """Give back what it holds: connections, memory."""
        ...
