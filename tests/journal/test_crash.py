"""A process that is killed while it writes: what was acknowledged is there, and nothing is there in part."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.journal import PromptSubmitted, SQLiteJournal

KILLS = 40
RUNS = ("a", "b", "c")

# A nursery, so that a child is there at once: it forks one for every line it gets, and says when it is dead. A child
# writes to three runs as fast as it can, and reports each batch when its future is done.
NURSERY = """
import os, random, sys
import hookline.journal.writer
from hookline.journal import PromptSubmitted, SQLiteJournal

hookline.journal.writer._LOG_PAGES = 40

def child(seed):
    chance = random.Random(seed)
    journal = SQLiteJournal(sys.argv[1])
    claims = {run_id: journal.claim_sync(run_id) for run_id in sys.argv[2:]}
    counts = {run_id: claim.tail.records for run_id, claim in claims.items()}
    os.write(1, b"begin %d\\n" % os.getpid())
    number = 0
    while True:
        run_id = chance.choice(list(claims))
        size, number = chance.randint(1, 9), number + 1
        name = f"{seed}-{number}"
        batch = [
            PromptSubmitted(run_id, counts[run_id] + n, 0.0, f"{name} {n} {size} " + "x" * chance.randint(0, 900))
            for n in range(size)
        ]
        counts[run_id] += size
        future = claims[run_id].write(batch)
        report = f"ack {run_id} {name}\\n".encode()
        future.add_done_callback(lambda future, report=report: future.exception() or os.write(1, report))
        if chance.random() < 0.4:
            future.result()

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        child(int(line))
    os.waitpid(pid, 0)
    os.write(1, b"dead\\n")
"""


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "alone"])
def test_nothing_acknowledged_is_lost_and_nothing_is_torn(
    path: Path, program: Callable[..., Any], is_watched: bool
) -> None:
    """Killed at forty random moments: every acknowledged batch is there, every batch is whole, the chains hold.

    Also when nobody else has the file open, so that the next one finds it as the dead one left it. The lease of a
    killed process is free at once: the next one resumes the same runs.
    """
    chance = random.Random()
    acknowledged: dict[str, set[str]] = defaultdict(set)
    watching = SQLiteJournal(path) if is_watched else None
    nursery = program(NURSERY, path, *RUNS)
    for seed in range(KILLS):
        nursery.say(str(seed))
        word, pid = nursery.line().split()
        assert word == "begin"
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(int(pid), signal.SIGKILL)
        while (line := nursery.line()) != "dead":
            _, run_id, batch = line.split()
            acknowledged[run_id].add(batch)
        if watching is not None or seed % 3 == 0:
            check(path, acknowledged)
    check(path, acknowledged)
    assert sum(map(len, acknowledged.values())) > KILLS
    if watching is not None:
        assert watching.check_sync().ok
        watching.close_sync()


def check(path: Path, acknowledged: dict[str, set[str]]) -> None:
    """What must hold after every kill."""
    with SQLiteJournal(path) as journal:
        assert journal.check_sync().ok
        for run_id in acknowledged:
            found: dict[str, list[int]] = defaultdict(list)
            for position, record in enumerate(journal.read_sync(run_id)):
                assert isinstance(record, PromptSubmitted)
                assert record.seq == position
                batch, index, size, *_ = record.text.split(" ")
                assert len(found[batch]) == int(index)
                found[batch].append(int(size))
            assert all(sizes == [len(sizes)] * len(sizes) for sizes in found.values())
            assert acknowledged[run_id] <= found.keys()


# --- the order in which things get to the disk -----------------------------------------------------

COMMITS = """
import os, sys
from hookline.journal import PromptSubmitted, SQLiteJournal

with SQLiteJournal(sys.argv[1], synchronous=sys.argv[2]) as journal:
    claim = journal.claim_sync("r")
    claim.write([PromptSubmitted("r", 0, 0.0, "first")]).result()
    for number in range(1, 6):
        os.write(1, b"queued\\n")
        claim.write([PromptSubmitted("r", number, 0.0, "more")]).result()
        os.write(1, b"acknowledged\\n")
    os.write(1, b"over\\n")
    claim.give_back().result()
"""


def events(log: str) -> list[str]:
    """What happened, in order: a word that was printed, a `log` that was written, a `sync` that was finished."""
    happened = []
    syncing: set[str] = set()
    for line in log.splitlines():
        pid, _, call = line.partition(" ")
        call = call.strip()
        if printed := re.match(r'write\(1<[^>]*>, "(\w+)', call):
            happened.append(printed[1])
        elif re.match(r"pwrite64\(\d+<[^>]*-wal>", call):
            happened.append("log")
        elif re.match(r"f(data)?sync\(\d+<[^>]*-wal>", call):
            if call.endswith("<unfinished ...>"):
                syncing.add(pid)
            else:
                happened.append("sync")
        elif re.match(r"<\.\.\. f(data)?sync resumed>", call) and pid in syncing:
            syncing.discard(pid)
            happened.append("sync")
    return happened


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_with_full_a_commit_is_on_the_disk_before_it_is_acknowledged(
    path: Path, tmp_path: Path, program: Callable[..., Any], synchronous: str
) -> None:
    """After the last byte went into the log comes a sync, and then the future is done; with NORMAL none comes."""
    log = tmp_path / "strace.log"
    wrapper = ("strace", "-f", "-y", "-e", "trace=pwrite64,write,fsync,fdatasync", "-o", str(log))
    traced = program(COMMITS, path, synchronous, wrapper=wrapper)
    printed = traced.stdout.read()
    if traced.close():
        pytest.skip("strace may not trace here")
    assert printed.count("acknowledged") == 5
    story = " ".join(events(log.read_text(errors="replace")))
    commits = re.findall(r"queued (.*?) ?acknowledged", story.partition(" over")[0])
    assert len(commits) == 5
    for commit in commits:
        assert re.fullmatch(r"(log )+sync" if synchronous == "FULL" else r"(log ?)+", commit)
