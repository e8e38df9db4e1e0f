"""Runs that wait in a queue, and workers on many machines that drive them.

The journal knows what happened. The engine decides which worker drives a run, and holds the id of the run and nothing
else. `QueueJournal` and `Worker` use DBOS (extra `dbos`), `TemporalJournal` and `TemporalWorker` use Temporal (extra
`temporal`).
"""

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.workers.queue import QueueJournal
    from hookline.workers.registry import WorkerInfo
    from hookline.workers.schedules import Schedule
    from hookline.workers.temporal import TemporalJournal, TemporalWorker
    from hookline.workers.worker import Worker

__all__ = [
    "QueueJournal",
    "Schedule",
    "TemporalJournal",
    "TemporalWorker",
    "Worker",
    "WorkerInfo",
]

_ENGINES = {
    "queue": "QueueJournal",
    "registry": "WorkerInfo",
    "schedules": "Schedule",
    "temporal": "TemporalJournal TemporalWorker",
    "worker": "Worker",
}

__getattr__ = lazy.names_from(__name__, _ENGINES)
