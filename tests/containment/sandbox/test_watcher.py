"""What a watcher adds up. Whole commands that it ends are in `test_limits.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment.sandbox import watcher
from hookline.containment.sandbox.watcher import BytesWritten, floors


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 100)), max_size=40))
def test_what_is_written_never_gets_less_and_misses_nothing_seen(
    steps: list[tuple[int, int]],
) -> None:
    """Processes that write, end and are forgotten: the sum is at least what was seen, and never sinks."""
    written, alive, seen, last = BytesWritten(), dict[int, int](), 0, 0
    for pid, amount in steps:
        if amount == 0:
            alive.pop(pid, None)  # it ends, and nobody waits for it
        else:
            alive[pid] = alive.get(pid, 0) + amount
            seen += amount
        now = written.update(sorted(alive), alive.__getitem__)
        assert now == seen
        assert now >= last
        last = now


def test_a_child_that_was_waited_for_counts_once() -> None:
    """Its count is part of its parent's from then on."""
    written = BytesWritten()
    assert written.update([1, 2], {1: 5, 2: 70}.__getitem__) == 75
    assert written.update([1], {1: 75}.__getitem__) == 75
    assert written.update([1], {1: 80}.__getitem__) == 80


def test_a_look_at_a_process_that_ends_meanwhile_counts_nothing_twice() -> None:
    """Its parent was read before it ended: the look is dropped, and the next one finds the count there."""

    def read(pid: int) -> int:
        if pid == 2:
            raise ProcessLookupError
        return 5

    written = BytesWritten()
    written.update([1, 2], {1: 5, 2: 70}.__getitem__)
    assert written.update([1, 2], read) == 75
    assert written.update([1], {1: 75}.__getitem__) == 75


def test_a_process_that_cannot_be_read_keeps_its_last_count() -> None:
    """A process that hides its count does not stop the count of the others."""

    def read(pid: int) -> int:
        if pid == 2:
            raise PermissionError
        return 20

    written = BytesWritten()
    written.update([1, 2], {1: 5, 2: 70}.__getitem__)
    assert written.update([1, 2], read) == 90


@given(st.integers(0, 10**13), st.integers(1, 10**13))
def test_a_disk_ends_no_command_that_writes_nothing(free: int, reserve: int) -> None:
    """However little is free at the start, that alone is no reason."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watcher, "_free", lambda _: free)
        ((_, floor),) = floors([Path("/"), Path("/")], reserve)
    assert floor <= min(free, reserve)
    assert floor == reserve or floor == free // 2


def test_no_reserve_is_no_floor(tmp_path: Path) -> None:
    """Neither is there one for a directory that is gone."""
    assert floors([tmp_path], None) == []
    assert floors([tmp_path / "gone"], 5) == []
