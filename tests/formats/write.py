"""Write the data that the tests of formats read: `python tests/formats/write.py tests/formats/2026-11`.

The data shows what a version of Hookline wrote. So it is written once, into a new directory, and never again: when a
later version writes something else, the old data must still be read. `--journals` writes journals and states only, for
a version that changes nothing else.

With `--expectations` only what is expected of the data in a directory is written again: `finished.json`,
`unfinished.json`, `sessions.json` and `command.json`. That is for a change of wording, and nothing else may differ
afterwards: look through the difference line by line.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import command_cases
import command_line
import file_cases
import outcomes
import session_cases
from case_world import LATER, Case, World

from hookline import AgentState, SQLiteJournal


def main() -> None:
    """Write everything, or only what is expected."""
    *options, given = sys.argv[1:]
    target = Path(given).resolve()
    work = fresh(Path(tempfile.gettempdir()) / "hookline-formats")  # some records name it
    try:
        if options == ["--expectations"]:
            expect(target, work)
        else:
            target.mkdir(parents=True)
            write_journals(target, work)
            if options != ["--journals"]:
                write_command(target)
                file_cases.record_cassette(target / "cassette.json")
                file_cases.with_pins(target / "pins.json")
    finally:
        shutil.rmtree(work)
    for path in sorted(target.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size:>9,} {path.relative_to(target)}")


def write_journals(target: Path, work: Path) -> None:
    """The journals of this version, and the states of their runs."""
    write_finished(target, work)
    write_unfinished(target, work)
    write_sessions(target, work)
    write_live(target, work)


def expect(target: Path, work: Path) -> None:
    """What this version makes of data that is there."""
    for name in ("finished", "unfinished", "sessions"):
        (work / f"{name}.db").write_bytes(gzip.decompress((target / f"{name}.db.gz").read_bytes()))
    results = json.loads((target / "finished.json").read_text())
    expect_finished(
        target, work, {name: {"result": was["result"]} for name, was in results.items()}
    )
    before = json.loads((target / "unfinished.json").read_text())
    for name, was in before.items():
        world = World(fresh(work / "unfinished" / name))
        for line in was["did"]:
            world.do(line)
    expect_unfinished(target, work, {name: {"did": was["did"]} for name, was in before.items()})
    expect_sessions(target, work)
    if (target / "command.json").exists():
        expect_command(target)


def dump(path: Path, value: Any) -> None:
    """Write JSON that people can compare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def in_process(body: Callable[[], Awaitable[Any]], *, is_killed: bool = False) -> None:
    """Do it in a process of its own, which may be killed."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(body())  # type: ignore[arg-type]
        except BaseException as error:
            print(f"{error!r}", file=sys.stderr, flush=True)
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    expected = -signal.SIGKILL if is_killed else 0
    if code != expected:
        raise SystemExit(f"a process ended with {code} instead of {expected}")


def add_state(target: Path, state: AgentState) -> None:
    """Add the state of a run, one line of JSON, to those that are there."""
    with (target / "states.jsonl").open("a", encoding="utf-8") as file:
        file.write(state.to_json() + "\n")


def pack(source: Path, target: Path) -> None:
    """Compress a file, in the same way every time."""
    target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def fresh(path: Path) -> Path:
    """A new folder."""
    path.mkdir(parents=True)
    return path


def write_finished(target: Path, work: Path) -> None:
    """Runs that are over, with what replay and back-test say of them."""
    path = work / "finished.db"
    expected: dict[str, Any] = {}
    for name, case in outcomes.FINISHED_CASES.items():
        print(name)
        world = World(fresh(work / "finished" / name))

        async def body(case: Case = case, world: World = world) -> None:
            async with SQLiteJournal(path) as journal:
                result = await case.begin(world, journal)
            dump(world.folder / "result.json", outcomes.result_of(result, world))
            add_state(target, result.state)

        in_process(body)
        expected[name] = {"result": json.loads((world.folder / "result.json").read_text())}
    close(path, target)
    shutil.rmtree(work / "finished")  # as for whoever reads the data
    expect_finished(target, work, expected)


def expect_finished(target: Path, work: Path, expected: dict[str, Any]) -> None:
    """What replay and back-test say of runs that are over."""
    with SQLiteJournal(work / "finished.db") as journal:
        for name, case in outcomes.FINISHED_CASES.items():
            for kind, function in (
                ("replay", outcomes.replayed),
                ("backtest", outcomes.backtested),
            ):
                world = World(fresh(work / kind / name), start=LATER)
                expected[name][kind] = asyncio.run(function(case, world, journal))
    dump(target / "finished.json", expected)


def write_unfinished(target: Path, work: Path) -> None:
    """Runs that wait or were cut off, with their outcomes."""
    path = work / "unfinished.db"
    expected: dict[str, Any] = {}
    for name, case in outcomes.UNFINISHED_CASES.items():
        print(name)
        folder = fresh(work / "unfinished" / name)
        for number, place in enumerate(case.kill_at or ("",)):
            world = World(folder, kill_at=place)

            async def body(case: Case = case, world: World = world, number: int = number) -> None:
                async with SQLiteJournal(path) as journal:
                    begun = case.take_up if number else case.begin
                    result = await begun(world, journal)
                    add_state(target, result.state)

            in_process(body, is_killed=bool(place))
        expected[name] = {"did": World(folder).did}
    close(path, target)
    expect_unfinished(target, work, expected)


def expect_unfinished(target: Path, work: Path, expected: dict[str, Any]) -> None:
    """The outcomes of runs that wait or were cut off."""
    resumed = work / "resumed.db"
    shutil.copy(work / "unfinished.db", resumed)
    with SQLiteJournal(resumed) as journal:
        for name, case in outcomes.UNFINISHED_CASES.items():
            world = World(work / "unfinished" / name, start=LATER)
            expected[name]["resumed"] = asyncio.run(outcomes.resumed(case, world, journal))
            expected[name]["replay"] = asyncio.run(outcomes.replayed(case, world, journal))
    dump(target / "unfinished.json", expected)


def write_sessions(target: Path, work: Path) -> None:
    """Sessions."""
    path = work / "sessions.db"
    folder, cut = fresh(work / "sessions"), fresh(work / "sessions-cut")

    async def body() -> None:
        async with SQLiteJournal(path) as journal:
            for state in await session_cases.record(journal, World(folder)):
                add_state(target, state)

    async def killed() -> None:
        async with SQLiteJournal(path) as journal:
            await session_cases.cut_off(journal, cut)

    in_process(body)
    in_process(killed, is_killed=True)
    close(path, target)
    expect_sessions(target, work)


def expect_sessions(target: Path, work: Path) -> None:
    """What sessions look like, and their outcomes."""
    said = asyncio.run(outcomes.sessions(work / "sessions.db", fresh(work / "s")))
    dump(target / "sessions.json", said)


def write_live(target: Path, work: Path) -> None:
    """A journal as a killed process leaves it, with its write-ahead log."""
    path = work / "live.db"
    case = outcomes.UNFINISHED_CASES["killed-beside"]
    world = World(fresh(work / "live"), kill_at=case.kill_at[0])

    async def body() -> None:
        async with SQLiteJournal(path) as journal:
            await case.begin(world, journal)

    in_process(body, is_killed=True)
    for end in ("", "-wal"):
        pack(Path(f"{path}{end}"), target / f"live.db{end}.gz")


def write_command(target: Path) -> None:
    """A home as the command leaves it, and what it says about that home."""
    with command_line.place():
        command_cases.write_home(target)
    expect_command(target)


def expect_command(target: Path) -> None:
    """What the command says about a home."""
    with command_line.place():
        command_cases.unpack_home(target)
        said = command_cases.outcomes()
        said["resumed"] = command_cases.resumed()
    dump(target / "command.json", said)


def close(path: Path, target: Path) -> None:
    """Put a journal into one file, with its export and its list of runs beside it."""
    with SQLiteJournal(path) as journal:
        journal.vacuum()
        report = journal.check_sync()
        if not report.ok:
            raise SystemExit(str(report))
        lines = path.with_suffix(".jsonl")
        lines.write_text(outcomes.exported(journal), encoding="utf-8")
        dump(target / f"{path.stem}.runs.json", outcomes.listed(journal))
    for each in (path, lines):
        pack(each, target / f"{each.name}.gz")


if __name__ == "__main__":
    main()
