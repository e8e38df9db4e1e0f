from __future__ import annotations

from contextlib import suppress

import httpx2
import pytest

from hookline.errors import BuildError
from hookline.providers.carriers import (
    Carrier,
    carried_by,
    carrier_in_force,
    checked,
    needs_key,
    transport_of,
)


class Courier:
    """A carrier that is known by its transport."""

    def __init__(self, *, needs_key: bool = False) -> None:
        self.needs_key = needs_key
        self.made = httpx2.MockTransport(lambda request: httpx2.Response(200))

    def transport(self) -> httpx2.AsyncBaseTransport:
        """The one it has."""
        return self.made


def test_without_a_carrier_it_is_the_network() -> None:
    """Which wants to see a key."""
    assert carrier_in_force() is None
    assert transport_of(None) is None
    assert needs_key(None)


def test_the_carrier_of_the_innermost_block_is_in_force() -> None:
    """Until its block ends, also when it ends with an exception."""
    outer, inner = Courier(), Courier(needs_key=True)
    with carried_by(outer):
        with suppress(ZeroDivisionError), carried_by(inner):
            assert transport_of(None) is inner.made
            assert needs_key(None)
            raise ZeroDivisionError
        assert transport_of(None) is outer.made
        assert not needs_key(None)
    assert carrier_in_force() is None


def test_a_providers_own_carrier_comes_first() -> None:
    """Whatever is in force."""
    own: Carrier = Courier()
    with carried_by(Courier(needs_key=True)):
        assert transport_of(own) is own.transport()
        assert not needs_key(own)


def test_what_cannot_carry_is_refused() -> None:
    """A file name, say, or the class."""
    assert checked(None) is None
    for wrong in ("file.json", Courier, httpx2.MockTransport(lambda request: httpx2.Response(200))):
        with pytest.raises(BuildError, match="is not a cassette"):
            checked(wrong)  # type: ignore[arg-type]
