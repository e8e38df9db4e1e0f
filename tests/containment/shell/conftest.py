"""What all tests of the policy share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


# For each module: these directories are no packages, and a fixture of a package would last for all further tests.
@pytest.fixture(autouse=True, scope="module")
def search_path() -> Iterator[None]:
    """Directories of the system only: a program that is found in another one asks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/usr/bin:/bin")
        yield
