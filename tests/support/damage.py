"""Random damage to a file, and what a journal says about it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from hookline.errors import JournalError
from hookline.journal import SQLiteJournal
from hookline.journal.write_ahead_log import PAGE_SIZE

BESIDE = ("", "-wal", "-commits")


def copy_journal(path: Path, directory: Path) -> Path:
    """A journal with the files beside it, as they are now."""
    directory.mkdir(parents=True, exist_ok=True)
    for end in BESIDE:
        beside = path.with_name(path.name + end)
        if beside.exists():
            shutil.copyfile(beside, directory / beside.name)
    return directory / path.name


def harm(path: Path, chance: random.Random) -> str:
    """Flip a bit, cut the end off or write garbage somewhere. Says what was done."""
    content = bytearray(path.read_bytes())
    where, kind = chance.randrange(len(content)), chance.choice(["flip", "cut", "garbage"])
    if kind == "flip":
        content[where] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del content[where:]
    else:
        garbage = chance.randbytes(chance.randint(2, 5000))[: len(content) - where]
        content[where : where + len(garbage)] = garbage
    path.write_bytes(content)
    return f"{kind} at {where}"


def content_of(path: Path) -> object:
    """Everything in a journal."""
    with SQLiteJournal(path) as journal:
        infos = journal.runs_sync()
        run_ids = [info.run_id for info in infos]
        records = [journal.read_sync(run_id) for run_id in run_ids]
        return infos, journal.sessions_sync(), records, journal.inbox_sync(*run_ids)


COMMITS = ("whole", "empty", "flipped", "missing")
"""What may be wrong with the file of last commits."""


def harm_commits(path: Path, kind: str, chance: random.Random) -> None:
    """Damage the file of last commits of a journal."""
    commits = path.with_name(f"{path.name}-commits")
    if kind == "empty":
        commits.write_bytes(b"")
    elif kind == "flipped":
        content = bytearray(commits.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        commits.write_bytes(content)
    elif kind == "missing":
        commits.unlink()


def is_last_commit_harmed(before: bytes, log: bytes) -> bool:
    """Whether damage of a log reaches its last commit. Then nothing behind the damage says that there was more."""
    frames = range(32, len(before), PAGE_SIZE + 24)
    commits = [start for start in frames if any(before[start + 4 : start + 8])]
    last = commits[-2] + PAGE_SIZE + 24
    return before[last:] != log[last:]


def is_silent(path: Path, before: object, *, may_note: bool = False) -> bool:
    """Whether a journal says that it is whole, and has other content than before.

    A note is enough only with `may_note`: whoever damages the file of last commits always gets one.
    """
    try:
        with SQLiteJournal(path) as journal:
            report = journal.check_sync()
        if not report.ok or (report.notes and may_note):
            return False
        return content_of(path) != before
    except JournalError:
        return False
