"""The arguments of redacted calls, in memory."""

from __future__ import annotations

import hashlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hookline.agent.redaction import Originals
from hookline.state import ToolCall

EXACT = ToolCall("c1", "bash", {"command": "PASSWORD=hunter2 ./run"})
SHOWN = ToolCall("c1", "bash", {"command": "PASSWORD=[redacted:secret] ./run"})


def test_a_call_is_found_by_what_is_shown_of_it() -> None:
    """The arguments come back, under whatever id the call has by then."""
    kept = Originals()
    shown = kept.keep(EXACT, SHOWN)
    assert shown.args == SHOWN.args
    assert kept.find(shown) == EXACT
    assert kept.find(msgspec.structs.replace(shown, id="c2")) == ToolCall("c2", "bash", EXACT.args)


def test_a_call_that_shows_something_else_is_not_found() -> None:
    """Nobody can run a secret under another text than the one that was shown."""
    kept = Originals()
    shown = kept.keep(EXACT, SHOWN)
    assert kept.find(shown.with_args(command="rm -rf /")) is None
    assert kept.find(msgspec.structs.replace(shown, name="exec")) is None
    assert kept.find(msgspec.structs.replace(shown, redacted="0" * 32)) is None
    assert Originals().find(shown) is None


def test_what_is_kept_of_a_call_does_not_help_to_guess_its_secret() -> None:
    """Neither the name nor the fingerprint is a hash that somebody without the key can compute from a guess."""
    shown = Originals().keep(EXACT, SHOWN)
    again = Originals().keep(EXACT, SHOWN)
    assert shown.redacted != again.redacted
    assert shown.fingerprint() != again.fingerprint()
    assert shown.fingerprint() != EXACT.fingerprint()
    plain = msgspec.json.encode([EXACT.name, EXACT.args], order="deterministic")
    assert shown.redacted not in hashlib.sha256(plain).hexdigest()


@given(st.text(min_size=1), st.text(min_size=1))
def test_an_approval_is_bound_to_the_exact_arguments(one: str, other: str) -> None:
    """Two calls that look the same and are not have different fingerprints; the same call has the same."""
    kept = Originals()
    first = kept.keep(ToolCall("a", "bash", {"command": one}), SHOWN)
    second = kept.keep(ToolCall("b", "bash", {"command": other}), SHOWN)
    assert (first.fingerprint() == second.fingerprint()) == (one == other)


def test_the_oldest_are_dropped_when_there_is_too_much() -> None:
    """Memory is bounded; a call whose arguments are dropped is not found, and so not run. The newest always is."""
    kept = Originals(most_bytes=100)
    shown = [
        kept.keep(
            ToolCall("a", "bash", {"command": f"{n}" * 60}), ToolCall("a", "bash", {"n": f"{n}"})
        )
        for n in range(3)
    ]
    assert [kept.find(each) is not None for each in shown] == [False, False, True]
