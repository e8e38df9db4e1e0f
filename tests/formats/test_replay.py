"""Runs that an earlier version recorded replay as identical, and a back-test with the same hooks says what it said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from case_world import LATER, World
from outcomes import FINISHED_CASES, backtested, replayed
from recorded import VERSIONS, expected, unpack

from hookline import SQLiteJournal

WRONG_THEN = {"lifted", "altered-request", "token-limit", "cost-limit"}
"""Runs in which the version that wrote the first data found changes although no hook had changed."""
RIGHT = {"exit_code": 0, "changes": [], "unfollowed": [], "did": []}


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Which data."""
    return str(request.param)


@pytest.fixture(scope="module")
def journal(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteJournal]:
    """The finished runs. Neither replay nor back-test writes anything."""
    folder = tmp_path_factory.mktemp("finished")
    with SQLiteJournal(unpack(version, "finished.db", folder)) as journal:
        yield journal


@pytest.mark.parametrize("name", FINISHED_CASES)
async def test_a_finished_run_replays(
    name: str, version: str, journal: SQLiteJournal, tmp_path: Path
) -> None:
    """It is identical, and no tool runs."""
    found = await replayed(FINISHED_CASES[name], World(tmp_path, start=LATER), journal)
    assert found["identical"], found["difference"]
    assert found == expected(version, "finished")[name]["replay"]


@pytest.mark.parametrize("name", FINISHED_CASES)
async def test_a_finished_run_is_back_tested(
    name: str, version: str, journal: SQLiteJournal, tmp_path: Path
) -> None:
    """With the same hooks no verdict changes."""
    found = await backtested(FINISHED_CASES[name], World(tmp_path, start=LATER), journal)
    new = "before_tool_use: files-links added"  # a later version brought it
    found = {**found, "hooks": [each for each in found["hooks"] if each != new]}
    was = expected(version, "finished")[name]["backtest"]
    was_wrong = version == "2026-11" and name in WRONG_THEN
    assert bool(was["changes"]) is was_wrong
    if was_wrong:
        was = {**found, **RIGHT}
    assert found == was
    assert {key: found[key] for key in RIGHT} == RIGHT


def test_every_case_is_in_the_data(version: str) -> None:
    """A case without data, or data without a case, tests nothing."""
    assert expected(version, "finished").keys() == FINISHED_CASES.keys()
