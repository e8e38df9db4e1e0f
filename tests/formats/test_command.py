"""The command finds what an earlier version left in a home, honours its trust, and ends with the same exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import command_cases
import pytest
from command_cases import EXIT_CODES, JOURNALS, TRUST
from command_line import ALL_KEYS, CAN_BE_THERE, HOME, PROJECT, place
from recorded import DATA, expected

pytestmark = pytest.mark.skipif(
    not CAN_BE_THERE, reason="trust is bound to a path below /tmp, which is a link here"
)


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    """What the command says about the home, in the order in which it changes."""
    with place():
        command_cases.unpack_home(DATA)
        said = json.loads(json.dumps(command_cases.outcomes()))
        said["resumed"] = json.loads(json.dumps(command_cases.resumed()))
        said["codes"] = command_cases.exit_codes()
        said["files"] = sorted(
            str(path.relative_to(HOME))
            for path in HOME.rglob("*")
            if path.suffix in (".db", ".json")
        )
        said["distrusted"] = command_cases.distrusted()
        yield said


@pytest.mark.parametrize("name", list(expected("2026-11", "command")))
def test_the_command_says_what_it_said(name: str, found: dict[str, Any]) -> None:
    """Runs, records, hooks, tools, settings, trust, replay and back-test, as JSON."""
    assert _comparable(found[name]) == _comparable(expected("2026-11", "command")[name])


def _comparable(said: Any) -> Any:
    """Without the hooks that later versions added, and without the hash of this machine's `cat`, which a hook runs."""
    if isinstance(said, dict):
        return {
            key: list(map(bool, each)) if key == "externals" else _comparable(each)
            for key, each in said.items()
        }
    if isinstance(said, list):
        return [
            _comparable(each)
            for each in said
            if not (isinstance(each, list) and "files-links" in each)
        ]
    return said


def test_trust_is_honoured(found: dict[str, Any]) -> None:
    """A project that was trusted is, with the hooks of other agents and its repository, until one of them changes."""
    assert found["trust"] == f"{PROJECT}: trusted"
    assert found["trust all keys"] == f"{ALL_KEYS}: trusted"
    assert ["bash-policy", "proceed"] in found["git"]["verdicts"]
    blocked = [hook for hook, kind in found["hooks test"]["verdicts"] if kind == "block"]
    assert len(blocked) == 6  # one of each dialect
    assert found["distrusted"]["trust"] != found["trust"]
    assert found["distrusted"]["git"] == "ask"


@pytest.mark.parametrize("name", EXIT_CODES)
def test_exit_codes(name: str, found: dict[str, Any]) -> None:
    """Scripts that call the command go by these numbers."""
    assert found["codes"][name] == EXIT_CODES[name][0]


def test_no_other_file_is_made(found: dict[str, Any]) -> None:
    """Trust and journals stay where they were."""
    (journal,) = [name for name in found["files"] if name.startswith(str(JOURNALS))]
    assert found["files"] == sorted([str(TRUST), journal])
