"""Full and read-only disks, damaged and foreign files: one clear error each, and nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from somebody import as_somebody, is_root

from hookline.errors import JournalError, UnknownRunError
from hookline.journal import PromptSubmitted, Record, SQLiteJournal, connection
from hookline.journal.write_ahead_log import PAGE_SIZE

Story = Callable[..., list[Record]]
HERE = Path(__file__).parent


def keep(journal: SQLiteJournal, records: list[Record]) -> None:
    """Write a run as a whole, and give it back."""
    claim = journal.claim_sync(records[0].run_id)
    claim.write(records).result()
    claim.give_back().result()


# --- a place where no journal can be ---------------------------------------------------------------


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    """The remedy gives a file in it."""
    with pytest.raises(JournalError, match=rf"directory.*Give a file in it: '{tmp_path}/journal"):
        SQLiteJournal(tmp_path).open_sync()


def test_a_missing_directory(tmp_path: Path) -> None:
    """It is named; nothing is made."""
    with pytest.raises(JournalError, match=rf"there is no directory '{tmp_path}/a/b'.*Make the"):
        SQLiteJournal(tmp_path / "a" / "b" / "journal.db").open_sync()
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    """The same."""
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="there is no directory"):
        SQLiteJournal(tmp_path / "file" / "journal.db").open_sync()


def test_a_device(tmp_path: Path) -> None:
    """What is written there is gone."""
    with pytest.raises(JournalError, match=r"device or a pipe.*Give a file"):
        SQLiteJournal("/dev/null").open_sync()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalError, match="device or a pipe"):
        SQLiteJournal(tmp_path / "pipe").open_sync()


# --- a file that is no journal ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"dear diary, " * 200, b"x", b"\0" * 400, bytes(range(256)) * 20]
)
def test_a_file_that_is_no_database(path: Path, content: bytes) -> None:
    """However small it is; it is left as it is."""
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"it is not a journal.*move that file away"):
        SQLiteJournal(path).open_sync()
    assert path.read_bytes() == content


def test_a_database_of_another_program(path: Path) -> None:
    """It is left as it is."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (name TEXT)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(JournalError, match=r"a database of another program.*its own file"):
        SQLiteJournal(path).open_sync()
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_journal(path: Path, story: Story) -> None:
    """Such as one that was made for its permissions."""
    path.touch()
    with SQLiteJournal(path) as journal:
        keep(journal, story())
        assert journal.check_sync().ok


def test_a_journal_that_was_emptied(path: Path, story: Story) -> None:
    """Runs were written to it: that nothing is left is not taken for a new beginning, unless it is deleted."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    os.truncate(path, 0)
    with pytest.raises(JournalError, match=r"has been emptied.*backup, or delete it"):
        SQLiteJournal(path).open_sync()
    path.unlink()
    with SQLiteJournal(path) as journal:
        assert journal.runs_sync() == []


# --- a damaged file --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of some pages, in one file."""
    path = tmp_path_factory.mktemp("sound") / "journal.db"
    with SQLiteJournal(path) as journal:
        for number in range(6):
            run_id = f"run {number}"
            prompts = [PromptSubmitted(run_id, n, float(n), "word " * 60) for n in range(12)]
            claim = journal.claim_sync(run_id)
            claim.write(prompts[:5])
            claim.write(prompts[5:]).result()
            claim.give_back().result()
    return path


def look(path: Path) -> tuple[list[object], bool]:
    """Everything that can be had from a journal, and whether its check is clean. Only our errors may come out."""
    try:
        with SQLiteJournal(path) as journal:
            everything = [*journal.runs_sync(), *(journal.read_sync(f"run {n}") for n in range(6))]
            return everything, journal.check_sync().ok
    except JournalError:
        return [], False


def check_report(path: Path) -> None:
    """A damaged journal refuses to open, or gives a report."""
    journal = SQLiteJournal(path)
    try:
        journal.open_sync()
    except JournalError:
        return
    with journal:
        assert str(journal.check_sync())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_truncated_file(share: float, sound: Path) -> None:
    """Cut anywhere, it is an error or an empty journal, and never a part that passes for the whole."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "journal.db"
        shutil.copy(sound, copy)
        os.truncate(copy, int(share * copy.stat().st_size))
        assert look(copy) == ([], False)
        check_report(copy)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_edited_file(data: st.DataObject, sound: Path) -> None:
    """Whichever byte is changed: an error, or a report of damage, or all that was written."""
    content = bytearray(sound.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] = data.draw(st.integers(0, 255).filter(lambda new: new != content[position]))
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "journal.db"
        copy.write_bytes(content)
        found, is_clean = look(copy)
        if is_clean:
            assert found == look(sound)[0]
        check_report(copy)


def test_an_edited_table_is_damage(sound: Path, tmp_path: Path) -> None:
    """One letter in the text of a table, and its rows have no number any more."""
    copy = tmp_path / "edited.db"
    before, after = (b"runs (\n    id INTEGER%sPRIMARY KEY" % each for each in (b" ", b"A"))
    content = sound.read_bytes()
    assert before in content
    copy.write_bytes(content.replace(before, after))
    assert look(copy) == ([], False)
    check_report(copy)


def test_damage_in_the_file_is_reported_by_run(sound: Path, tmp_path: Path) -> None:
    """A page of zeros: the runs on it are named, the others can be read."""
    copy = tmp_path / "journal.db"
    content = bytearray(sound.read_bytes())
    where = content.rindex(b'"run 3"')
    page = where // PAGE_SIZE * PAGE_SIZE
    content[page : page + PAGE_SIZE] = bytes(PAGE_SIZE)
    copy.write_bytes(content)
    with SQLiteJournal(copy) as journal:
        report = journal.check_sync()
        assert not report.ok
        assert report.file_damage
        assert "run 'run 3'" in str(report)
        readable = 0
        for number in range(6):
            with suppress(JournalError):
                readable += len(journal.read_sync(f"run {number}")) == 12
        assert 0 < readable < 6


# --- a full disk -----------------------------------------------------------------------------------


def fill(journal: SQLiteJournal, size: int = 2000) -> tuple[int, JournalError]:
    """Write batches of two until one fails. Gives how many were committed, and why no more."""
    claim = journal.claim_sync("r")
    for number in range(0, 100_000, 2):
        records = [PromptSubmitted("r", number + n, 0.0, "x" * size) for n in (0, 1)]
        try:
            claim.write(records).result()
        except JournalError as error:
            with pytest.raises(JournalError, match=r"not written any more.*a write has failed"):
                claim.write(records).result()
            claim.give_back().result()
            return number, error
    raise AssertionError("it was never full")


def go_on_after(journal: SQLiteJournal, count: int) -> None:
    """All that was committed is there, nothing is in part, and with room again the run continues."""
    assert len(journal.read_sync("r")) == count
    assert journal.check_sync().ok
    claim = journal.claim_sync("r")
    claim.write([PromptSubmitted("r", count, 0.0, "more")]).result()
    claim.give_back().result()
    assert len(journal.read_sync("r")) == count + 1
    assert journal.check_sync().ok


def test_a_file_that_may_not_grow(sqlite: SQLiteJournal) -> None:
    """SQLite's own limit."""
    assert sqlite._open()._writer is not None
    sqlite._open()._writer.run_exclusively(
        lambda connection: connection.execute("PRAGMA max_page_count = 60")
    )
    count, error = fill(sqlite)
    assert count > 10
    assert "the disk is full" in str(error)
    again = "start it again if the journal does not list it"
    assert error.remedy == f"Free some space, then resume the run; {again}."
    sqlite._open()._writer.run_exclusively(
        lambda connection: connection.execute("PRAGMA max_page_count = 100000")
    )
    go_on_after(sqlite, count)


def test_other_runs_are_not_poisoned(sqlite: SQLiteJournal, story: Story) -> None:
    """Only the claim whose write failed is broken."""
    other = sqlite.claim_sync("other")
    other.write(story("other")[:5]).result()
    assert sqlite._open()._writer is not None
    sqlite._open()._writer.run_exclusively(
        lambda connection: connection.execute("PRAGMA max_page_count = 30")
    )
    fill(sqlite)
    sqlite._open()._writer.run_exclusively(
        lambda connection: connection.execute("PRAGMA max_page_count = 100000")
    )
    other.write(story("other")[5:]).result()
    assert sqlite.read_sync("other") == story("other")


def test_a_limit_on_the_size_of_files(path: Path) -> None:
    """The kernel refuses the write."""
    code = """
import resource, sys
sys.path[:0] = sys.argv[2:]
from test_connection import fill
from hookline.journal import SQLiteJournal
journal = SQLiteJournal(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
count, error = fill(journal)
print(count)
print(error)
print(len(journal.read_sync("r")), journal.check_sync())
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path), *(str(HERE / name) for name in ("", "../support"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    count, error, state = ended.stdout.splitlines()
    assert int(count) > 5
    assert "cannot be written: the disk failed, or refused" in error
    assert state.startswith(f"{count} ")
    assert state.endswith("no damage")
    with SQLiteJournal(path) as journal:
        go_on_after(journal, int(count))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 KB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(mount)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here: that takes root on Linux")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_a_full_disk(small_disk: Path, synchronous: str) -> None:
    """Nothing is lost that was committed, and when there is room again it continues."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(60_000))
    with SQLiteJournal(small_disk / "journal.db", synchronous=synchronous) as journal:  # type: ignore[arg-type]
        count, error = fill(journal)
        assert count > 10
        assert "the disk is full" in str(error)
        assert len(journal.read_sync("r")) == count
        ballast.unlink()
        go_on_after(journal, count)


def test_a_journal_cannot_be_made_on_a_full_disk(small_disk: Path) -> None:
    """It says so, and can be made when there is room."""
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(bytes(400_000))
    with pytest.raises(JournalError, match=r"journal.db' cannot be opened"):
        SQLiteJournal(small_disk / "journal.db").open_sync()
    ballast.unlink()
    with SQLiteJournal(small_disk / "journal.db"):
        pass


# --- a read-only file or disk ----------------------------------------------------------------------


@pytest.fixture
def mortal() -> Iterator[Path]:
    """A directory in which permissions mean something, also when the tests are run by root."""
    with as_somebody() as directory:
        yield directory


def check_read_only(path: Path, records: list[Record]) -> None:
    """Everything can be read, and nothing written."""
    with SQLiteJournal(path) as journal:
        assert journal.read_sync("r") == records
        assert len(journal.runs_sync()) == 1
        assert journal.check_sync().ok
        for ask in (
            lambda: journal.claim_sync("r"),
            lambda: journal.claim_sync("new"),
            lambda: journal.delete_sync("r"),
            lambda: journal.prune_sync(keep=0),
            journal.vacuum,
        ):
            with pytest.raises(JournalError, match=r"is read-only.*writable, or give another path"):
                ask()


def test_a_read_only_file(mortal: Path, story: Story) -> None:
    """It can be read, and nothing else."""
    path = mortal / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    path.chmod(0o444)
    check_read_only(path, story())


def test_a_read_only_directory(mortal: Path, story: Story) -> None:
    """SQLite cannot make its files there, and a journal nobody is writing can be read without."""
    path = mortal / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    mortal.chmod(0o555)
    check_read_only(path, story())
    with pytest.raises(JournalError, match=r"cannot be made: its directory is read-only"):
        SQLiteJournal(mortal / "new.db").open_sync()


def test_no_file_of_last_commits_can_be_made(mortal: Path, story: Story) -> None:
    """Without one a loss would not be noticed, so nothing is written."""
    path = mortal / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
        path.with_name("journal.db-commits").unlink()
        mortal.chmod(0o555)
        with SQLiteJournal(path) as other:
            assert other.read_sync("r") == story()
            with pytest.raises(JournalError, match="-commits' is read-only"):
                other.claim_sync("new")
        mortal.chmod(0o755)


def test_a_file_that_may_not_be_read(mortal: Path, story: Story) -> None:
    """It says what to do."""
    path = mortal / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    path.chmod(0o000)
    with pytest.raises(JournalError, match=r"cannot be opened.*readable and writable"):
        SQLiteJournal(path).open_sync()


def test_a_file_that_becomes_read_only_while_it_is_open(mortal: Path, story: Story) -> None:
    """What is open stays open: the run continues."""
    path = mortal / "journal.db"
    with SQLiteJournal(path) as journal:
        claim = journal.claim_sync("r")
        claim.write(story()[:4]).result()
        path.chmod(0o444)
        claim.write(story()[4:]).result()
        claim.give_back().result()
        assert journal.read_sync("r") == story()


@pytest.mark.skipif(not is_root, reason="a read-only mount takes root")
def test_a_read_only_disk(small_disk: Path, story: Story) -> None:
    """The same as a read-only directory."""
    path = small_disk / "journal.db"
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    check_read_only(path, story())


def test_a_run_that_is_not_there_is_no_damage(sqlite: SQLiteJournal) -> None:
    """A kind of its own among the errors of a journal."""
    with pytest.raises(UnknownRunError):
        sqlite.read_sync("r")


def test_another_process_that_does_not_stop_writing(
    path: Path, sqlite: SQLiteJournal, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long wait, an error that says so; the run can continue later."""
    claim = sqlite.claim_sync("r")
    claim.write(story()[:3]).result()
    monkeypatch.setattr("hookline.journal.writer.BUSY_SECONDS", 0.02)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match=r"another process has been writing.*try again"):
        claim.write(story()[3:]).result()
    assert sqlite.read_sync("r") == story()[:3]
    other.execute("ROLLBACK")
    other.close()
    claim.give_back().result()
    keep(sqlite, story()[3:])
    assert sqlite.read_sync("r") == story()


@pytest.mark.parametrize("what", ["deleted", "moved", "replaced"])
def test_a_file_that_is_gone_while_it_is_open(
    path: Path, sqlite: SQLiteJournal, story: Story, what: str
) -> None:
    """SQLite would keep writing to a lost file; the run gets an error instead, after some hundredths of a second."""
    claim = sqlite.claim_sync("r")
    claim.write(story()).result()
    if what == "deleted":
        path.unlink()
    else:
        path.rename(path.with_name("elsewhere.db"))
    if what == "replaced":
        path.touch()
    more = [PromptSubmitted("r", 5, 9000.0, "more")]
    errors = (claim.write(more).exception() for _ in range(100_000))
    words = str(next(filter(None, errors), None))
    assert re.search("deleted, moved or replaced while it was open.*Put it", words)


# --- the version of the tables -----------------------------------------------------------------------


def ask(path: Path, query: str) -> Any:
    """What a statement answers, in a connection of its own."""
    opened = sqlite3.connect(path, isolation_level=None)
    try:
        return opened.execute(query).fetchone()
    finally:
        opened.close()


def test_the_file_says_what_it_is(path: Path) -> None:
    """Which program made it, and the version of its tables; `file` shows both."""
    with SQLiteJournal(path):
        pass
    assert ask(path, "PRAGMA application_id") == (connection.APPLICATION,)
    assert ask(path, "PRAGMA user_version") == (connection.newest(),)
    assert ask(path, "PRAGMA journal_mode") == ("delete",)  # it was closed


def test_a_newer_version_is_refused(path: Path, story: Story) -> None:
    """For reading too, and the file is left as it is."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    ask(path, f"PRAGMA user_version = {connection.newest() + 1}")
    content = path.read_bytes()
    with pytest.raises(JournalError, match=r"a newer Hookline.*version \d.*Upgrade hookline"):
        SQLiteJournal(path).open_sync()
    assert path.read_bytes() == content


def test_an_older_version_is_brought_up_to_date(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in it stays, and it is done once."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    later = "ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'; CREATE TABLE more (x)"
    monkeypatch.setattr(connection, "MIGRATIONS", (*connection.MIGRATIONS, later))
    for _ in range(2):
        with SQLiteJournal(path) as journal:
            assert journal.read_sync("r") == story()
            keep(journal, story("new"))
            journal.delete_sync("new")
    assert ask(path, "PRAGMA user_version") == (connection.newest(),)
    assert ask(path, "SELECT note FROM runs") == ("none",)


def test_a_new_file_has_the_newest_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes every step on the way."""
    monkeypatch.setattr(connection, "MIGRATIONS", (*connection.MIGRATIONS, "CREATE TABLE more (x)"))
    with SQLiteJournal(path):
        pass
    assert ask(path, "PRAGMA user_version") == (connection.newest(),)
    assert ask(path, "SELECT count(*) FROM more") == (0,)


def test_a_step_that_fails_changes_nothing(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older Hookline can still use the file."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    with monkeypatch.context() as patch:
        patch.setattr(
            connection, "MIGRATIONS", (*connection.MIGRATIONS, "DROP TABLE runs; nonsense")
        )
        with pytest.raises(JournalError, match="cannot be opened"):
            SQLiteJournal(path).open_sync()
    with SQLiteJournal(path) as journal:
        assert journal.read_sync("r") == story()
        assert journal.check_sync().ok


def test_an_older_version_that_cannot_be_written(
    path: Path, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be brought up to date, so it cannot be read; the remedy says what to do."""
    with SQLiteJournal(path) as journal:
        keep(journal, story())
    monkeypatch.setattr(connection, "MIGRATIONS", (*connection.MIGRATIONS, "CREATE TABLE more (x)"))
    monkeypatch.setattr("hookline.journal.sqlite.is_writable", lambda path: False)
    with pytest.raises(JournalError, match=r"older than this Hookline.*Make it writable once"):
        SQLiteJournal(path).open_sync()


def test_an_empty_file_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to read in it."""
    path.touch()
    monkeypatch.setattr("hookline.journal.sqlite.is_writable", lambda path: False)
    with pytest.raises(JournalError, match="it is empty, and it is read-only"):
        SQLiteJournal(path).open_sync()


def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """One makes the tables, the others wait for it."""
    for round in range(5):
        path = tmp_path / f"{round}.db"
        failures: list[BaseException] = []
        barrier = threading.Barrier(6)

        def work(path: Path = path, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                with SQLiteJournal(path) as journal:
                    assert journal.runs_sync() == []
            except BaseException as error:
                failures.append(error)  # noqa: B023 - joined before the next round

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_the_shell_shows_the_list(path: Path, story: Story) -> None:
    """Columns have the names of the fields."""
    with SQLiteJournal(path) as journal:
        keep(journal, story(steps=2))
    columns = "run_id, session_id, agent_id, status, prompt, records, steps"
    row = ask(path, f"SELECT {columns} FROM runs")
    assert row == ("r", "s", "agent", "completed", "hello", 16, 2)
