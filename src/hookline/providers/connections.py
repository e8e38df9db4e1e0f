"""The way to a provider's server: proxies and certificates from the environment, and what fails on it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from hookline.errors import BuildError, ConnectionLostError, ModelError, ModelTimeoutError
from hookline.providers.failures import origin

_SCHEMES = ("http", "https", "all")
_CERTIFICATES = "SSL_CERT_FILE"
_BEFORE_THE_HOST = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
"""What fails on the way to a host. With a proxy, it is the proxy that was not reached."""


def proxy_for(url: str) -> str:
    """The proxy on the way to this address; empty when there is none."""
    parts = urlsplit(url)
    proxies = _proxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return "" if not proxy or proxy_bypass(parts.hostname or "") else proxy


def check_environment(provider: str) -> None:
    """Refuse a proxy or certificates that the HTTP client would fail over without naming the variable."""
    for scheme, proxy in _proxies().items():
        if problem := _proxy_problem(proxy):
            raise _wrong_variable(provider, f"the proxy in {scheme.upper()}_PROXY {problem}")
    file = os.environ.get(_CERTIFICATES)
    problem = ""
    try:
        if file:
            ssl.create_default_context(cafile=file)
    except OSError:
        problem = f"{_CERTIFICATES} is '{file}', and certificates cannot be read there"
    if problem:
        raise _wrong_variable(provider, problem)


def _wrong_variable(provider: str, problem: str) -> ModelError:
    return ModelError(
        f"{provider}: in the environment, {problem}.",
        remedy="Correct the variable, or take it out of the environment.",
    )


def _proxies() -> dict[str, str]:
    found = getproxies()
    named = {scheme: found[scheme] for scheme in _SCHEMES if found.get(scheme)}
    return {name: url if "://" in url else f"http://{url}" for name, url in named.items()}


def _proxy_problem(proxy: str) -> str:
    """What is wrong with a proxy. Its address is not shown: there may be a password in it."""
    try:
        scheme = httpx2.Proxy(proxy).url.scheme
    except (ValueError, httpx2.InvalidURL):
        return "is not the address of one: http://, https:// or socks5://, a host and a port"
    if scheme.startswith("socks") and find_spec("socksio") is None:
        return "speaks SOCKS, and the package 'socksio' for that is not installed"
    return ""


def transport_failure(
    error: BaseException, *, provider: str, url: str, timeout: float, proxy: str = ""
) -> ModelError:
    """The error for a request that got no answer, or only a part of one; the causes of `error` say which."""
    causes = tuple(_causes(error))
    for cause in causes:
        if isinstance(cause, ModelError):  # the transport knows better than we do
            return cause

    def is_due_to(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    server = origin(url)
    if proxy and is_due_to(*_BEFORE_THE_HOST) and not is_due_to(ssl.SSLError):
        return ConnectionLostError(
            f"{provider}: the proxy {origin(proxy)}, on the way to {server}, cannot be used.",
            remedy="Check it, or take it out of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY).",
        )
    for kinds, problem, remedy in _PROBLEMS:
        if is_due_to(*kinds):
            return ConnectionLostError(f"{provider}: {server} {problem}.", remedy=remedy)
    if is_due_to(httpx2.TimeoutException, TimeoutError):
        return ModelTimeoutError(
            f"{provider}: nothing came from {server} for {timeout:g} seconds.",
            remedy="Try again, or give the provider a longer timeout.",
        )
    return ConnectionLostError(
        f"{provider}: {server} closed the connection before the end of its answer.",
        remedy="Try again.",
    )


_PROBLEMS: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    (
        (socket.gaierror,),
        "has no network address",
        "Check the host's name and the network, or correct base_url.",
    ),
    (
        (ConnectionRefusedError,),
        "takes no connections",
        "Start the server there, or correct base_url.",
    ),
    (
        (ssl.SSLCertVerificationError,),
        "has no certificate that is trusted here",
        "Check it, or correct base_url.",
    ),
    (
        (ssl.SSLError,),
        "does not speak TLS, or a version that is not supported",
        "Write http:// in base_url if it has none.",
    ),
    (
        (httpx2.ConnectTimeout, httpx2.ConnectError),
        "cannot be reached",
        "Check the network and any proxy, or correct base_url.",
    ),
)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what is beneath it: raised from, or wrapped into it.

    What was merely being handled at the time (`__context__`) may belong to another attempt.
    """
    while error is not None:
        yield error
        wrapped = error.exceptions if isinstance(error, BaseExceptionGroup) else error.args
        for member in wrapped:
            if isinstance(member, BaseException):
                yield from _causes(member)
        error = error.__cause__


# --- what carries requests, and one client for each event loop -----------------------------------

T = TypeVar("T")


@runtime_checkable
class TransportSource(Protocol):
    """Makes transports that carry requests in place of the network, or on the way to it. A cassette is one."""

    @property
    def needs_key(self) -> bool:
        """Whether requests reach a server that wants to see a key."""
        ...

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A transport for a new client, which will close it."""
        ...


_sources: list[TransportSource] = []
# Not a ContextVar: what a test sets up in a fixture must hold in the task and the threads that the test runs in.


@contextmanager
def use_source(source: TransportSource) -> Iterator[None]:
    """In the block all providers of this process send through the source, unless they have their own."""
    _sources.append(source)
    try:
        yield
    finally:
        _sources.remove(source)


def current_source(own: TransportSource | None = None) -> TransportSource | None:
    """A provider's own source, else that of the innermost block; None is the network."""
    return own or (_sources[-1] if _sources else None)


def check_source(source: TransportSource | None) -> TransportSource | None:
    """Refuse what cannot make transports."""
    is_source = isinstance(source, TransportSource) and not isinstance(source, type)
    if source is not None and not is_source:
        raise BuildError(
            f"{source!r} is not a cassette.", remedy="Pass hookline.testing.Cassette(FILE)."
        )
    return source


class _Held(NamedTuple, Generic[T]):
    client: T
    guard: AsyncGenerator[None, None]


class LoopClients(Generic[T]):
    """The client for the running event loop, made when it is first needed there.

    A connection belongs to the loop it was opened in, and every `run_sync` starts a loop of its own: with one client
    for all of them, the second run would find the dead connections of the first.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._held: dict[tuple[asyncio.AbstractEventLoop, TransportSource | None], _Held[T]] = {}

    async def get(self) -> T:
        """The client of this loop. It is closed when the loop ends, or by `aclose` before that."""
        key = (asyncio.get_running_loop(), current_source())
        held = self._held.get(key)
        if held is None:
            for ended in [other for other in tuple(self._held) if other[0].is_closed()]:
                self._held.pop(ended, None)
            client = self._make()
            held = self._held[key] = _Held(client, self._guard(client))
            await anext(held.guard)
        return held.client

    async def aclose(self) -> None:
        """Close the client of this loop. Those of other loops are closed when their loops end."""
        loop = asyncio.get_running_loop()
        for key in [each for each in tuple(self._held) if each[0] is loop]:
            held = self._held.pop(key, None)
            if held is not None:
                await held.guard.aclose()

    async def _guard(self, client: T) -> AsyncGenerator[None, None]:
        # A loop announces its end to nobody, except the generators that were started in it: it closes those.
        try:
            yield
        finally:
            await self._close(client)
