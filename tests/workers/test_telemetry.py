"""A worker as its operator sees it: traces, metrics, logs and health, of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from otlp_receiver import attributes_of, receiving
from ports import free_port
from postgres_server import wait_until

from hookline import RunStatus

AGENTS = """
import time
from pathlib import Path

from hookline import AgentBuilder, tool
from hookline.capabilities import OpenTelemetry
from hookline.testing import ScriptedDriver, call, say

@tool
def wait(what: str) -> str:
    "Wait until a file is there."
    with Path({folder!r}, "begun").open("a") as begun:
        begun.write(".")
    while not Path({folder!r}, "go").exists():
        time.sleep(0.01)
    Path({folder!r}, "go").unlink()
    return "Nightingale"

turns = [call("wait", what="hunter22"), say("Nightingale")]
driver = ScriptedDriver(turns * 3)
agent = AgentBuilder().with_id("shop").with_driver(driver).with_tools(wait)
AGENTS = {{"shop": agent.with_capability(OpenTelemetry())}}
"""


def get(address: str) -> tuple[int, Any]:
    """The status and the answer of an address; 0 if nobody is there."""
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, None


def test_an_operator_sees_a_worker(work: Any, tmp_path: Path) -> None:
    """Its health, the queue while runs wait, their spans, and lines of JSON in which nobody says anything."""
    (tmp_path / "shop.py").write_text(AGENTS.format(folder=str(tmp_path)))
    journal = work.journal
    with TracerProvider().get_tracer("shop").start_as_current_span("order") as order:
        journal.submit_sync("shop", "For Nightingale.", run_id="r0")
    above = order.get_span_context()
    for name in ("r1", "r2"):
        journal.submit_sync("shop", "For Nightingale.", run_id=name)
    journal.submit_sync("shop", "Later.", run_id="later", delay=3600)
    (waiting,) = journal.measure_queues()
    assert (waiting.queue, waiting.length) == ("default", 3)
    assert 0 <= waiting.age < 3600
    port = free_port()
    log = tmp_path / "log"
    with receiving() as receiver, log.open("wb") as stderr:
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }
        database = ["--database", work.postgres.url(), "--schema", journal.database.schema]
        options = ["--health", str(port), "--log", "json", "--concurrency", "1", "--grace", "30"]
        worker = subprocess.Popen(
            [sys.executable, "-m", "hookline", "worker", *database, *options, "shop:AGENTS"],
            env=environment,
            cwd=tmp_path,
            stderr=stderr,
        )
        work.workers.append(worker)
        wait_until(lambda: get(f"http://127.0.0.1:{port}/ready")[0] == 200, log.read_text())
        assert get(f"http://127.0.0.1:{port}/alive") == (200, {"alive": True})
        ready = {"ready": True, "database": True, "agents": True, "working": True}
        assert get(f"http://127.0.0.1:{port}/ready") == (200, ready)
        # One is driven, and two wait.
        wait_until(
            lambda: [point.as_int for point, _ in receiver.points("hookline.queue.length")] == [2],
            "two runs wait",
        )
        ((point, about),) = receiver.points("hookline.queue.age")
        assert (about, point.as_double >= 0) == ({"hookline.queue.name": "default"}, True)
        (tmp_path / "go").touch()
        work.wait_for("r0", RunStatus.COMPLETED)
        wait_until(lambda: (tmp_path / "begun").read_text() == "..", "r1 is in its tool")
        worker.terminate()
        wait_until(lambda: get(f"http://127.0.0.1:{port}/ready")[0] == 503, "it is ending")
        assert get(f"http://127.0.0.1:{port}/ready")[1] == {
            **ready,
            "ready": False,
            "working": False,
        }
        (tmp_path / "go").touch()
        assert worker.wait() == 0
        # What was left was sent before the process ended.
        runs = [each for each in receiver.spans if each.name == "invoke_agent shop"]
        about = [attributes_of(each) for each in runs]
        statuses = {each["hookline.run.id"]: each["hookline.run.status"] for each in about}
        assert statuses == {"r0": "completed", "r1": "handed_over"}
        assert not any(each["hookline.run.resumed"] for each in about), "workers began them"
        # That of whoever submitted the run, in another process.
        parents = {
            each["hookline.run.id"]: (run.trace_id.hex(), run.parent_span_id.hex())
            for each, run in zip(about, runs, strict=True)
        }
        assert parents["r0"] == (f"{above.trace_id:032x}", f"{above.span_id:016x}")
        assert not parents["r1"][1]
        assert receiver.points("hookline.runs")
        sent = receiver.text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ended = [each for each in lines if each.get("event") == "result" and each["run_id"] == "r0"]
    assert [each["status"] for each in ended] == ["completed"]
    for word in ("Nightingale", "hunter22"):
        assert word not in sent + log.read_text()
