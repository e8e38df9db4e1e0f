from __future__ import annotations

import pytest
from approving import Bench
from tree import World


@pytest.fixture
def world() -> World:
    """No agents yet."""
    return World()


@pytest.fixture
def bench() -> Bench:
    """Tools that have not run yet."""
    return Bench()
