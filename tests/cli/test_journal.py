"""`hookline journal`: check, backup, and a loss that is accepted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from damage import copy_journal

from hookline import SQLiteJournal
from hookline.cli.exits import Exit

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


@pytest.fixture
def journal(place: Any) -> Path:
    """The journal of a project with one run."""
    done = place.run("run", "--model", place.script({"say": "Hello."}), "Hi.")
    assert done.returncode == 0, done.stderr
    (path,) = Path(place.project).parent.rglob("journal.db")
    return path


def lose(path: Path) -> None:
    """Put an older state of the file back: the last commit is gone."""
    older = path.with_name("older.db")
    shutil.copyfile(path, older)
    with SQLiteJournal(path) as journal:
        (info, *_) = journal.runs_sync()
        claim = journal.claim_sync(info.run_id)
        claim.write(journal.read_sync(info.run_id)[:1]).result()
        claim.give_back().result()
    shutil.move(older, path)


def test_a_whole_journal_is_whole(place: Any, journal: Path) -> None:
    """It says how much it examined."""
    done = place.run("journal", "check")
    assert done.returncode == 0, done.stderr
    assert f"{journal}: 1 run, " in done.stdout
    assert done.stdout.endswith("no damage\n")


def test_a_backup_is_made_once(place: Any, journal: Path, tmp_path: Path) -> None:
    """It has the same runs, and the second one is refused."""
    copy = tmp_path / "copy.db"
    assert place.run("journal", "backup", str(copy)).returncode == 0
    with SQLiteJournal(copy) as copied, SQLiteJournal(journal) as original:
        assert copied.runs_sync() == original.runs_sync()
    again = place.run("journal", "backup", str(copy))
    assert again.returncode == Exit.FAILED
    assert "a backup never replaces anything" in again.stderr


def test_a_lost_end_is_reported_until_it_is_accepted(place: Any, journal: Path) -> None:
    """Nothing is recorded before that."""
    lose(journal)
    done = place.run("journal", "check")
    assert done.returncode == Exit.FAILED
    assert "records, and the last of them is missing" in done.stdout
    refused = place.run("run", "--model", place.script({"say": "Hello."}), "Hi.")
    assert refused.returncode == Exit.FAILED
    assert "hookline journal check --accept-loss" in refused.stderr
    accepted = place.run("journal", "check", "--accept-loss")
    assert accepted.returncode == 0
    assert "its end was lost, and that was accepted on" in accepted.stdout
    assert place.run("run", "--model", place.script({"say": "Hello."}), "Hi.").returncode == 0


def test_what_is_read_of_a_journal_names_its_loss(place: Any, journal: Path) -> None:
    """Beside the runs that are left."""
    lose(journal)
    for words in (["runs"], ["runs", "--all", "--json"], ["show", "last"]):
        done = place.run(*words)
        assert done.returncode == 0, done.stderr
        assert "Hi." in done.stdout
        assert done.stderr.count("is lost: ") == 1, done.stderr
        assert "the last of them is missing" in done.stderr


def test_a_run_that_is_not_there_may_be_among_what_was_lost(
    place: Any, journal: Path, tmp_path: Path
) -> None:
    """Every command says so, of a log that is damaged from its beginning."""
    with SQLiteJournal(tmp_path / "lost.db") as opened, SQLiteJournal(journal) as known:
        (info, *_) = known.runs_sync()
        claim = opened.claim_sync(info.run_id)
        claim.write(known.read_sync(info.run_id)).result()
        claim.give_back().result()
        path = copy_journal(Path(opened.path), tmp_path / "copy")  # as a killed process leaves it
    log = path.with_name("lost.db-wal")
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    for words in (
        ["show", info.run_id],
        ["show", "last"],
        ["cancel", info.run_id],
        ["approve", info.run_id],
        ["resume", info.run_id],
        ["replay", info.run_id],
        ["backtest", info.run_id],
        ["runs", "--delete", info.run_id],
        ["run", "--model", place.script({"say": "Hello."}), "--from", info.run_id, "Hi."],
    ):
        done = place.run(*words, "--journal", str(path))
        assert done.returncode == Exit.FAILED, (words, done.stderr)
        assert "is lost: runs or sessions that were created" in done.stderr, words
        assert "it may be among what was lost" in done.stderr, words
    listed = place.run("runs", "--journal", str(path))
    assert (listed.returncode, listed.stdout) == (Exit.FAILED, "")
    assert "no run is left in the journal" in listed.stderr
    assert "is lost: runs or sessions that were created" in listed.stderr
    chat = place.run("chat", "--session", "s", "--journal", str(path))
    assert "is lost: runs or sessions that were created" in chat.stderr


def test_resume_accepts_a_loss_when_it_is_told_to(place: Any, journal: Path) -> None:
    """Without the flag it refuses."""
    with SQLiteJournal(journal) as opened:
        (info, *_) = opened.runs_sync()
    lose(journal)
    assert "is lost" in place.run("resume", info.run_id).stderr
    done = place.run("resume", info.run_id, "--accept-loss")
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr


def test_resume_accepts_a_log_that_is_gone(place: Any, journal: Path) -> None:
    """Only the database was copied while it was in use: it cannot even be read before that."""
    with SQLiteJournal(journal) as opened:
        (info, *_) = opened.runs_sync()
        opened.vacuum()  # so that the file has everything
        copy = journal.read_bytes()
    journal.write_bytes(copy)
    journal.with_name("journal.db-commits").unlink()
    refused = place.run("resume", info.run_id)
    assert refused.returncode == Exit.FAILED
    assert "was not closed, and its write-ahead log" in refused.stderr
    done = place.run("resume", info.run_id, "--accept-loss")
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr


def test_without_a_journal_there_is_nothing_to_check(place: Any) -> None:
    """It says so, and makes none."""
    done = place.run("journal", "check")
    assert done.returncode == Exit.USAGE
    assert "there are no runs here yet" in done.stderr


@pytest.mark.parametrize("flags", [[], ["--journal", "mine.db"]], ids=["default", "named"])
def test_a_log_without_its_database_is_named(place: Any, journal: Path, flags: list[str]) -> None:
    """Every command says that the database is gone, and none that there are no runs. Nothing is made or deleted."""
    path = place.project / "mine.db" if flags else journal
    journal.unlink()
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(b"x" * 5000)
    for words in (
        ["journal", "check"],
        ["journal", "check", "--accept-loss"],
        ["journal", "backup", "copy.db"],
        ["runs"],
        ["runs", "--all"],
        ["resume", "last", "--accept-loss"],
        ["show", "last"],
        ["backtest"],
        ["run", "--model", place.script({"say": "Hello."}), "Hi."],
    ):
        done = place.run(*words, *flags)
        assert done.returncode == Exit.FAILED, (words, done.stderr)
        assert f"{path}' is missing or empty, but its write-ahead log exists" in done.stderr, words
    if not flags:
        assert "its write-ahead log exists" in place.run("doctor").stdout
    assert not path.exists()
    assert log.exists()


def test_a_log_of_another_project_is_reported(place: Any, journal: Path) -> None:
    """The list of all runs says what it skips."""
    elsewhere = journal.parent.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "journal.db-wal").write_bytes(b"x" * 5000)
    done = place.run("runs", "--all")
    assert done.returncode == Exit.DONE
    assert "1 step" in done.stdout
    assert "skipped: the journal" in done.stderr
    assert "its write-ahead log exists" in done.stderr


def write_beside(
    place: Any, journal: str, *flags: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """A run whose command puts a file beside the journal."""
    turns = ({"call": "bash", "args": {"command": f"echo x > {journal}-journal"}}, {"say": "done"})
    return place.run("run", "--model", place.script(*turns), *flags, "go", **env)


@needs_bubblewrap
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_a_journal_that_commands_can_write_is_refused(place: Any, way: str) -> None:
    """Whoever names it: what a command puts beside it changes what is on record."""
    path = place.project / "data" / "r.db"
    flags = ["--journal", str(path)] if way == "flag" else []
    env = {"HOOKLINE_JOURNAL": str(path)} if way == "variable" else {}
    done = write_beside(place, "data/r.db", *flags, **env)
    assert done.returncode == 6
    assert "is in a directory that commands can write" in done.stderr
    assert f"{place.project}/.hookline/" in done.stderr
    assert not list(place.project.rglob("*-journal"))


@needs_bubblewrap
@pytest.mark.parametrize("flags", [(), ("--no-save",)])
@pytest.mark.parametrize("name", ["XDG_DATA_HOME", "HOOKLINE_DATA_DIR"])
def test_the_data_of_hookline_is_read_only_for_commands(
    place: Any, name: str, flags: tuple[str, ...]
) -> None:
    """Also where a variable puts it into the project: the journals, and what was approved of MCP servers."""
    folder = "data/hookline" if name == "XDG_DATA_HOME" else "data"
    done = write_beside(
        place,
        # The policy denies a plain write, before the kernel refuses it.
        f"/tmp/x; ln -s {folder} z; echo x > z/x; touch z/y; ls {folder}",
        *flags,
        **{name: str(place.project / "data")},
    )
    assert done.returncode == 0
    assert "Read-only file system" in done.stderr
    assert not list(place.project.rglob("x*"))
    assert not list(place.project.rglob("y"))


@needs_bubblewrap
def test_a_home_has_its_journal_in_a_hidden_entry(place: Any) -> None:
    """Commands see nothing of it, so that a run in a home needs no other place."""
    place.project = place.home
    done = write_beside(place, "$(find .local -name journal.db)")
    assert done.returncode == 0
    assert not list(place.home.rglob("journal.db-journal"))
