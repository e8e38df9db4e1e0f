"""Which mechanism holds a limit, on machines that have one or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import Sandbox
from hookline.containment.sandbox import enforcement

from .conftest import needs_bubblewrap

pytestmark = needs_bubblewrap


@pytest.mark.parametrize("found", [{"pids", "memory"}, {"pids"}, set()])
@pytest.mark.parametrize("counted", [False, True])
def test_what_holds_is_described(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, found: set[str], counted: bool
) -> None:
    """Each limit is named with its mechanism, and that a watcher reacts late."""

    def homes(*wanted: str) -> dict[str, Path]:
        return {name: Path("/group") for name in wanted if name in found}

    monkeypatch.setattr(enforcement, "homes", homes)
    monkeypatch.setattr(enforcement, "kernel_counts_processes", lambda: counted)
    said = sandbox.describe()
    assert f"memory by a {'control group' if 'memory' in found else 'watcher'}" in said
    kernel = "resource limit" if counted else "control group" if "pids" in found else "watcher"
    assert f"processes by a {kernel}" in said
    assert "disk by a watcher (a watcher reacts late)" in said
