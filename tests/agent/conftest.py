from __future__ import annotations

import pytest
from tree import World


@pytest.fixture
def world() -> World:
    """No agents yet."""
    return World()
