"""Which workers are alive and what they can drive; where a run waits that the first worker cannot drive, and why.

A worker is alive as long as it holds the lock with its name. The rows of the table only say what it can drive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from hookline.journal import RECORD_VERSION, Record, RunQueued, RunStarted, RunTakenUp
from hookline.journal.record import start_of


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker, and what it can drive."""

    name: str
    queues: tuple[str, ...]
    agents: dict[str, tuple[str, ...]]
    """The versions whose runs each agent continues. The first one is its own."""
    record_version: int = RECORD_VERSION
    """It reads runs up to this version of the records."""

    def can_drive(self, agent: str, version: str | None) -> bool:
        """Whether it has an agent of this name that accepts this version."""
        return agent in self.agents and (version is None or version in self.agents[agent])

    def places(self) -> list[str]:
        """The queues of the engine that it looks into."""
        parked = [place_for(agent, None) for agent in self.agents]
        parked += [place_for(name, each) for name, known in self.agents.items() for each in known]
        parked += [place_of_newer(each) for each in range(1, self.record_version)]
        return [*self.queues, *(f"{queue}/{place}" for queue in self.queues for place in parked)]


def place_for(agent: str, version: str | None) -> str:
    """Where runs wait that the first worker cannot drive. Only workers that can look there.

    No two have the same place, whatever characters a name has: the @ stands between the name and the version only.
    """
    name = quote(agent, safe="")
    return name if version is None else f"{name}@{quote(version, safe='')}"


def place_of_newer(record_version: int) -> str:
    """Where runs wait that a worker with this version of the records cannot read."""
    return f"newer than {record_version}"


def wanted_version(records: Iterable[Record]) -> str | None:
    """The version of the agent that a run needs: that of its last driver. Before it began, the one that was asked for.

    None: any version may begin it.
    """
    records = list(records)
    if start_of(records) is None:
        queued = records[0]
        assert isinstance(queued, RunQueued)
        return queued.agent_version or None
    return [each.agent_version for each in records if isinstance(each, RunStarted | RunTakenUp)][-1]


def why_no_worker(
    workers: Sequence[WorkerInfo], queue: str, agent: str, version: str | None
) -> str:
    """Why none of these workers would drive a run; empty if one would."""
    here = [each for each in workers if queue in each.queues]
    if not here:
        return f"no live worker works on queue '{queue}'"
    if not any(each.can_drive(agent, None) for each in here):
        return f"no live worker has agent '{agent}'"
    if not any(each.can_drive(agent, version) for each in here):
        return f"no live worker accepts version '{version}' of agent '{agent}'"
    return ""
