"""What tests of several capabilities need."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.errors import SandboxError


@pytest.fixture
def without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no sandbox works."""

    def missing() -> Any:
        raise SandboxError("bubblewrap is not installed.", remedy="Install it.")

    monkeypatch.setattr("hookline.containment.sandbox.sandbox.run_selftest", missing)
