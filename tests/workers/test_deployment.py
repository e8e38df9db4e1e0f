"""What operators copy: the examples can be read, and the queries of the page work."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import yaml
from postgres_server import PostgresServer

from hookline.cli.parser import make_parser
from hookline.workers import QueueJournal

ROOT = Path(__file__).parents[2]


def grace_of(words: list[str]) -> float:
    """How long a worker with this command line takes to stop."""
    assert words[0].endswith("hookline")
    arguments = make_parser(every=True).parse_args(words[1:])
    assert arguments.run == "workers:work"
    return float(arguments.grace)


def test_the_unit_of_systemd_starts_a_worker() -> None:
    """And has more time to stop than the worker takes."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((ROOT / "examples/workers/hookline-worker.service").read_text())
    service = unit["Service"]
    assert int(service["TimeoutStopSec"]) > grace_of(shlex.split(service["ExecStart"]))
    assert (service["KillMode"], service["RestartPreventExitStatus"]) == ("mixed", "6")


def test_the_timer_of_systemd_prunes() -> None:
    """It has a service of its name, and a time."""
    timer, service = configparser.ConfigParser(), configparser.ConfigParser(interpolation=None)
    timer.read(ROOT / "examples/workers/hookline-prune.timer")
    service.read(ROOT / "examples/workers/hookline-prune.service")
    assert timer["Timer"]["OnCalendar"] == "*-*-* 03:30"
    assert service["Service"]["Type"] == "oneshot"
    assert service["Service"]["ExecStart"].endswith("/prune.py")


def test_the_compose_file_starts_workers() -> None:
    """What a service names is there, and its command is one."""
    composed = yaml.safe_load((ROOT / "examples/workers/compose.yaml").read_text())
    services = composed["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert set(service.get("secrets", [])) <= set(composed["secrets"])
        assert {each.split(":")[0] for each in service.get("volumes", [])} <= {*composed["volumes"]}
    worker = services["worker"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > grace_of(worker["command"])
    urls = {
        services[name]["environment"]["HOOKLINE_DATABASE_URL"] for name in ("worker", "migrate")
    }
    assert len(urls) == 2, "workers have a role of their own"
    migrate = make_parser(every=True).parse_args(services["migrate"]["command"][1:])
    assert (migrate.run, migrate.workers) == ("journal:migrate", True)


def test_the_queries_of_the_page_work(postgres: PostgresServer, journal: QueueJournal) -> None:
    """On the tables as they are."""
    page = (ROOT / "docs/scaling.md").read_text()
    queries = [each for each in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "FROM" in each]
    assert len(queries) >= 4
    journal.submit_sync("sums", "Add.", run_id="r")
    found = []
    for query in queries:
        renamed = query.replace("hookline_dbos.", f"{journal.engine_schema}.")
        renamed = re.sub(r"\bhookline\.", f"{journal.database.schema}.", renamed)
        found.append(postgres.ask(renamed))
    (waiting,), silent, (day,), (queue,) = found[:4]
    assert (*waiting[:2], 0 <= waiting[2] < 3600) == ("sums", 1, True)
    assert silent == []
    assert tuple(day) == ("queued", 1)
    assert (*queue[:3], 0 <= queue[3] < 3600) == ("default", "ENQUEUED", 1, True)
