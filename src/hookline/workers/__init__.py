"""Runs that wait in a queue, and workers on many machines that drive them. Needs the extra `dbos`.

The journal knows what happened. The engine (DBOS) decides which worker drives a run: its tables hold the id of the run
and nothing else.
"""

from hookline.workers.queue import QueueJournal
from hookline.workers.registry import WorkerInfo
from hookline.workers.schedules import Schedule
from hookline.workers.worker import Worker

__all__ = ["QueueJournal", "Schedule", "Worker", "WorkerInfo"]
