from __future__ import annotations

import pytest
from session_setup import SessionSetup


@pytest.fixture
def setup() -> SessionSetup:
    """A journal without sessions."""
    return SessionSetup()
