"""Runs that an earlier version recorded replay as identical, and a back-test with the same hooks says what it said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from case_world import LATER, World
from outcomes import FINISHED_CASES, backtested, replayed
from recorded import expected, unpack

from hookline import SQLiteJournal

WRONG_THEN = {"lifted", "altered-request", "token-limit", "cost-limit"}
"""Runs in which the version that wrote the data found changes although no hook had changed."""
RIGHT = {"exit_code": 0, "changes": [], "unfollowed": [], "did": []}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteJournal]:
    """The finished runs. Neither replay nor back-test writes anything."""
    with SQLiteJournal(unpack("finished.db", tmp_path_factory.mktemp("finished"))) as journal:
        yield journal


@pytest.mark.parametrize("name", FINISHED_CASES)
async def test_a_finished_run_replays(name: str, journal: SQLiteJournal, tmp_path: Path) -> None:
    """It is identical, and no tool runs."""
    found = await replayed(FINISHED_CASES[name], World(tmp_path, start=LATER), journal)
    assert found["identical"], found["difference"]
    assert found == expected("finished")[name]["replay"]


@pytest.mark.parametrize("name", FINISHED_CASES)
async def test_a_finished_run_is_back_tested(
    name: str, journal: SQLiteJournal, tmp_path: Path
) -> None:
    """With the same hooks no verdict changes."""
    found = await backtested(FINISHED_CASES[name], World(tmp_path, start=LATER), journal)
    was = expected("finished")[name]["backtest"]
    assert bool(was["changes"]) is (name in WRONG_THEN)
    if name in WRONG_THEN:
        was = {**found, **RIGHT}
    assert found == was
    assert {key: found[key] for key in RIGHT} == RIGHT


def test_every_case_is_in_the_data() -> None:
    """A case without data, or data without a case, tests nothing."""
    assert expected("finished").keys() == FINISHED_CASES.keys()
