"""Who carries a provider's requests when that is not the network alone: a recording of them, say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import httpx2

from hookline.errors import BuildError


@runtime_checkable
class Carrier(Protocol):
    """Carries requests in place of the network, or on the way to it."""

    @property
    def needs_key(self) -> bool:
        """Whether requests reach a far end that wants to see a key."""
        ...

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A transport for a new client, which will close it."""
        ...


_in_force: list[Carrier] = []
# Not a ContextVar: what a test sets up in a fixture must hold in the task and the threads that the test runs in.


@contextmanager
def carried_by(carrier: Carrier) -> Iterator[None]:
    """Within it, everything that providers of this process ask goes through the carrier, unless they have their own."""
    _in_force.append(carrier)
    try:
        yield
    finally:
        _in_force.remove(carrier)


def carrier_in_force() -> Carrier | None:
    """The carrier that was put in force last."""
    return _in_force[-1] if _in_force else None


def checked(carrier: Carrier | None) -> Carrier | None:
    """Refuse what cannot carry anything."""
    if carrier is not None and (isinstance(carrier, type) or not isinstance(carrier, Carrier)):
        raise BuildError(
            f"{carrier!r} is not a cassette.", remedy="Pass hookline.testing.Cassette(FILE)."
        )
    return carrier


def needs_key(own: Carrier | None) -> bool:
    """Whether a provider with this carrier, or none, has to have a key."""
    carrier = own or carrier_in_force()
    return carrier is None or carrier.needs_key


def transport_of(own: Carrier | None) -> httpx2.AsyncBaseTransport | None:
    """The transport for a new client of a provider with this carrier; None is the network."""
    carrier = own or carrier_in_force()
    return None if carrier is None else carrier.transport()
