"""Agents for workers on Temporal: `python temporal_agents.py URL SCHEMA FOLDER OPTIONS` is a worker.

The options are JSON. `temporal` is the address of the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from working_agents import make_agents

from hookline import Agent, AgentBuilder
from hookline.drivers import Turn
from hookline.state import InferenceRequest, InferenceResponse
from hookline.testing import ScriptedDriver, call
from hookline.workers import TemporalJournal, TemporalWorker


class SilentDriver(ScriptedDriver):
    """A model that never answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__([])
        self._folder = folder

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Leave a file, and wait."""
        (self._folder / f"asked-{turn.state.run_id}").touch()
        await asyncio.Event().wait()
        raise AssertionError


def make_all(folder: Path) -> dict[str, Agent]:
    """The agents of all workers, one whose model never answers, and one that never ends of itself."""

    async def nap() -> str:
        """Sleep."""
        await asyncio.sleep(0.1)
        return "slept"

    silent = AgentBuilder().with_driver(SilentDriver(folder))
    endless = AgentBuilder().with_driver(ScriptedDriver([call("nap")] * 10_000)).with_tools(nap)
    limited = endless.with_limits(steps=None, seconds=0.5)
    return {**make_agents(folder), "silent": silent.build(), "limited": limited.build()}


if __name__ == "__main__":
    url, schema, place, options = sys.argv[1:]
    given = json.loads(options)
    journal = TemporalJournal(
        url,
        schema=schema,
        connect={"target_host": given.pop("temporal")},
        task_queue=schema,
        heartbeat=given.pop("heartbeat"),
    )
    agents = make_all(Path(place))
    names = given.pop("agents", [*agents])
    TemporalWorker(journal, {name: agents[name] for name in names}, **given).run_to_exit()
