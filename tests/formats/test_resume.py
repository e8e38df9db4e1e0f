"""Runs and sessions of an earlier version continue: nothing is lost, nothing is done twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_world import LATER, World
from outcomes import UNFINISHED_CASES, replayed, resumed, sessions
from recorded import VERSIONS, expected, unpack

from hookline import SQLiteJournal


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", UNFINISHED_CASES)
async def test_an_unfinished_run_ends_as_it_did(name: str, version: str, tmp_path: Path) -> None:
    """Status, text, conversation, and everything that its tools did, before the kill and after it."""
    was = expected(version, "unfinished")[name]
    world = World(tmp_path, start=LATER)
    for line in was["did"]:
        world.do(line)
    async with SQLiteJournal(unpack(version, "unfinished.db", tmp_path)) as journal:
        assert await resumed(UNFINISHED_CASES[name], world, journal) == was["resumed"]
        assert (await journal.check()).ok
        before = world.did
        again = await replayed(UNFINISHED_CASES[name], world, journal)
        assert again["difference"] == was["replay"]["difference"]
        assert again["is_whole"] is was["replay"]["is_whole"]
        assert world.did == before


@pytest.mark.parametrize("version", VERSIONS)
def test_every_case_is_in_the_data(version: str) -> None:
    """A case without data, or data without a case, tests nothing."""
    assert expected(version, "unfinished").keys() == UNFINISHED_CASES.keys()


@pytest.mark.parametrize("version", VERSIONS)
async def test_sessions_are_what_they_were_and_continue(version: str, tmp_path: Path) -> None:
    """Title, status, version, runs and conversation; the one that waits, the one that was cut off, and another run."""
    (tmp_path / "data").mkdir()
    path = unpack(version, "sessions.db", tmp_path / "data")
    assert await sessions(path, tmp_path) == expected(version, "sessions")
