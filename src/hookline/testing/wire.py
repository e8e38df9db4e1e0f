"""The server of a provider, scripted: what a provider's author supplies to the conformance suite."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    ContentFilterError,
    ContextOverflowError,
    MalformedResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    RefusalError,
)
from hookline.providers import Provider
from hookline.state import EMPTY


class Failure(enum.StrEnum):
    """A way for the server to fail, in the provider's own terms: its status codes, its error bodies."""

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"
    BAD_KEY = "bad_key"
    UNKNOWN_MODEL = "unknown_model"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    """The answer takes longer than the provider waits: such a turn is played to a provider with a short timeout."""
    CUT = "cut"
    """The connection is closed in the middle of the answer."""
    MALFORMED = "malformed"
    """A chunk (or the whole body) is not what the protocol says."""
    SILENCE = "silence"
    """The request is taken and no answer comes, until the other side hangs up."""


ERRORS: dict[Failure, type[ModelError]] = {
    Failure.RATE_LIMIT: RateLimitError,
    Failure.OVERLOADED: OverloadedError,
    Failure.REFUSAL: RefusalError,
    Failure.CONTENT_FILTER: ContentFilterError,
    Failure.CONTEXT_OVERFLOW: ContextOverflowError,
    Failure.BAD_KEY: AuthenticationError,
    Failure.UNKNOWN_MODEL: ModelNotFoundError,
    Failure.SERVER_ERROR: OverloadedError,
    Failure.TIMEOUT: ModelTimeoutError,
    Failure.CUT: ConnectionLostError,
    Failure.MALFORMED: MalformedResponseError,
}
"""The class that each failure of a server must be raised as; SILENCE is for the cases that cancel."""


class WireCall(msgspec.Struct, frozen=True):
    """A tool call in the scripted answer. `raw` is sent instead of `args` where a model writes broken JSON."""

    name: str
    args: dict[str, Any] = EMPTY
    raw: str = ""


class WireTurn(msgspec.Struct, frozen=True):
    """One answer of the server. In a stream, text and arguments come in several chunks."""

    text: str = ""
    calls: tuple[WireCall, ...] = ()
    reasoning: str = ""
    input_tokens: int = 10
    output_tokens: int = 5
    failure: Failure | None = None
    retry_after: float | None = None


class Wire(Protocol):
    """How a provider is tested: its server plays turns, and keeps what it was sent.

    `provider(turns)` starts the server and gives a provider that talks to it; afterwards both are closed.
    """

    @property
    def failures(self) -> frozenset[Failure]:
        """The failures this protocol knows. The suite tests those."""
        ...

    @property
    def model(self) -> str:
        """A model name the server knows."""
        ...

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The bodies of the requests that arrived, decoded, in order; with the model, wherever it was named."""
        ...

    @property
    def marks_failed_calls(self) -> bool:
        """Whether this protocol has a mark for the result of a call that failed. If not, its text has to do."""
        ...

    @property
    def hung_up(self) -> bool:
        """Whether the provider closed a connection before its answer was over."""
        ...

    def provider(self, turns: Sequence[WireTurn]) -> AbstractAsyncContextManager[Provider]:
        """A provider connected to a server that plays these turns."""
        ...
