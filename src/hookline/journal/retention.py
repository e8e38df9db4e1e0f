"""Which runs belong together, and which of them are old enough to be deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import timedelta

import msgspec

from hookline.errors import UsageError
from hookline.journal.run_info import RunInfo
from hookline.journal.session import stream_of
from hookline.state import RunStatus

_UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)


class Retention(msgspec.Struct, frozen=True):
    """What `prune` may delete: trees of runs that are old enough, and not among the newest."""

    older_than: timedelta | float | None = None
    """Time since the last record, in seconds or as a timedelta; None for any age."""
    keep: int | None = None
    unfinished: bool = False

    def __post_init__(self) -> None:
        if self.older_than is None and self.keep is None:
            raise UsageError(
                "prune needs to know what to keep.", remedy="Give older_than=, keep=, or both."
            )
        if not isinstance(self.older_than, timedelta | float | int | None):
            raise UsageError(
                f"older_than={self.older_than!r} is neither seconds nor a timedelta.",
                remedy="For example: older_than=timedelta(days=30).",
            )
        if not isinstance(self.keep, int | None):
            raise UsageError(f"keep={self.keep!r} is not a whole number.")
        if self._seconds < 0 or (self.keep or 0) < 0:
            raise UsageError("older_than and keep cannot be negative.")

    @property
    def _seconds(self) -> float:
        age = self.older_than
        return age.total_seconds() if isinstance(age, timedelta) else age or 0.0

    def choose(
        self, runs: list[RunInfo], now: float, driven: Collection[str] = ()
    ) -> list[list[str]]:
        """The trees to delete, of runs that are listed newest first: parents with children, sessions with runs.

        A tree with a run that is driven is kept, and so is a tree that a kept run continues.
        """
        trees = _trees(runs)
        chosen = {
            number
            for number, tree in enumerate(trees)
            if number >= (self.keep or 0)
            and self._is_old(tree, now)
            and (self.unfinished or not any(_is_unfinished(run) for run in tree))
            and not any(run.run_id in driven for run in tree)
        }
        tree_of = {run.run_id: number for number, tree in enumerate(trees) for run in tree}
        kept = [number for number in range(len(trees)) if number not in chosen]
        for number in kept:  # grows while it is walked
            earlier = {tree_of.get(run.continues or "") for run in trees[number]} & chosen
            chosen -= earlier
            kept.extend(each for each in earlier if each is not None)
        return [[run.run_id for run in trees[number]] for number in sorted(chosen)]

    def _is_old(self, tree: list[RunInfo], now: float) -> bool:
        latest = max(run.updated_at for run in tree)
        return self.older_than is None or latest < now - self._seconds


def owner_of(run_id: str, session_id: object, parent: str | None, kind: object) -> str | None:
    """What a run is deleted and exported with: its parent, or its session, whether or not there are records of it."""
    if parent is None and kind == "run" and session_id != run_id:
        return stream_of(str(session_id))
    return parent


def with_descendants(run_id: str, owners: Iterable[tuple[str, str | None]]) -> list[str]:
    """A run and everything below it. `owners` are runs with what they belong to."""
    children = defaultdict(list)
    for child, owner in owners:
        if owner is not None:
            children[owner].append(child)
    found = {run_id: None}
    waiting = [run_id]
    while waiting:
        for child in children[waiting.pop()]:
            if child not in found:  # a damaged file may contain a cycle
                found[child] = None
                waiting.append(child)
    return list(found)


def may_continue(run: RunInfo) -> bool:
    """Whether a process may drive a run again. A worker can also take up one that has failed."""
    return _is_unfinished(run) or (run.kind == "run" and run.status is RunStatus.FAILED)


def _is_unfinished(run: RunInfo) -> bool:
    """Whether a run is running or paused. An open session says nothing about that."""
    return run.kind == "run" and run.status in _UNFINISHED


def _trees(runs: list[RunInfo]) -> list[list[RunInfo]]:
    known = {run.run_id: run for run in runs}
    children = defaultdict(list)
    for run in runs:
        owner = owner_of(run.run_id, run.session_id, run.parent_run_id, run.kind)
        children[owner if owner in known else None].append(run)
    trees = []
    for root in children[None]:
        tree = [root]
        for run in tree:  # grows while it is walked
            tree.extend(children[run.run_id])
        trees.append(tree)
    return trees
