"""What the providers over HTTP have in common: settings, a client for each event loop, streams and errors."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from math import isfinite
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from hookline.errors import BuildError, MalformedResponseError, ModelError, UnsupportedError
from hookline.providers.base import Feature
from hookline.providers.connections import (
    LoopClients,
    TransportSource,
    check_environment,
    check_source,
    current_source,
    proxy_for,
    transport_failure,
)
from hookline.providers.failures import (
    Server,
    clean_text,
    end_sentence,
    failure,
    find_key,
    missing_key,
    origin,
    read_report,
)

CONNECT_TIMEOUT = 10.0
"""Seconds to reach a host. One that cannot be reached is known long before a model is slow."""

T = TypeVar("T")


class HTTPProvider(ABC, Generic[T]):
    """A provider over an official client (T)."""

    _name: ClassVar[str]
    _home: ClassVar[str]
    """The address of the service itself."""
    _address_variable: ClassVar[str]
    """Where another address is found in the environment; empty if nowhere."""
    _key_variable: ClassVar[str]
    """Where a key belongs in the environment; empty if none is needed."""
    _key_variables: ClassVar[tuple[str, ...]]
    """Where a key is looked for."""
    _key_headers: ClassVar[tuple[str, ...]] = ("authorization",)
    """Headers that take the place of a key."""
    _models_page: ClassVar[str]
    _models_path: ClassVar[str] = "/models"
    _address_hint: ClassVar[str] = ""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        cassette: TransportSource | None = None,
    ) -> None:
        check_settings(
            self._name, api_key=api_key, base_url=base_url, timeout=timeout, headers=headers
        )
        self._source = check_source(cassette)
        self._url = (base_url or os.environ.get(self._address_variable) or self._home).strip()
        check_address(self._name, self._url)
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._key = self._find_key(api_key)
        self._clients = LoopClients(self._connect, self._close_client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={origin(self._url)!r})"

    @property
    def name(self) -> str:
        """The part before the colon in `provider:model`."""
        return self._name

    @property
    def features(self) -> frozenset[Feature]:
        """Everything the protocol can say. The server's answer shows whether a model can do it."""
        return frozenset(Feature)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.aclose()

    @abstractmethod
    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> T:
        """A client for the running event loop; without a transport it uses the network."""

    @abstractmethod
    async def _close_client(self, client: T) -> None:
        """Close what `_make_client` made."""

    def _connect(self) -> T:
        source = current_source(self._source)
        if source is None:
            check_environment(self._name)
            direct = httpx2.AsyncHTTPTransport() if self._is_direct else None
            return self._make_client(direct)
        return self._make_client(source.transport())

    def _find_key(self, given: str | None) -> str:
        """The key to send: the one that was given, or found; empty where none is needed."""
        key = find_key(self._name, given, *self._key_variables)
        source = current_source(self._source)
        needs_key = self._is_home and (source is None or source.needs_key)
        if not key and needs_key and not self._has_header(*self._key_headers):
            raise missing_key(self._name, self._key_variable)
        return key

    def _has_header(self, *names: str) -> bool:
        return any(name.lower() in names for name in self._headers)

    @property
    def _is_home(self) -> bool:
        """Whether it talks to the service itself, rather than to another server."""
        return origin(self._url) == origin(self._home)

    @property
    def _is_direct(self) -> bool:
        """Whether a proxy in the environment is left aside."""
        return False

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self._key, *self._headers.values())

    def _server(self, model: str) -> Server:
        return Server(
            provider=self._name,
            url=self._url,
            model=clean_text(model, self._secrets),
            is_home=self._is_home,
            key_variable=self._key_variable,
            models_page=self._models_page,
            models_path=self._models_path,
            address_hint=self._address_hint,
            secrets=self._secrets,
        )

    def _transport_failure(self, error: Exception) -> ModelError:
        proxy = "" if self._is_direct else proxy_for(self._url)
        return transport_failure(
            error, provider=self._name, url=self._url, timeout=self._timeout, proxy=proxy
        )

    def _malformed_error(self, problem: object) -> MalformedResponseError:
        return MalformedResponseError(
            end_sentence(
                f"{self._name}: the answer of {origin(self._url)} does not follow the protocol: "
                f"{clean_text(str(problem), self._secrets)}"
            ),
            remedy="Try again."
            if self._is_home
            else f"Check that base_url is an address of this protocol{self._address_hint}.",
        )


class GeneratedClientProvider(HTTPProvider[Any]):
    """A provider over OpenAI's or Anthropic's client: one generator writes both, and their methods are the same.

    The clients' models of the protocol are not used: they are stricter about requests and laxer about answers than
    servers and we are. Their transport, their errors and their reading of streams are what we use.
    """

    _library: ClassVar[Any]
    """The module with the client's exceptions and types."""
    _client: ClassVar[Any]
    """The class of the client."""
    _path: ClassVar[str]

    async def _events(self, body: dict[str, Any], *, streamed: bool) -> AsyncGenerator[Any, None]:
        """Post a request; the events of its answer, or the whole of it as bytes. Closing the generator hangs up."""
        client, content = await self._clients.get(), self._encode(body)
        if not streamed:
            answered = client.post(
                self._path, cast_to=httpx2.Response, content=content, options=self._options
            )
            yield (await self._translate(answered, body["model"])).content
            return
        opened = client.post(
            self._path,
            cast_to=object,
            content=content,
            options=self._options,
            stream=True,
            stream_cls=self._library.AsyncStream[object],
        )
        stream = await self._translate(opened, body["model"])
        try:
            kind = stream.response.headers.get("content-type", "")
            if kind.startswith(("text/html", "application/json")):
                raise self._malformed_error(f"a stream was asked for, and {kind} came")
            end = object()
            while (event := await self._translate(anext(stream, end), body["model"])) is not end:
                yield event
        finally:
            await stream.close()

    async def _translate(self, action: Awaitable[Any], model: str) -> Any:
        """Await what the client does, with its exceptions as ours."""
        problem: ModelError
        try:
            return await action
        except (self._library.APIError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            problem = self._failure(error, model)
        except (ValueError, TypeError, RecursionError) as error:  # no JSON, no UTF-8, or too deep
            problem = self._malformed_error(error)
        raise problem

    def _failure(self, error: Any, model: str) -> ModelError:
        if isinstance(error, self._library.APIStatusError):
            return self._reported_error(
                error.body, model, error.status_code, error.response.headers
            )
        if any(isinstance(each, httpx2.DecodingError) for each in (error, error.__cause__)):
            return self._malformed_error("it cannot be unpacked")
        connection_error = self._library.APIConnectionError
        if isinstance(error, self._library.APIError) and not isinstance(error, connection_error):
            return self._reported_error(error.body, model)
        return self._transport_failure(error)

    def _reported_error(
        self, body: object, model: str, status: int = 0, headers: Mapping[str, str] = {}
    ) -> ModelError:
        return failure(read_report(body, status, headers, self._secrets), self._server(model))

    def _encode(self, body: dict[str, Any]) -> bytes:
        try:
            return msgspec.json.encode(body)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            problem = clean_text(str(error), self._secrets)
        raise UnsupportedError(
            f"{self._name}: the request cannot be written as JSON: {problem}.",
            remedy="Give options that are JSON values.",
        )

    @property
    def _options(self) -> dict[str, Any]:
        # A redirection would take the conversation, and perhaps a key, to a host that nobody named.
        options: dict[str, Any] = {"follow_redirects": False}
        if not self._key and not self._has_header("authorization"):
            options["headers"] = {"Authorization": self._library.omit}
        return options

    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> Any:
        library = self._library
        client = None
        if transport is not None:
            client = library.DefaultAsyncHttpxClient(transport=transport)
        return self._client(
            http_client=client,
            api_key=self._key or "none",  # never sent: the header is left out of each request
            base_url=self._url,
            timeout=library.Timeout(self._timeout, connect=min(self._timeout, CONNECT_TIMEOUT)),
            max_retries=0,
            default_headers=self._client_headers,
        )

    @property
    def _client_headers(self) -> dict[str, str]:
        return self._headers

    async def _close_client(self, client: Any) -> None:
        await client.close()


# --- settings: wrong ones are errors before anything is sent ----------------------------------------

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


def check_settings(
    provider: str, *, api_key: object, base_url: object, timeout: object, headers: object
) -> None:
    """Refuse settings of the wrong kind. No value is shown that may be a secret."""
    for name, value in (("api_key", api_key), ("base_url", base_url)):
        if value is not None and not isinstance(value, str):
            raise _setting_error(
                provider, name, f"is text, not {type(value).__name__}", f'{name}="..."'
            )
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (is_number and isfinite(timeout) and timeout > 0):  # type: ignore[arg-type,operator]
        problem = f"is a number of seconds above zero, not {timeout!r}"
        raise _setting_error(provider, "timeout", problem, "timeout=60")
    example = 'headers={"X-Team": "blue"}'
    if headers is not None and not isinstance(headers, Mapping):
        problem = f"map names to values, not {type(headers).__name__}"
        raise _setting_error(provider, "headers", problem, example)
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise _setting_error(provider, "headers", f"have no such name: {name!r}", example)
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            problem = f"hold one line of plain ASCII text each, and '{name}' does not"
            raise _setting_error(provider, "headers", problem, example)


def check_address(provider: str, url: str) -> None:
    """Refuse a base_url that no request can be sent to, or with a secret in it that would be logged."""
    try:
        httpx2.URL(url)
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx2.InvalidURL):
        is_address = False
    if not is_address:
        raise BuildError(
            f"base_url '{origin(url)}' of provider '{provider}' is not an address.",
            remedy="Write it with its scheme and host, such as http://localhost:8000/v1.",
        )
    if "@" in parts.netloc:
        raise BuildError(
            f"base_url of provider '{provider}' has a user or a password in it, and addresses are logged.",
            remedy='Give them as headers={"Authorization": "Basic ..."}, or as api_key=.',
        )
    if parts.query or parts.fragment:
        raise BuildError(
            f"base_url '{origin(url)}' of provider '{provider}' has a query, which requests would lose.",
            remedy="Leave out what begins with ? or #; a key goes into api_key= or headers=.",
        )


def _setting_error(provider: str, setting: str, problem: str, example: str) -> BuildError:
    return BuildError(f"{setting} of provider '{provider}' {problem}.", remedy=f"Write {example}.")
