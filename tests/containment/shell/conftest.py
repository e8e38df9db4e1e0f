"""What all tests of the policy share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def search_path() -> Iterator[None]:
    """Directories of the system only: a program that is found in another one asks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/usr/bin:/bin")
        yield
