from __future__ import annotations

import pytest
from house import House


@pytest.fixture
def house() -> House:
    """A house where nothing has happened yet."""
    return House()
