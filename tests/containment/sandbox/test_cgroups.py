"""Control groups, where we may make them."""

from __future__ import annotations

import subprocess
import time

import pytest

from hookline.containment.sandbox.cgroups import Group, home_for_groups

pytestmark = pytest.mark.skipif(
    home_for_groups() is None, reason="no control groups can be made here"
)


def test_a_group_counts_and_is_given_back() -> None:
    """What is in it starts no more than it may, and it can be removed once that is gone."""
    home = home_for_groups()
    assert home is not None
    before = set(home.glob("hookline-*"))
    group = Group(home, 5)
    command = "read line; for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait"
    with subprocess.Popen(["bash", "-c", command], stdin=-1, stderr=-1, text=True) as one:
        group.add(one.pid)
        _, complaint = one.communicate("go\n")
    assert "fork" in complaint
    while (
        next(path for path in home.glob("hookline-*") if path not in before)
        .joinpath("cgroup.procs")
        .read_text()
    ):
        time.sleep(0.05)
    group.remove()
    assert set(home.glob("hookline-*")) == before


def test_what_the_dead_left_is_cleared() -> None:
    """The group of a process that is no more is removed by the next one that looks for a place."""
    home = home_for_groups()
    assert home is not None
    left = home / "hookline-99999999-1"
    left.mkdir()
    home_for_groups.cache_clear()
    assert home_for_groups() == home
    assert not left.exists()
