"""What the providers over HTTP have in common: what they are set to, and a client for each event loop."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import httpx2

from hookline.errors import ModelError
from hookline.providers.base import Feature
from hookline.providers.carriers import Carrier, checked, needs_key, transport_of
from hookline.providers.clients import PerLoop
from hookline.providers.failures import missing_key, origin, transport_failure
from hookline.providers.proxies import check_way
from hookline.providers.settings import check_address, check_settings

CONNECT_TIMEOUT = 10.0
"""Seconds to reach a host. One that cannot be reached is known long before a model is slow."""

T = TypeVar("T")


class HTTPProvider(ABC, Generic[T]):
    """A provider over an official client (T). It says where its service is and how its client is made."""

    _name: ClassVar[str]
    _home: ClassVar[str]
    """The address of the service itself."""
    _address_variable: ClassVar[str]
    """Where another address is found in the environment."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        cassette: Carrier | None = None,
    ) -> None:
        check_settings(
            self._name, api_key=api_key, base_url=base_url, timeout=timeout, headers=headers
        )
        self._carrier = checked(cassette)
        self._url = (base_url or os.environ.get(self._address_variable) or self._home).strip()
        check_address(self._name, self._url)
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._key = self._find_key(api_key)
        self._clients = PerLoop(self._connect, self._close_client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={origin(self._url)!r})"

    @property
    def name(self) -> str:
        """The part before the colon in `provider:model`."""
        return self._name

    @property
    def features(self) -> frozenset[Feature]:
        """Everything the protocol can say. Whether a model can do it, the far end will tell."""
        return frozenset(Feature)

    async def aclose(self) -> None:
        """Close the connections of the loop we are in."""
        await self._clients.aclose()

    @abstractmethod
    def _find_key(self, given: str | None) -> str:
        """The key to send: the one that was given, or found; empty where none is needed."""

    @abstractmethod
    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> T:
        """A client for the event loop we are in; without a transport it takes the network."""

    @abstractmethod
    async def _close_client(self, client: T) -> None:
        """Close what `_make_client` made."""

    @property
    def _is_home(self) -> bool:
        """Whether it talks to the service itself, rather than to a server of somebody else's."""
        return origin(self._url) == origin(self._home)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self._key, *self._headers.values())

    def _has_header(self, *names: str) -> bool:
        return any(name.lower() in names for name in self._headers)

    def _require_key(self, variable: str) -> None:
        """Refuse to go on without a key where the service itself is asked; `variable` is where one would be found."""
        if self._is_home and needs_key(self._carrier):
            raise missing_key(self._name, variable)

    def _connect(self) -> T:
        transport = transport_of(self._carrier)
        if transport is None:
            check_way(self._name)
        return self._make_client(transport)

    def _transport_failure(self, error: Exception) -> ModelError:
        return transport_failure(error, provider=self._name, url=self._url, timeout=self._timeout)
