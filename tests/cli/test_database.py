"""`hookline database migrate`, and the commands that take `--database`."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres_server import PostgresServer

from hookline import AgentBuilder, HookOutcome
from hookline.cli import main
from hookline.journal import PostgresJournal
from hookline.testing import ScriptedDriver, call, say


@pytest.fixture
def url(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database in which the schema `hookline` is not there."""
    postgres.ask("DROP SCHEMA IF EXISTS hookline CASCADE")
    monkeypatch.delenv("HOOKLINE_DATABASE_URL", raising=False)
    return postgres.url()


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def run_that_waits(url: str) -> PostgresJournal:
    """A run with a question."""
    journal = PostgresJournal(url)
    driver = ScriptedDriver([call("pay", amount=5), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(pay).with_journal(journal)
    agent.on_before_tool_use(lambda ctx: HookOutcome.ask("money"), name="cashier")
    agent.build().run_sync("Pay the rent.", run_id="rent")
    return journal


def test_the_commands_work_with_a_database(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The tables are made, and a run that waits is listed, shown, answered, cancelled and deleted."""
    assert main(["runs", "--database", url]) == 1
    assert "hookline database migrate" in capfd.readouterr().err
    assert main(["database", "migrate", "--database", url]) == 0
    assert "are now of version 2 (0 before)" in capfd.readouterr().out
    assert main(["database", "migrate", "--database", url]) == 0
    assert "have version 2" in capfd.readouterr().out
    with run_that_waits(url) as journal:
        assert main(["runs", "--database", url]) == 0
        assert "rent" in capfd.readouterr().out
        assert main(["show", "rent", "--database", url]) == 0
        assert "Pay the rent." in capfd.readouterr().out
        assert main(["approve", "--database", url]) == 0
        shown = capfd.readouterr().out
        assert "cashier" in shown
        assert "hookline approve rent --database URL" in shown
        question = shown.split("--database URL ")[1].split()[0]
        assert main(["approve", "rent", question, "--database", url, "--by", "ann"]) == 0
        assert 'agent.resume("rent")' in capfd.readouterr().out
        assert main(["cancel", "rent", "--database", url, "--reason", "no"]) == 0
        assert "cancelled" in capfd.readouterr().out
        assert main(["journal", "check", "--database", url]) == 0
        assert "1 run" in capfd.readouterr().out
        assert main(["runs", "--delete", "rent", "--database", url]) == 0
        assert journal.runs_sync() == []


AGENT = """
from hookline import AgentBuilder
from hookline.testing import ScriptedDriver


def pay(amount: int) -> str:
    return "never"


agent = AgentBuilder().with_driver(ScriptedDriver([])).with_tools(pay)
agent.on_before_tool_use(lambda ctx: {answer}, name="cashier")
"""


def test_runs_in_a_database_are_replayed_and_tested(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With an agent that is the same, and with one whose hook answers something else."""
    assert main(["database", "migrate", "--database", url]) == 0
    journal = PostgresJournal(url)
    driver = ScriptedDriver([call("pay", amount=5), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(pay).with_journal(journal)
    agent.on_before_tool_use(lambda ctx: None, name="cashier")
    with journal:
        agent.build().run_sync("Pay the rent.", run_id="rent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    answers = {"same": "None", "stricter": "__import__('hookline').HookOutcome.block('no')"}
    for name, answer in answers.items():
        (tmp_path / f"{name}.py").write_text(AGENT.format(answer=answer))
    capfd.readouterr()
    for name, code in (("same", 0), ("stricter", 1)):
        given = ["--agent", f"{name}:agent", "--database", url]
        assert main(["replay", "rent", *given]) == code, capfd.readouterr()
        assert main(["backtest", "ren", "--check", *given]) == code, capfd.readouterr()
        assert main(["backtest", "--check", *given]) == code, capfd.readouterr()
        out, err = capfd.readouterr()
        assert "rent" in out
        assert not err
    assert main(["backtest", "nope", *given]) == 1
    assert "there is no run 'nope' in postgresql://" in capfd.readouterr().err
    assert main(["journal", "backup", "copy.db", "--database", url]) == 1
    assert "pg_dump" in capfd.readouterr().err


def test_the_variable_names_the_database(
    url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Unless a file is named."""
    monkeypatch.setenv("HOOKLINE_DATABASE_URL", url)
    assert main(["database", "migrate"]) == 0
    run_that_waits(url).close_sync()
    capfd.readouterr()
    assert main(["runs"]) == 0
    assert "rent" in capfd.readouterr().out
    assert main(["show", "nope"]) != 0
    assert "there is no run 'nope' in postgresql://" in capfd.readouterr().err
    assert main(["runs", "--journal", "none.db"]) == 0
    assert "rent" not in capfd.readouterr().out


def test_a_password_in_a_flag_gives_a_warning(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is accepted, and not shown."""
    given = url.replace("boss@", "boss:s3cr3t@")
    assert main(["database", "migrate", "--database", given]) == 0
    out, err = capfd.readouterr()
    assert "HOOKLINE_DATABASE_URL" in err
    assert "s3cr3t" not in out + err


def test_without_a_database_the_command_says_what_to_give(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And for a wrong URL what is wrong."""
    assert url
    assert main(["database", "migrate"]) == 2
    assert "HOOKLINE_DATABASE_URL" in capfd.readouterr().err
    assert main(["database", "migrate", "--database", "http://x"]) == 2
    assert "cannot be read" in capfd.readouterr().err
