"""`hookline journal`: check, backup, and a loss that is accepted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline import SQLiteJournal
from hookline.cli.exits import Exit


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
