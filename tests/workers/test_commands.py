"""`hookline worker`, `submit`, `approve` and `cancel` with a queue, as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer, wait_until

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.capabilities import Subagent, Subagents
from hookline.cli.main import main
from hookline.journal import PostgresJournal, RunQueued
from hookline.testing import ScriptedDriver, call, say
from hookline.workers import QueueJournal

AGENTS = """
from pathlib import Path
import working_agents

AGENTS = working_agents.make_agents(Path({folder!r}))
WRONG = [1]
"""


@pytest.fixture
def here(
    work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """A directory with a module of agents, and a way to run a command in it."""
    (tmp_path / "shop.py").write_text(AGENTS.format(folder=str(tmp_path)))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        database = ["--database", work.postgres.url(), "--schema", work.journal.database.schema]
        place = 2 if words[0] in ("queue", "schedule", "database") else 1
        code = main([*words[:place], *database, *words[place:]])
        said = capsys.readouterr()
        return code, (said.out + said.err).strip()

    return run


def start(work: Any, *target: str, schema: str = "") -> subprocess.Popen[bytes]:
    """Start `hookline worker`."""
    place = Path(__file__).parents[1] / "support"
    code = f"import sys; sys.path.append({str(place)!r}); from hookline.cli.main import main; sys.exit(main())"
    database = ["--database", work.postgres.url()]
    database += ["--schema", schema or work.journal.database.schema]
    with (work.folder / "errors").open("ab") as errors:
        worker = subprocess.Popen(
            [sys.executable, "-c", code, "worker", *database, "--grace", "5", *target],
            cwd=work.folder,
            stderr=errors,
        )
    work.workers.append(worker)
    return worker


def test_runs_are_submitted_and_driven(work: Any, here: Any) -> None:
    """From the prompt to the end, with a question in between."""
    alone = "r\nhookline: run r is queued and waits: no live worker works on queue 'default'."
    assert here("submit", "--agent", "bank", "--id", "r", "Pay.") == (0, alone)
    assert here("submit", "--agent", "bank", "--id", "r", "Pay.") == (0, alone)
    code, words = here("submit", "--agent", "bank", "--id", "r", "Pay more.")
    assert (code, "in the journal already, with another prompt" in words) == (2, True)
    assert here("runs")[1].endswith("\n  waits: no live worker works on queue 'default'")
    for name in ("s1", "s2"):
        here("submit", "--agent", "bank", "--session", "s", "--id", name, "Pay.")
    assert "waits: run 's1' of its session is not over" in here("runs")[1]
    assert '"waits": "no live worker works on queue' in here("runs", "--json")[1]
    assert "queued for bank: Pay." in here("show", "r")[1]
    worker = start(work, "shop:AGENTS")
    work.wait_for("r", RunStatus.COMPLETED)
    assert here("submit", "--agent", "asks", "--id", "q", "--priority", "1", "Pay.") == (0, "q")
    work.wait_for("q", RunStatus.PAUSED)
    wait_until(lambda: "  waits: it waits for an answer" in here("runs")[1], "it waits")
    asked = here("approve", "q")[1]
    question = asked.split("yes: ")[1].splitlines()[0].split()[-1]
    assert here("approve", "q", question) == (
        0,
        "run q has the answer now, and a worker continues it.",
    )
    work.wait_for_call("q", 0)
    work.wait_for("q", RunStatus.PAUSED)
    assert here("cancel", "q")[1] == "run q is over: cancelled."
    worker.terminate()
    assert worker.wait() == 0, work.errors()


def test_resume_queues_a_run_and_waits_for_workers(
    work: Any, here: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It posts the answers and shows the result; it drives nothing itself. The variable names the database, too."""
    assert here("submit", "--agent", "asks", "--id", "q", "Pay.")[0] == 0
    start(work, "shop:AGENTS")
    for number in range(3):
        work.wait_for("q", RunStatus.PAUSED)
        code, words = here("resume", "q", "--allow" if number else "--deny", "all")
        assert (code, "q is done" in words) == ((5, False) if number < 2 else (0, True)), words
        assert ("--allow" in words) is (number < 2)
    assert {pid for _, pid in work.calls("q")} == {work.workers[0].pid}
    assert here("resume", "q", "--json")[1].startswith('{"type":"result"')
    monkeypatch.setenv("HOOKLINE_DATABASE_URL", work.postgres.url())
    assert main(["resume", "q", "--schema", work.journal.database.schema]) == 0
    assert "q is done" in capsys.readouterr().out
    assert main(["resume", "q", "--journal", "none.db"]) != 0
    assert "there is no run 'q'" in capsys.readouterr().err
    assert here("resume", "q") == (
        0,
        "q is done\nhookline: run q is completed",
    )
    for wrong in (["--set", "model=x"], ["--accept-loss"], ["--allow", "x"]):
        assert here("resume", "q", *wrong)[0] == 2
    agent = AgentBuilder().with_driver(ScriptedDriver([say("hello")]))
    agent.with_journal(work.journal).build().run_sync("Hello?", run_id="own")
    assert "run 'own' was not submitted" in here("resume", "own")[1]


def test_an_answer_for_a_child_queues_the_run_above_it(work: Any, here: Any) -> None:
    """As one transaction, whichever of the two is named."""

    def pay() -> str:
        """Pay."""
        return "paid"

    helper = Subagent("helper", "Helps.", model=ScriptedDriver([call("pay")] * 2))
    spawn = call("spawn_subagent", agent="helper", prompt="Pay.")
    builder = AgentBuilder().with_driver(ScriptedDriver([spawn] * 2)).with_tools(pay)
    builder.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?"), tier="policy", matcher="pay", name="asks"
    )
    agent = builder.with_capability(Subagents(helper)).with_journal(work.journal).build()
    for command, *more in (("approve", "call_1_1"), ("cancel",)):
        work.journal.submit_sync("bank", "Pay.", run_id=command)
        agent.resume_sync(command)
        table = f"{work.journal.engine_schema}.workflow_status"
        work.postgres.ask(f"UPDATE {table} SET status = 'SUCCESS'")
        child = next(each for each in work.journal.runs_sync() if each.parent_run_id == command)
        assert here(command, child.run_id, *more)[0] == 0
        assert [status for _, status in work.entries()][-2:] == ["SUCCESS", "ENQUEUED"]


def test_the_record_of_a_cancellation_has_the_role(work: Any, here: Any) -> None:
    """Also if no worker drove the run, and the name is what somebody says."""
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    assert here("cancel", "r", "--by", "zoe")[0] == 0
    ended = work.journal.read_sync("r")[-1]
    assert "cancelled by zoe (database role boss)" in str(ended)


def test_the_queue_of_an_application_is_named(work: Any, here: Any) -> None:
    """Its engine has its tables elsewhere. Nothing comes into a second queue."""
    schema = work.journal.database.schema
    place = f"{schema}_app"
    with QueueJournal(work.postgres.url(), schema=schema, engine_schema=place) as application:
        application.migrate_sync()
    named = ["--engine-schema", place]
    assert here("submit", *named, "--agent", "bank", "--id", "r", "Pay.")[0] == 0
    assert "waits: no live worker works on queue 'default'" in here("runs", *named)[1]
    assert here("queue", "set", *named, "default", "--max-length", "5")[0] == 0
    assert here("cancel", *named, "r") == (0, "run r is over: cancelled.")
    assert len(work.postgres.ask(f"SELECT 1 FROM {place}.workflow_status")) == 1
    assert work.entries() == []
    work.postgres.ask(f"DROP SCHEMA {place} CASCADE")


def test_commands_say_what_to_do_without_tables_for_workers(
    postgres: PostgresServer, here: Any, work: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal is there, and the queue is not."""
    database = ["--database", postgres.url(), "--schema", "without_queue"]
    assert main(["database", "migrate", *database]) == 0
    with PostgresJournal(postgres.url(), schema="without_queue") as journal:
        claim = journal.claim_sync("r")
        claim.write([RunQueued("r", 0, 1.0, agent_id="a", prompt="b", queue="c")]).result()
        claim.give_back().result()
    remedy = "hookline database migrate --workers"
    for words in (["submit", "--agent", "a", "b"], ["resume", "r"]):
        assert main([words[0], *database, *words[1:]]) == 1, words
        assert remedy in capsys.readouterr().err
    assert start(work, "shop:AGENTS", schema="without_queue").wait() == 1
    assert remedy in work.errors()
    assert "Traceback" not in work.errors()
    postgres.ask("DROP SCHEMA without_queue CASCADE")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere:AGENTS", "there is no module 'nowhere'"),
        ("shop:WRONG", "does not map names to agents"),
        ("shop:MISSING", "has no 'MISSING'"),
        ("leaves:AGENTS", "'leaves:AGENTS' cannot be loaded: leaves.py:1: SystemExit: 3"),
    ],
)
def test_a_worker_without_agents_takes_nothing(
    work: Any, here: Any, target: str, words: str
) -> None:
    """It exits with 6."""
    (work.folder / "leaves.py").write_text("raise SystemExit(3)")
    assert here("submit", "--agent", "bank", "--id", "r", "Pay.")[0] == 0
    assert start(work, target).wait() == 6, work.errors()
    assert words in work.errors()
    assert work.entries() == [("r:start", "ENQUEUED")]


def test_a_worker_that_cannot_start_logs_why(work: Any, here: Any) -> None:
    """Also as JSON, which has no text with values in it otherwise."""
    worker = start(work, "--log", "json", "shop:AGENTS", schema="nowhere")
    assert worker.wait() == 1
    assert "its tables are not there. Run hookline database migrate" in work.errors()


def test_queues_and_schedules_are_set(work: Any, here: Any) -> None:
    """What is not named stays as it is."""
    table = f"{work.journal.engine_schema}.queues"
    query = f"SELECT concurrency, rate_limit_max, rate_limit_period_sec FROM {table}"
    for words, expected in (
        (("--concurrency", "5"), (5, None, None)),
        (("--rate", "100/60"), (5, 100, 60.0)),
        (("--concurrency", "none"), (None, 100, 60.0)),
        (("--rate", "none"), (None, None, None)),
    ):
        assert here("queue", "set", "night", *words) == (0, "")
        assert [tuple(row) for row in work.postgres.ask(query)] == [expected]
    for wrong in (
        (),
        ("--concurrency", "many"),
        ("--rate", "5"),
        ("--concurrency", "1", "--rate", "x"),
        ("--concurrency", "1", "--rate", "0/1"),
        ("--concurrency", "1", "--max-length", "0"),
    ):
        assert here("queue", "set", "night", *wrong)[0] == 2
    assert [tuple(row) for row in work.postgres.ask(query)] == [(None, None, None)]
    for words in (
        ("submit", "--queue", "_dbos_x"),
        ("schedule", "set", "--queue", "_dbos_x", "x", "0 2 * * *"),
    ):
        code, said = here(*words, "--agent", "bank", "Pay.")
        assert (code, "are for the queues of DBOS" in said) == (2, True), said
    assert work.entries() == []
    assert here("queue", "set", "night", "--max-length", "1") == (0, "")
    assert here("submit", "--queue", "night", "--agent", "bank", "--id", "r", "Pay.")[0] == 0
    assert here("submit", "--queue", "night", "--agent", "bank", "--id", "s", "Pay.")[0] != 0
    assert here("runs", "--delete", "r") == (0, "deleted r")
    assert work.entries() == []
    assert here("queue", "set", "night", "--max-length", "none") == (0, "")
    code, words = here("schedule", "set", "daily", "0 2 * * *", "--agent", "bank", "Pay.")
    assert (code, words.startswith("daily: next at 2"), words[-10:]) == (0, True, " 02:00 UTC")
    assert "daily: 0 2 * * * (UTC), bank in default: Pay." in here("schedule", "list")[1]
    assert here("schedule", "set", "x", "daily", "--agent", "bank", "Pay.")[0] == 2
    assert here("schedule", "remove", "daily") == (0, "")
    assert here("schedule", "list") == (0, "")
    assert here("schedule", "remove", "daily")[0] == 2


def test_a_run_without_a_task_is_refused(
    work: Any, here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by `hookline run`."""
    for words in (("submit",), ("schedule", "set", "x", "0 2 * * *")):
        with pytest.raises(SystemExit, match="2"):
            here(*words, "--agent", "bank", " ")
        assert "there is no task" in capsys.readouterr().err
    assert work.entries() == []


@pytest.mark.parametrize(
    ("change", "remedy"),
    [("- 1", "hookline database migrate --workers"), ("+ 100", "Upgrade Hookline.")],
    ids=["older", "newer"],
)
def test_tables_of_another_version_are_refused(
    work: Any, here: Any, change: str, remedy: str
) -> None:
    """By a worker, by `submit` and, if they are newer, by the migration. Nothing is written."""
    table = f"{work.journal.engine_schema}.dbos_migrations"
    (now,) = work.postgres.ask(f"SELECT version FROM {table}")[0]
    work.postgres.ask(f"UPDATE {table} SET version = version {change}")
    code, said = here("submit", "--agent", "bank", "Pay.")
    assert (code, f" {now}. " in said, remedy in said) == (1, True, True), said
    assert start(work, "shop:AGENTS").wait() == 1
    assert remedy in work.errors()
    assert "Traceback" not in work.errors()
    assert (work.journal.runs_sync(), work.entries()) == ([], [])
    code, said = here("database", "migrate", "--workers")
    if remedy in said:
        assert code == 1
        return
    queue = f"the tables of its queue (schema {work.journal.engine_schema})"
    assert (code, said.splitlines()[1]) == (
        0,
        f"{queue} are now of version {now} ({now - 1} before)",
    )
    assert here("database", "migrate", "--workers")[1].endswith(f"{queue} have version {now}")
    assert here("submit", "--agent", "bank", "Pay.")[0] == 0


def test_the_tables_of_the_queue_are_made(postgres: PostgresServer) -> None:
    """By the command, and only when it is asked to."""
    url, schema = postgres.url(), "of_command"
    assert main(["database", "migrate", "--database", url, "--schema", schema]) == 0
    found = "SELECT 1 FROM pg_namespace WHERE nspname = 'of_command_dbos'"
    assert postgres.ask(found) == []
    assert main(["database", "migrate", "--database", url, "--schema", schema, "--workers"]) == 0
    with QueueJournal(url, schema=schema) as journal:
        journal.submit_sync("bank", "Pay.")
    postgres.ask("DROP SCHEMA of_command CASCADE")
    postgres.ask("DROP SCHEMA of_command_dbos CASCADE")
