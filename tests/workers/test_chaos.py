"""Runs of many kinds survive whatever happens to their workers, connections and server."""

from __future__ import annotations

from pathlib import Path

import pytest
import worker_chaos
from postgres_server import PostgresServer

from hookline.workers import QueueJournal


@pytest.mark.timeout(900)
def test_runs_survive_everything(
    postgres: PostgresServer, journal: QueueJournal, tmp_path: Path
) -> None:
    """Each has one result; nothing is lost, nothing happens twice, and every doubt is reported."""
    chaos = worker_chaos.Chaos(postgres, journal, tmp_path)
    try:
        chaos.go(60, between=(1, 2))
    finally:
        chaos.close()
    print(worker_chaos.summary(chaos))
    assert list(worker_chaos.faults(chaos)) == []
    assert chaos.counts["server"] == 1
    assert chaos.counts["kill"] > 2
