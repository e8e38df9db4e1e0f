"""One process per run, and a dead one's lease is free at once."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from open_files import open_files

from hookline.errors import JournalError, RunInUseError
from hookline.journal import SQLiteJournal, lease
from hookline.journal.lease import take_lease

HOLD = """
import sys
from hookline.journal import SQLiteJournal

journal = SQLiteJournal(sys.argv[1])
claims = [journal.claim_sync(run_id) for run_id in sys.argv[2:]]
print("held", flush=True)
for line in sys.stdin:
    claims.pop().give_back().result()
    print("given back", flush=True)
"""


def test_a_live_process_keeps_its_run(
    path: Path, sqlite: SQLiteJournal, program: Callable[..., Any]
) -> None:
    """The refusal names the process and the machine, and says what to do."""
    holder = program(HOLD, path, "r")
    assert holder.line() == "held"
    words = rf"run 'r' is already running in process {holder.process.pid} on {os.uname().nodename}"
    with pytest.raises(RunInUseError, match=rf"{words}\. Wait for it, or end that process"):
        sqlite.claim_sync("r")
    sqlite.claim_sync("other").give_back().result()
    holder.say("give it back")
    assert holder.line() == "given back"
    sqlite.claim_sync("r").give_back().result()


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_dead_process_has_no_lease(
    path: Path, sqlite: SQLiteJournal, program: Callable[..., Any], name: str
) -> None:
    """However it died, its runs are free as soon as it is gone: no clock is waited for."""
    holder = program(HOLD, path, "r", "s")
    assert holder.line() == "held"
    holder.process.send_signal(getattr(signal, name))
    holder.process.wait()
    for run_id in ("r", "s"):
        sqlite.claim_sync(run_id).give_back().result()


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="locks belong to processes here")
def test_a_lease_stays_when_another_reader_closes_its_file(
    path: Path, sqlite: SQLiteJournal, program: Callable[..., Any]
) -> None:
    """A tool that reads a directory opens and closes the file in the process that holds the lease."""
    looks = HOLD.replace('print("held"', 'open(sys.argv[1] + "-lease").close()\nprint("held"')
    holder = program(looks, path, "r")
    assert holder.line() == "held"
    with pytest.raises(RunInUseError, match="is already running in"):
        sqlite.claim_sync("r")


def test_a_stopped_process_is_alive(
    path: Path, sqlite: SQLiteJournal, program: Callable[..., Any]
) -> None:
    """It may continue at any time, so its run stays its own."""
    holder = program(HOLD, path, "r")
    assert holder.line() == "held"
    holder.process.send_signal(signal.SIGSTOP)
    with pytest.raises(RunInUseError):
        sqlite.claim_sync("r")
    holder.process.send_signal(signal.SIGCONT)
    holder.say("give it back")
    assert holder.line() == "given back"
    sqlite.claim_sync("r").give_back().result()


def test_a_forked_child_does_not_keep_the_lease_of_a_killed_parent(
    path: Path, sqlite: SQLiteJournal, program: Callable[..., Any]
) -> None:
    """A worker that outlives the process it was forked from holds nothing."""
    code = HOLD.replace(
        'print("held", flush=True)',
        'import os, time\nif os.fork() == 0: print("held", os.getpid(), flush=True); time.sleep(60)',
    )
    holder = program(code, path, "r")
    child = int(holder.line().split()[1])
    try:
        with pytest.raises(RunInUseError):
            sqlite.claim_sync("r")
        holder.process.kill()
        holder.process.wait()
        os.kill(child, 0)
        sqlite.claim_sync("r").give_back().result()
    finally:
        os.kill(child, signal.SIGKILL)


def test_closing_one_journal_keeps_the_leases_of_another(
    path: Path, program: Callable[..., Any]
) -> None:
    """A file has one set of locks per process, and releasing one must not release all."""
    first, second = SQLiteJournal(path), SQLiteJournal(path)
    held = first.claim_sync("r")
    second.claim_sync("s").give_back().result()
    second.close_sync()
    other = program(
        """
        import sys
        from hookline.journal import SQLiteJournal
        try:
            SQLiteJournal(sys.argv[1]).claim_sync("r")
        except Exception as error:
            print(error)
        """,
        path,
    )
    assert f"running in process {os.getpid()} " in other.line()
    held.give_back().result()
    first.close_sync()


def test_nothing_stays_open_when_nothing_is_held(path: Path) -> None:
    """The descriptor is closed with the last lease; the file stays, empty, for the next."""
    path.touch()
    leases = [take_lease(str(path), f"r{number}") for number in range(50)]
    assert len(open_files(path.parent)) == 1
    for each in leases:
        each.release()
    assert open_files(path.parent) == []
    assert path.with_name("journal.db-lease").stat().st_size == 0
    assert lease._files == {}


def test_a_refused_claim_leaves_nothing_behind(path: Path, sqlite: SQLiteJournal) -> None:
    """Neither a lock nor an open file."""
    held = sqlite.claim_sync("r")
    for _ in range(3):
        with pytest.raises(RunInUseError):
            sqlite.claim_sync("r")
    held.give_back().result()
    assert lease._files == {}
    sqlite.claim_sync("r").give_back().result()


def test_a_user_who_may_write_the_journal_may_lock_it(path: Path, sqlite: SQLiteJournal) -> None:
    """The file of locks has the journal's mode, whoever made it."""
    path.chmod(0o660)
    sqlite.claim_sync("r").give_back().result()
    made = path.with_name("journal.db-lease").stat()
    assert stat.S_IMODE(made.st_mode) == 0o660
    assert (made.st_uid, made.st_gid) == (path.stat().st_uid, path.stat().st_gid)


def test_a_lease_that_cannot_be_locked(path: Path, sqlite: SQLiteJournal) -> None:
    """Something else is where the locks should be: an error that says so."""
    path.with_name("journal.db-lease").mkdir()
    with pytest.raises(JournalError, match=r"cannot be locked \(Is a directory\).*local disk"):
        sqlite.claim_sync("r")


def test_a_system_without_such_locks(
    sqlite: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs cannot be claimed there, and reading works."""
    monkeypatch.setattr(lease, "fcntl", None)
    with pytest.raises(JournalError, match="no POSIX record locks"):
        sqlite.claim_sync("r")
    assert sqlite.runs_sync() == []


def test_a_lease_can_be_released_while_another_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage is collected at any moment, and a forgotten run gives its lease back then."""
    path.touch()
    first = take_lease(str(path), "first")
    lock = lease._lock

    def collect_garbage_and_lock(*given: Any) -> None:
        first.release()
        lock(*given)

    monkeypatch.setattr(lease, "_lock", collect_garbage_and_lock)
    second = take_lease(str(path), "second")
    monkeypatch.undo()
    take_lease(str(path), "first").release()
    second.release()
    take_lease(str(path), "second").release()
