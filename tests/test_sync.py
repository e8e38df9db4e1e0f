"""Async methods for code that is not async."""

from __future__ import annotations

import pytest

from hookline._sync import run_to_end, sync_form
from hookline.errors import UsageError


class Reader:
    """Has a method that waits."""

    async def read(self, name: str, *, times: int = 1) -> str:
        """Read it."""
        return name * times

    read_sync = sync_form(read)


class Louder(Reader):
    """Implements it otherwise, and says nothing of its sync form."""

    async def read(self, name: str, *, times: int = 1) -> str:
        """Read it."""
        return (await super().read(name, times=times)).upper()


def test_the_sync_form_waits_for_the_method_of_that_name() -> None:
    """Also for that of a class below."""
    assert Reader().read_sync("a", times=2) == "aa"
    assert Louder().read_sync("a") == "A"
    assert (Reader.read_sync.__name__, Reader.read_sync.__doc__) == (
        "read_sync",
        "`read` for code that is not async.",
    )


async def test_it_does_not_block_an_event_loop() -> None:
    """The error says what to write instead."""
    with pytest.raises(UsageError, match=r"in async code it would.*await read\(\.\.\.\)"):
        Reader().read_sync("a")
    with pytest.raises(UsageError, match=r"await agent\.run\(\.\.\.\)"):
        run_to_end(lambda: Reader().read("a"))


def test_an_error_of_the_method_is_raised() -> None:
    """As it is."""
    with pytest.raises(TypeError):
        Reader().read_sync("a", times=None)  # type: ignore[arg-type]
