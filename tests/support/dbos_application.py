"""An application with a DBOS of its own, which also drives runs.

`python dbos_application.py URL SCHEMA FOLDER OPTIONS`; the options are JSON.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import working_agents
from dbos import DBOS, DBOSConfig

from hookline.errors import HooklineError
from hookline.workers import QueueJournal, Worker

url, schema, place, options = sys.argv[1:]
given = {
    "launches_elsewhere": False,
    "engine_schema": None,
    "executor_id": "one",
    "name": "shop",
    "listens": ["of the shop"],
    "worker": {},
    "stays": 0,
}
given |= json.loads(options)


@DBOS.workflow()
async def own(text: str) -> None:
    """A workflow of the application."""
    (Path(place) / "own").write_text(text)


async def main() -> None:
    """Launch the engine, do something of its own, and work."""
    journal = QueueJournal(url, schema=schema)
    config: DBOSConfig = {
        "name": given["name"],
        "system_database_url": url,
        "dbos_system_schema": given["engine_schema"] or journal.engine_schema,
        "executor_id": given["executor_id"],
        "log_level": "ERROR",
    }
    engine = DBOS(config=config)
    agents = working_agents.make_agents(Path(place))
    worker = Worker(journal, agents, dbos=engine, **given["worker"])
    if given["listens"] is not None:
        DBOS.listen_queues(given["listens"])
    if given["launches_elsewhere"]:
        await asyncio.to_thread(DBOS.launch)  # its bodies are then on an event loop of its own
    else:
        DBOS.launch()
    queue = await DBOS.register_queue_async("of the shop")
    await queue.enqueue_async(own, "done")
    while (Path(place) / "hold-application").exists():  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.run()
    except HooklineError as error:
        (Path(place) / "refusal").write_text(str(error))
    await asyncio.sleep(given["stays"])


if __name__ == "__main__":
    asyncio.run(main())
