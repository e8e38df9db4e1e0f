"""A journal in PostgreSQL, as far as it differs from the others: connections, locks, versions, roles, the password."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from postgres_server import PGBOUNCER, PROGRAMS, PgBouncer, PostgresServer, Standby, wait_until

from hookline import Agent, AgentBuilder, AgentState, RunStatus, tool
from hookline.cli.main import main
from hookline.definition import definition
from hookline.errors import JournalError, RunHandedOverError, RunInUseError, UsageError
from hookline.journal import (
    CallSettled,
    EarlierRun,
    InboxCancel,
    PostgresJournal,
    PromptSubmitted,
    Record,
    RunFinished,
    RunStarted,
)
from hookline.journal.history import ANY_STEPS
from hookline.journal.inbox import encode_message
from hookline.journal.postgres import has_password, writer
from hookline.journal.postgres import schema as tables
from hookline.journal.postgres.database import Database
from hookline.state import ToolResult
from hookline.testing import Scripted, ScriptedDriver, call, say

Make = Callable[..., PostgresJournal]
Story = Callable[..., list[Record]]


def keep(journal: PostgresJournal, records: list[Record]) -> None:
    """Write a run."""
    claim = journal.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


def end_connections(server: PostgresServer) -> None:
    """As when the network fails: whoever holds a lock in the database loses it."""
    server.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = 'agents' AND pid <> pg_backend_pid()"
    )


# --- content -------------------------------------------------------------------------------------------


def test_text_that_postgresql_has_not_is_kept(postgres_journal: Make) -> None:
    """NUL, and the characters that stand for it, in names and in records; in records also half of a surrogate pair."""
    journal = postgres_journal()
    odd = ["a\0b", "\x1a", "\x1a0", "\x1a1\0", "\0\x1a\x1a0"]
    for number, name in enumerate(odd):
        start = RunStarted(name, 0, 1.0 + number, "agent", f"s{name}")
        keep(journal, [start, PromptSubmitted(name, 1, 2.0, f"{name} \ud800")])
    assert [info.run_id for info in journal.runs_sync()] == odd[::-1]
    for name in odd:
        assert [info.run_id for info in journal.runs_sync(session_id=f"s{name}")] == [name]
        prompt = journal.read_sync(name)[1]
        assert isinstance(prompt, PromptSubmitted)
        assert prompt.text == f"{name} \ud800"
    assert journal.check_sync().ok


@contextmanager
def waiting_commit(server: PostgresServer, journal: PostgresJournal, run_id: str) -> Iterator[None]:
    """Keep a run from being written. Once the next commit waits for it, whatever is written forms a group."""
    with psycopg.connect(server.url()) as other:
        schema = journal.database.schema
        other.execute(f"SELECT 1 FROM {schema}.runs WHERE run_id = %s FOR UPDATE", (run_id,))
        yield
        other.rollback()


def wait_for_lock(server: PostgresServer) -> None:
    """Wait until somebody waits for a row."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    wait_until(lambda: server.ask(query) != [(0,)], "the commit waits")


@contextmanager
def waiting_group(
    server: PostgresServer, journal: PostgresJournal, story: Story
) -> Iterator[list[Future[None]]]:
    """The rest of the runs a, b and c: that of a is committed, those of b and c are one commit that waits."""
    claims = {name: journal.claim_sync(name) for name in "abc"}
    for name, claim in claims.items():
        claim.write(story(name)[:3]).result()
    with waiting_commit(server, journal, "c"):
        with waiting_commit(server, journal, "a"):
            written = [claims["a"].write(story("a")[3:])]
            wait_for_lock(server)
            written += [claims[name].write(story(name)[3:]) for name in "bc"]
        written[0].result()
        wait_for_lock(server)
        yield written


def test_the_process_runs_while_a_commit_waits(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """Of one run and of a group. Otherwise this thread, which ends the wait, would not run until the server stops."""
    journal = postgres_journal()
    with waiting_group(postgres, journal, story) as written:
        assert not any(each.done() for each in written[1:])
    for name, each in zip("abc", written, strict=True):
        each.result()
        assert journal.read_sync(name) == story(name)


def test_what_fails_in_a_group_fails_alone(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """A run that the server refuses, and one that somebody else has written."""
    journal = postgres_journal()
    schema = journal.database.schema
    claims = {name: journal.claim_sync(name) for name in ("a", "b", "bad", "moved", "c")}
    for name, claim in claims.items():
        claim.write(story(name)[:3]).result()
    refuse = f"ALTER TABLE {schema}.runs ADD CHECK (run_id <> 'bad' OR records <= 3)"
    postgres.ask(refuse)
    postgres.ask(f"UPDATE {schema}.runs SET head = 'other' WHERE run_id = 'moved'")
    with waiting_commit(postgres, journal, "a"):
        written = {"a": claims["a"].write(story("a")[3:])}
        wait_for_lock(postgres)
        for name in ("b", "bad", "moved", "c"):
            written[name] = claims[name].write(story(name)[3:])
    failed = {name: each.exception() for name, each in written.items()}
    assert [name for name, error in failed.items() if error is not None] == ["bad", "moved"]
    assert "violates check constraint" in str(failed["bad"])
    assert "was written or deleted by another" in str(failed["moved"])
    for name in "abc":
        assert journal.read_sync(name) == story(name)


def test_a_group_whose_connection_ends_fails_as_a_whole(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """With the words of the server, and nothing of it is written."""
    journal = postgres_journal()
    with waiting_group(postgres, journal, story) as written:
        postgres.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )
        for each in written[1:]:
            assert "administrator command" in str(each.exception())
    for name in "bc":
        assert journal.read_sync(name) == story(name)[:3]
        journal.claim_sync(name)


def test_without_a_thread_everything_is_written_all_the_same(
    postgres_journal: Make, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is ending cannot start one: no record waits for it forever, and no lock stays."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    journal = postgres_journal()
    claims = [journal.claim_sync(name) for name in ("r", "other")]
    claims[0].write(story()).result(timeout=60)
    for claim in claims:
        claim.give_back().result(timeout=60)
    assert journal.read_sync("r") == story()
    assert journal.delete_sync("r") == ["r"]
    claims[0] = journal.claim_sync("r")
    journal.close_sync()


def test_a_record_that_is_too_large_names_its_tool(
    postgres_journal: Make, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how much is allowed. Nothing more of the run is written, and other runs are."""
    monkeypatch.setattr(writer, "LARGEST_RECORD", 200)
    journal = postgres_journal()
    claim = journal.claim_sync("r")
    records = story(steps=1)
    records[6] = CallSettled("r", 6, 9.0, 0, ToolResult("x" * 300, call_id="call_0", name="echo"))
    with pytest.raises(JournalError, match=r"tool 'echo' in run 'r' has \d+ bytes.*takes 200"):
        claim.write(records).result()
    keep(journal, story("other", steps=0)[:1])


def test_a_run_with_a_record_that_is_too_large_has_failed(
    postgres_journal: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the journal too, with the tool and the size. It is not continued as if its process had died."""
    monkeypatch.setattr(writer, "LARGEST_RECORD", 20_000)
    did: list[int] = []

    @tool
    def dump(size: int) -> str:
        """Return much."""
        did.append(size)
        return "x" * size

    journal = postgres_journal()
    driver = ScriptedDriver([call("dump", size=50_000), say("done")] * 2)
    agent = AgentBuilder().with_driver(driver).with_tools(dump).with_journal(journal).build()
    for result in (agent.run_sync("go", run_id="r"), agent.resume_sync("r")):
        assert result.status is RunStatus.FAILED
    (info,) = journal.runs_sync()
    end = journal.read_sync("r")[-1]
    assert isinstance(end, RunFinished)
    assert (info.status, end.status) == (RunStatus.FAILED, RunStatus.FAILED)
    assert re.search(r"a record of tool 'dump' in run 'r' has 50,\d+ bytes", end.reason)
    assert did == [50_000]
    assert journal.check_sync().ok


def test_runs_are_moved_from_file_to_database(
    postgres_journal: Make, story: Story, sqlite: object
) -> None:
    """As JSON Lines, and back; what is there already is refused, and then nothing is added."""
    journal, other = postgres_journal(), sqlite
    keep(journal, story("a", steps=60))
    keep(journal, story("b"))
    lines = io.BytesIO()
    journal.export_lines(None, lines)
    assert sorted(other.import_lines(lines.getvalue().splitlines(keepends=True))) == ["a", "b"]  # type: ignore[attr-defined]
    with pytest.raises(JournalError, match="in this journal already"):
        journal.import_lines(lines.getvalue().splitlines(keepends=True))
    journal.delete_sync("a")
    journal.delete_sync("b")
    journal.import_lines(lines.getvalue().splitlines(keepends=True))
    assert journal.read_sync("a") == story("a", steps=60)
    assert journal.check_sync().ok


def test_a_backup_is_made_with_pg_dump(postgres_journal: Make, tmp_path: Path) -> None:
    """And the error says so."""
    with pytest.raises(JournalError, match=r"pg_dump --schema=journal_"):
        postgres_journal().backup_sync(tmp_path / "copy")


# --- locks ---------------------------------------------------------------------------------------------


def test_a_run_belongs_to_one_client(postgres_journal: Make, story: Story) -> None:
    """The other one learns who has it."""
    first, second = postgres_journal(), postgres_journal()
    claim = first.claim_sync("r")
    with pytest.raises(RunInUseError, match=f"in process {os.getpid()} on "):
        second.claim_sync("r")
    claim.give_back().result()
    second.claim_sync("r").write(story()).result()


def test_schemas_have_locks_of_their_own(postgres: PostgresServer, postgres_journal: Make) -> None:
    """The same id in another schema is another run."""
    postgres_journal().claim_sync("r")
    postgres_journal(schema=postgres.new_schema()).claim_sync("r")


def test_a_killed_process_has_no_run(postgres_journal: Make, story: Story) -> None:
    """Its connection has ended, and so have its locks. What it had committed is there."""
    journal = postgres_journal()
    keep(journal, story("other"))
    code = (
        "import sys, time\n"
        "from hookline.journal import PostgresJournal, RunStarted\n"
        "claim = PostgresJournal(sys.argv[1], schema=sys.argv[2]).claim_sync('r')\n"
        "claim.write([RunStarted('r', 0, 1.0, 'agent', 's')]).result()\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    database = journal._database
    url = f"postgresql://{PostgresServer.user}@127.0.0.1:{database._given['port']}/agents"
    process = subprocess.Popen(
        [sys.executable, "-c", code, url, database.schema], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with pytest.raises(RunInUseError, match=f"in process {process.pid} on "):
        journal.claim_sync("r")
    process.kill()
    process.wait()
    process.stdout.close()

    def is_free() -> bool:
        try:
            journal.claim_sync("r").give_back().result()
        except RunInUseError:
            return False
        return True

    wait_until(is_free, "the run is free")
    assert len(journal.read_sync("r")) == 1


def test_a_lost_connection_loses_the_run(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """What is written with the claim fails, also when the client is connected again. The run can be claimed."""
    journal, records = postgres_journal(), story()
    claim = journal.claim_sync("r")
    claim.write(records[:1]).result()
    end_connections(postgres)
    with pytest.raises(JournalError, match="no connection to the server"):
        claim.write(records[1:2]).result()
    assert journal.read_sync("r") == records[:1]
    again = journal.claim_sync("r")
    with pytest.raises(JournalError, match="not written any more"):
        claim.write(records[1:2]).result()
    again.write(records[1:]).result()
    assert journal.read_sync("r") == records
    assert journal.check_sync().ok


def test_a_lost_run_is_not_written_after_another_took_it(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """The loser has not even noticed: the server compares where the run ends."""
    first, second, records = postgres_journal(), postgres_journal(), story()
    claim = first.claim_sync("r")
    claim.write(records[:1]).result()
    postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    second.claim_sync("r").write(records[1:2]).result()
    with pytest.raises(JournalError):
        claim.write(records[1:3]).result()
    assert second.read_sync("r") == records[:2]


def test_the_server_process_must_be_the_one_with_the_lock(
    postgres_journal: Make, story: Story
) -> None:
    """As behind a pooler that nobody recognised."""
    journal, records = postgres_journal(), story()
    claim = journal.claim_sync("r")
    claim.write(records[:1]).result()
    held = journal._open()._get_writer()._held  # type: ignore[attr-defined]
    held["r"] += 1
    with pytest.raises(JournalError, match="written or deleted by another process"):
        claim.write(records[1:2]).result()
    assert journal.read_sync("r") == records[:1]


def test_a_connection_that_is_lost_while_it_is_asked_why_leaves_nobody_waiting(
    postgres_journal: Make, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that continues a deleted one fails with that, and the thread goes on with others."""

    def lose(*_: object) -> bool:
        raise JournalError("there is no connection to the server.")

    journal = postgres_journal()
    monkeypatch.setattr(writer.PostgresWriter, "_has_run", lose)
    first = RunStarted("r", 0, 1.0, "agent", "s", continues=EarlierRun("gone", 1, "00"))
    with pytest.raises(JournalError, match="no connection"):
        journal.claim_sync("r").write([first]).result(30)
    keep(journal, story("other"))


async def test_many_runs_share_a_commit(postgres_journal: Make, story: Story) -> None:
    """One of them that cannot be written is no concern of the others."""
    journal = postgres_journal()
    claims = [await journal.claim(f"r{number}") for number in range(20)]
    held = journal._open()._get_writer()._held  # type: ignore[attr-defined]
    held["r7"] = 1
    writes = [
        claim.write(story(f"r{number}")[start : start + 2])
        for start in (0, 2)
        for number, claim in enumerate(claims)
    ]
    results = await asyncio.gather(*map(asyncio.wrap_future, writes), return_exceptions=True)
    failed = [number for number, result in enumerate(results) if result is not None]
    assert failed == [7, 27]
    assert len(await journal.runs()) == 19
    assert (await journal.check()).ok


def test_a_restarted_server_is_found_again(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """Connections that were idle are replaced, without an error."""
    journal = postgres_journal()
    keep(journal, story("a"))
    postgres.stop()
    with pytest.raises(JournalError, match="no connection to the server"):
        journal.runs_sync()
    postgres.start()
    keep(journal, story("b"))
    assert [info.run_id for info in journal.runs_sync()] == ["b", "a"]


# --- settings ------------------------------------------------------------------------------------------


def test_a_session_is_set_as_promised(postgres_journal: Make) -> None:
    """Whatever the server is set to."""
    with postgres_journal()._database.connect() as connection:
        shown = {
            name: connection.execute(f"SHOW {name}".encode()).fetchone()
            for name in (
                "synchronous_commit",
                "lock_timeout",
                "tcp_keepalives_idle",
                "tcp_user_timeout",
            )
        }
        assert shown == {
            "synchronous_commit": ("on",),
            "lock_timeout": ("10s",),
            "tcp_keepalives_idle": ("3",),
            "tcp_user_timeout": ("9000",),
        }
        assert connection.info.get_parameters()["keepalives_idle"] == "3"


@pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize("processes", [0, 8])
@pytest.mark.parametrize("mode", ["transaction", "statement", "session"])
def test_a_pooler_that_shares_processes_is_refused(
    mode: str, processes: int, postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """With the remedy, also where each query goes to another process. In session mode it is as good as the server."""
    pooler = PgBouncer(postgres, mode, "server_round_robin = 1")
    url = postgres.url(port=pooler.port)
    try:
        warm = [psycopg.connect(url, autocommit=True) for _ in range(processes)]
        with ThreadPoolExecutor(
            processes or 1
        ) as threads:  # each has a process of its own for a moment
            list(threads.map(lambda each: each.execute("SELECT pg_sleep(0.2)"), warm))
        for each in warm:
            each.close()
        journal = postgres_journal(url=url)
        if mode == "session":
            keep(journal, story())
            assert journal.read_sync("r") == story()
        else:
            with pytest.raises(
                JournalError, match=r"pooler in transaction or statement mode.*session mode"
            ):
                journal.runs_sync()
        journal.close_sync()
    finally:
        pooler.close()


def test_the_time_is_that_of_the_database(
    postgres_journal: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on a machine whose clock is wrong is listed where it belongs."""

    def run(journal: PostgresJournal, run_id: str) -> None:
        agent = (
            AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_journal(journal).build()
        )
        assert agent.run_sync("go", run_id=run_id).status is RunStatus.COMPLETED

    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 600)
    monkeypatch.setattr(definition.SystemClock, "now", staticmethod(time.time))
    run(postgres_journal(), "ahead")
    monkeypatch.setattr(time, "time", right)
    monkeypatch.setattr(definition.SystemClock, "now", staticmethod(right))
    journal = postgres_journal()
    run(journal, "right")
    assert [info.run_id for info in journal.runs_sync()] == ["right", "ahead"]


# --- the URL and the password --------------------------------------------------------------------------


def test_the_password_is_shown_nowhere(postgres: PostgresServer) -> None:
    """Not in `repr`, not in errors, not when the URL is wrong."""
    secret = "s3cr3t-w0rd"
    url = f"postgresql://ann:{secret}@127.0.0.1:{postgres.port}/agents"
    journal = PostgresJournal(url)
    assert secret not in repr(journal) + str(journal)
    wrong = (
        f"postgresql://ann:{secret}@127.0.0.1:1/agents",
        f"postgresql://nobody:{secret}@127.0.0.1:{postgres.port}/nowhere",
        f"postgresql://ann:{secret}@[::1/agents",
        f"postgresql://ann:%zz{secret}@h/agents",
        f"host=h password='{secret}",
        f"{secret}",
        *(
            f"postgresql://ann:{each}@127.0.0.1:{postgres.port}/agents"
            for mark in "/@#?%"
            for each in (
                f"{secret}{mark}{secret}",
                f"{mark}{secret}",
                f"{secret}{mark}",
                f"12{mark}{secret}",
            )
        ),
        f"postgresql://{secret}/{secret}@{secret}@127.0.0.1/agents",
        f"postgresql://ann:{secret}/agents",
        *(
            f"{part}='{inner}' port={postgres.port}"
            for part in ("dbname", "host", "user", "service")
            for inner in (
                f"postgresql://ann:{secret}@h/agents",
                f" postgres://ann:{secret}@h:port/agents",
                f"host=h password={secret}",
                f"password={secret} and more",
            )
        ),
        f"postgresql://h/postgresql%3A%2F%2Fann%3A{secret}%40h%2Fagents",
        f"postgresql://h/agents?dbname=password%3D{secret}",
    )
    for each in wrong:
        with pytest.raises((JournalError, UsageError)) as caught:
            PostgresJournal(each).runs_sync()
        seen: BaseException | None = caught.value
        while seen is not None:
            assert secret not in f"{seen!r}{seen}"
            seen = seen.__cause__ or seen.__context__  # which a tool that reports errors may show


@pytest.mark.parametrize("secret", ["password", "sslpassword"])
def test_every_secret_of_libpq_is_one(secret: str) -> None:
    """It gives a warning, and is in no message."""
    url = f"postgresql://ann@h/agents?{secret}=s3cr3t"
    assert has_password(url)
    assert not has_password("postgresql://ann@h/agents?passfile=here")
    error = Database(url, "hookline").journal_error(psycopg.OperationalError("s3cr3t"), "read")
    assert "s3cr3t" not in str(error)


def test_a_refusal_says_where_to_look(postgres: PostgresServer) -> None:
    """For rights in both places of documentation; a pooler without a free connection only lets wait."""
    database = Database(postgres.url(), "hookline")
    refused = database.journal_error(psycopg.errors.InsufficientPrivilege("no"), "read")
    assert "docs/postgres.md" in str(refused)
    assert "docs/scaling.md" in str(refused)
    late = database.journal_error(psycopg.OperationalError("timeout expired"), "reached")
    assert "the pool of a pooler is not too small (default_pool_size)" in str(late)


def test_a_connection_that_is_refused_says_why(
    postgres: PostgresServer, postgres_journal: Make
) -> None:
    """An unknown role or database, or a schema that the role may not use, is not a server that cannot be reached."""
    schema = postgres_journal()._database.schema
    postgres.ask("CREATE ROLE stranger LOGIN")
    try:
        for url, words in (
            (postgres.url(user="nobody"), "the server refuses the role or its password"),
            (f"postgresql://{postgres.user}@127.0.0.1:{postgres.port}/none", "no such database"),
            (
                postgres.url(user="stranger"),
                r"the role may not do this \(permission denied for schema",
            ),
        ):
            with pytest.raises(JournalError, match=words):
                PostgresJournal(url, schema=schema).runs_sync()
        words = 'password authentication failed for user "ann"'
        error = Database(postgres.url(), schema).journal_error(
            psycopg.OperationalError(words), "read"
        )
        assert "the server refuses the role or its password" in str(error)
    finally:
        postgres.ask("DROP ROLE stranger")


def test_the_url_comes_from_the_environment(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Or from a service file, as for every program that uses libpq."""
    schema = postgres.new_schema()
    monkeypatch.delenv("HOOKLINE_DATABASE_URL", raising=False)
    with pytest.raises(UsageError, match="HOOKLINE_DATABASE_URL"):
        PostgresJournal()
    monkeypatch.setenv("HOOKLINE_DATABASE_URL", postgres.url())
    assert PostgresJournal(schema=schema).runs_sync() == []
    (tmp_path / "services").write_text(
        f"[agents]\nhost=127.0.0.1\nport={postgres.port}\ndbname=agents\nuser={postgres.user}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert PostgresJournal("service=agents", schema=schema).runs_sync() == []


@pytest.mark.parametrize("name", ["", "Big", 'a"b', "a b", "1a", "x" * 64, "a;drop"])
def test_a_schema_has_a_plain_name(name: str) -> None:
    """So that nobody has to quote it."""
    with pytest.raises(UsageError, match="schema"):
        PostgresJournal("postgresql://h/d", schema=name)


# --- versions and roles --------------------------------------------------------------------------------


def test_tables_of_another_version_are_refused(
    postgres: PostgresServer, postgres_journal: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the remedy: nothing is migrated on the way."""
    with pytest.raises(JournalError, match=r"not there.*hookline database migrate"):
        PostgresJournal(postgres.url(), schema="nothing_here").runs_sync()
    journal, now = postgres_journal(), len(tables.MIGRATIONS)
    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, "CREATE TABLE more (id bigint)"))
    with pytest.raises(
        JournalError, match=f"version {now}, and this Hookline needs {now + 1}.*database migrate"
    ):
        journal.runs_sync()
    newer = postgres_journal()
    assert newer.migrate_sync() == (now, now + 1)
    assert newer.migrate_sync() == (now + 1, now + 1)
    assert newer.runs_sync() == []
    monkeypatch.undo()
    with pytest.raises(JournalError, match=f"version {now + 1} by a newer Hookline.*Upgrade"):
        postgres_journal().runs_sync()
    with pytest.raises(JournalError, match=f"version {now + 1} by a newer Hookline.*Upgrade"):
        postgres_journal().migrate_sync()


def test_of_several_that_migrate_one_does_it(postgres: PostgresServer) -> None:
    """The others find it done."""

    now = len(tables.MIGRATIONS)

    async def migrate() -> list[tuple[int, int]]:
        journals = [PostgresJournal(postgres.url(), schema="at_once") for _ in range(6)]
        return await asyncio.gather(*(journal.migrate() for journal in journals))

    assert sorted(asyncio.run(migrate())) == [(0, now)] + [(now, now)] * 5


def test_the_inbox_of_the_first_version_is_kept(
    postgres: PostgresServer, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages have no role."""
    all_of_them = tables.MIGRATIONS
    monkeypatch.setattr(tables, "MIGRATIONS", all_of_them[:1])
    journal = PostgresJournal(postgres.url(), schema="from_first")
    journal.migrate_sync()
    keep(journal, story())
    journal.close_sync()
    text = encode_message(InboxCancel(run_id="r", by="ann"))
    postgres.ask("INSERT INTO from_first.inbox (run_id, message) VALUES ('r', %s)", text)
    monkeypatch.undo()
    journal = PostgresJournal(postgres.url(), schema="from_first")
    assert journal.migrate_sync() == (1, len(all_of_them))
    (message,) = journal.inbox_sync("r")
    assert (message.by, message.role) == ("ann", "")
    journal.close_sync()
    postgres.ask("DROP SCHEMA from_first CASCADE")


# --- agents --------------------------------------------------------------------------------------------


def test_an_agent_works_with_it(postgres_journal: Make) -> None:
    """A run with a tool, and what it was afterwards."""
    did: list[int] = []

    @tool
    def act(number: int) -> str:
        """Do it."""
        did.append(number)
        return "ok"

    journal = postgres_journal()
    driver = ScriptedDriver([call("act", number=1), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(act).with_journal(journal).build()
    assert agent.run_sync("go", run_id="r").text == "done"
    assert did == [1]
    assert agent.resume_sync("r").text == "done"
    assert journal.check_sync().ok


ROLES = Path(__file__).parents[2] / "docs/postgres.md"


def test_the_documented_rights_are_enough(
    postgres: PostgresServer, postgres_journal: Make, story: Story
) -> None:
    """Each role can do its own task and not the next one; none may create a table."""
    page = ROLES.read_text(encoding="utf-8")
    grants = page.partition("```sql\n")[2].partition("```")[0]
    schema = postgres_journal()._database.schema
    for role in ("reader", "approver", "worker", "keeper"):
        postgres.ask(f"CREATE ROLE {role} LOGIN")
    postgres.ask(grants.replace("hookline", schema))
    postgres.ask("GRANT worker TO keeper")
    try:
        reader, approver, worker, keeper = (
            postgres_journal(url=postgres.url(user=role))
            for role in ("reader", "approver", "worker", "keeper")
        )
        keep(worker, story("r"))
        keep(worker, story("later"))
        for each in (reader, approver, worker, keeper):
            assert each.read_sync("r") == story("r")
            assert each.check_sync().ok
        for role in ("reader", "approver", "worker", "keeper"):
            other = postgres_journal(url=postgres.url(user=role), schema="other")
            with pytest.raises(JournalError, match="may not do this"):
                other.migrate_sync()
        answer = InboxCancel(run_id="r", by="ann", role="boss")
        with pytest.raises(JournalError, match=r"may not do this.*docs/postgres.md"):
            reader.post_sync(answer)
        approver.post_sync(answer)
        (kept,) = worker.inbox_sync("r")
        assert (kept.by, kept.role) == ("ann", "approver")
        assert kept.words == "cancelled by ann (database role approver)"
        with psycopg.connect(postgres.url(user="approver")) as connection:
            row = (b"{}", "boss")
            query = f"INSERT INTO {schema}.inbox (run_id, message, role) VALUES ('x', %s, %s)"
            connection.execute(query, row)
        query = f"DELETE FROM {schema}.inbox WHERE run_id = 'x' RETURNING role"
        assert postgres.ask(query) == [("approver",)]
        with pytest.raises(JournalError, match="may not do this"):
            keep(approver, story("new"))
        with pytest.raises(JournalError, match="may not do this"):
            worker.delete_sync("r")
        assert keeper.delete_sync("r") == ["r"]
    finally:
        for role in ("keeper", "reader", "approver", "worker"):
            postgres.ask(f"DROP OWNED BY {role}")
            postgres.ask(f"DROP ROLE {role}")


@pytest.mark.parametrize("lost_in", ["pay", "look"])
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_hooks_at_the_end_are_asked_by_whoever_has_the_run(
    postgres: PostgresServer, postgres_journal: Make, lost_in: str, is_cancelled: bool
) -> None:
    """A process that lost the run leaves it: the one that resumes it asks them, once."""
    asked: list[str] = []
    told: list[str] = []

    def build(journal: PostgresJournal) -> Agent:
        @tool(effect="once")
        async def pay() -> str:
            """Pay."""
            return await work("pay")

        @tool(effect="pure")
        async def look() -> str:
            """Look."""
            return await work("look")

        async def work(name: str) -> str:
            asked.append(name)
            if name == lost_in and asked.count(name) == 1:
                end_connections(postgres)
                if is_cancelled:  # as a worker does that finds its connection lost
                    (await journal.claim("other")).give_back()
                    current.cancel()
                    await asyncio.sleep(60)
            return "done"

        turns = [call("look"), call("pay"), say("paid")]
        driver = ScriptedDriver([lambda state: turns[state.step_count]] * 5)
        builder = AgentBuilder().with_driver(driver)
        builder.with_tools(pay, look).with_journal(journal)
        builder.on_event(lambda record: told.append(record.type))
        for point in ("error", "agent_failed", "execution_end", "session_end"):
            add = getattr(builder, f"on_{point}")
            add(lambda ctx, *, point=point: asked.append(point), name=point)
        return builder.build()

    first = postgres_journal()
    current = asyncio.create_task(build(first).run("Pay.", run_id="r"))
    with pytest.raises(RunHandedOverError, match="run 'r' is left to another process"):
        await current
    assert set(asked) <= {"look", "pay"}
    assert (told[-1], told.count("handed_over"), "result" in told) == ("handed_over", 1, False)
    result = await build(postgres_journal()).resume("r")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "paid")
    assert asked.count("pay") == 1
    assert asked[-2:] == ["execution_end", "session_end"]
    assert set(asked[:-2]) == {"look", "pay"}


async def test_a_run_that_is_lost_after_its_last_step_asks_no_hook_at_its_end(
    postgres: PostgresServer, postgres_journal: Make
) -> None:
    """What the step left is committed before they are asked."""
    asked: list[str] = []

    def build(journal: PostgresJournal) -> Agent:
        builder = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).with_journal(journal)
        builder.on_should_continue(
            lambda ctx: None if asked else end_connections(postgres), name="cuts connections"
        )
        builder.on_execution_end(lambda ctx: asked.append("end"), name="end")
        return builder.build()

    with pytest.raises(RunHandedOverError):
        await build(postgres_journal()).run("Hello?", run_id="r")
    assert asked == []
    asked.append("again")
    assert (await build(postgres_journal()).resume("r")).text == "hello"
    assert asked == ["again", "end"]


async def test_a_run_that_is_lost_before_its_end_is_written_has_no_result(
    postgres: PostgresServer, postgres_journal: Make
) -> None:
    """Listeners hear of one end: that of the process that wrote it."""
    told: list[str] = []

    def build(journal: PostgresJournal, *, cuts: bool = False) -> Agent:
        builder = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).with_journal(journal)
        builder.on_event(lambda record: told.append(record.type))
        if cuts:
            builder.on_execution_end(lambda ctx: end_connections(postgres), name="cuts connections")
        return builder.build()

    with pytest.raises(RunHandedOverError):
        await build(postgres_journal(), cuts=True).run("Hello?", run_id="r")
    assert (told[-1], "result" in told) == ("handed_over", False)
    assert (await build(postgres_journal()).resume("r")).text == "hello"
    assert (told[-1], told.count("result")) == ("result", 1)


def test_what_happened_after_a_backup_is_in_doubt(
    postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restored journal does not know of later calls: the loss is accepted, and a `once` tool is not called again."""
    schema = postgres.new_schema()
    place = ["--database", postgres.url(), "--schema", schema]
    assert PROGRAMS is not None
    file = str(tmp_path / "backup")
    paid: list[int] = []

    def build(journal: PostgresJournal) -> Agent:
        @tool(effect="once")
        def pay(number: int) -> str:
            """Pay."""
            paid.append(number)
            if len(paid) == 1:
                program = [PROGRAMS / "pg_dump", f"--schema={schema}", "--format=custom"]
                subprocess.run([*program, f"--file={file}", postgres.url()], check=True)
            return "paid"

        def turn(state: AgentState) -> Scripted:
            count = state.step_count
            return call("pay", number=count) if count < 3 else say("done")

        builder = AgentBuilder().with_driver(ScriptedDriver([turn] * 10)).with_tools(pay)
        return builder.with_journal(journal).build()

    with PostgresJournal(postgres.url(), schema=schema) as journal:
        assert build(journal).run_sync("Pay.", run_id="r").text == "done"
        assert build(journal).run_sync("Pay.", run_id="later").text == "done"
    assert paid == [0, 1, 2] * 2
    postgres.ask(f"DROP SCHEMA {schema} CASCADE")
    program = [PROGRAMS / "pg_restore", f"--dbname={postgres.url()}", file]
    subprocess.run(program, check=True)
    assert main(["journal", "check", *place, "--accept-loss"]) == 0
    assert "runs that may have lost their end: 1" in capsys.readouterr().out
    with PostgresJournal(postgres.url(), schema=schema) as journal:
        assert [each.run_id for each in journal.runs_sync()] == ["r"]
        result = build(journal).resume_sync("r")
        assert result.text == "done"
        assert journal.check_sync().ok
        # A run that began after that has lost nothing.
        assert build(journal).run_sync("Pay.", run_id="later").text == "done"
    assert paid == [0, 1, 2] * 3, "the first run paid nothing twice"
    postgres.ask(f"DROP SCHEMA {schema} CASCADE")


def test_every_run_that_may_continue_may_have_lost_its_end(
    postgres_journal: Callable[..., PostgresJournal], story: Story
) -> None:
    """Also a run that failed, which can be taken up again, and a child that has ended, which can be sent back."""
    journal = postgres_journal()
    stories = [
        story("waits", ending=None),
        story("child", parent="waits"),
        story("failed", ending=RunStatus.FAILED),
        story("ended"),
        story("child of ended", parent="ended"),
    ]
    for records in stories:
        keep(journal, records)
    assert journal.accept_loss_sync() == 3
    known = [journal.claim_sync(records[0].run_id).steps_before_loss for records in stories]
    assert known == [ANY_STEPS] * 3 + [None] * 2


@pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed")
def test_a_synchronous_standby_has_what_was_committed() -> None:
    """A call waits until the standby knows of it. When the standby takes over in the call, it is in doubt."""
    primary = PostgresServer()
    standby = Standby(primary)
    paid: list[int] = []
    is_paying, goes_on = threading.Event(), threading.Event()

    @tool(effect="once")
    def pay(number: int) -> str:
        """Pay."""
        paid.append(number)
        is_paying.set()
        goes_on.wait()
        return "paid"

    def turn(state: AgentState) -> Scripted:
        return call("pay", number=state.step_count) if state.step_count < 2 else say("done")

    def build(journal: PostgresJournal) -> Agent:
        builder = AgentBuilder().with_driver(ScriptedDriver([turn] * 10)).with_tools(pay)
        return builder.with_journal(journal).build()

    def drive() -> None:
        with pytest.raises(RunHandedOverError):
            build(journal).run_sync("Pay.", run_id="r")

    def waiting() -> list[object]:
        return primary.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")

    try:
        primary.new_schema()
        primary.ask("ALTER SYSTEM SET synchronous_commit = off")  # the session sets it itself
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.ask("SELECT pg_reload_conf()")
        follows = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until(lambda: bool(primary.ask(follows)), "the standby follows")
        ((receiver,),) = standby.ask("SELECT pid FROM pg_stat_wal_receiver")
        os.kill(receiver, signal.SIGSTOP)
        journal = PostgresJournal(primary.url(), schema="journal_1")
        running = threading.Thread(target=drive)
        running.start()
        wait_until(lambda: bool(waiting()), "a commit waits for the standby")
        assert not paid
        os.kill(receiver, signal.SIGCONT)
        assert is_paying.wait(60)
        primary.stop(with_signal=signal.SIGQUIT)
        goes_on.set()
        running.join()
        standby.ask("SELECT pg_promote()")
        with PostgresJournal(standby.url(), schema="journal_1") as other:
            assert build(other).resume_sync("r").text == "done"
            assert other.check_sync().ok
        assert paid == [0, 1], "the call that the standby knew of was not made again"
    finally:
        goes_on.set()
        standby.close()
        primary.close()
