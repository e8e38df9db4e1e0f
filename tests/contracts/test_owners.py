"""Each field of a run, of its step and of its calls is written by one module."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import hookline
from hookline.agent.in_progress import CallInProgress, StepInProgress
from hookline.agent.run import Run
from hookline.flow.limits import Ledger

SOURCE = Path(hookline.__file__).parent
FIELDS = {
    "current": frozenset(CallInProgress.__struct_fields__),
    "step": frozenset(StepInProgress.__struct_fields__),
    "run": frozenset(Run.__slots__),
    "ledger": frozenset(Ledger.__slots__),
}
"""The fields of each, by the name that it has everywhere."""


def written(module: str, text: str) -> Iterator[tuple[str, str]]:
    """The fields that a module writes, from outside of the object."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = ast.unparse(node.value).split(".")[-1].lstrip("_")
            if node.attr in FIELDS.get(owner, ()):
                yield f"{owner}.{node.attr}", module


def shared(writes: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The fields that more than one module writes."""
    writers: dict[str, set[str]] = defaultdict(set)
    for field, module in writes:
        writers[field].add(module)
    return {field: modules for field, modules in writers.items() if len(modules) > 1}


@cache
def all_written() -> list[tuple[str, str]]:
    """What every module writes."""
    paths = sorted(SOURCE.rglob("*.py"))
    return [each for path in paths for each in written(str(path), path.read_text())]


def test_a_field_has_one_writer() -> None:
    """Whoever wonders how it came to its value has one module to read."""
    writes = all_written()
    assert len({field for field, _ in writes}) > 35
    assert shared(writes) == {}


@pytest.mark.parametrize(
    "line",
    [
        "current.stage = None",
        "self._current.result, x = 1, 2",
        "run.step.calls = ()",
        "run.noted = 1",
    ],
)
def test_a_second_writer_is_found(line: str) -> None:
    """However it is written."""
    assert len(shared([*all_written(), *written("other.py", line)])) == 1
