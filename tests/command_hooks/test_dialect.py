"""The interface of dialects: how one is added, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hookline import errors
from hookline.command_hooks import (
    CommandHooks,
    Dialect,
    Event,
    EventFacts,
    Handler,
    HookSearch,
    ProgramAnswer,
    ProgramResult,
    register_dialect,
)
from hookline.command_hooks.dialect import all_dialects, dialect_named


class Toy(Dialect):
    """A protocol with one event."""

    name = "toy"
    events = {"tool": Event("before_tool_use")}  # noqa: RUF012 - as a user would write it

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        """The tool alone."""
        return {"tool": found.call.name}

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """Exit code 7 refuses."""
        return ProgramAnswer(
            decision="deny" if result.code == 7 else "", reason=result.stdout.strip()
        )


@pytest.fixture
def toy() -> Iterator[Dialect]:
    """A dialect of somebody's, for as long as a test takes."""
    register_dialect(Toy())
    yield dialect_named("toy")
    del all_dialects()["toy"]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("toy")
def test_a_dialect_of_your_own_needs_four_things(stage: Any) -> None:
    """Its name, its events, what goes in and what comes out."""
    hook = {"on": "tool", "dialect": "toy", "command": "grep -q bash && echo no && exit 7"}
    result = stage.run(stage.hooks(hook))
    assert "Blocked: no" in [message.text for message in result.state.messages]


def test_a_dialect_needs_a_name_and_events() -> None:
    """An invalid dialect is refused, and so is the name of a built-in one."""

    class Nameless(Toy):
        name = ""

    class Claude(Toy):
        name = "claude"

    for wrong in (Nameless(), Claude(), object()):
        with pytest.raises(errors.RegistrationError):
            register_dialect(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["common_fields", "read_answer"])
def test_a_dialect_without_input_or_answers_is_refused(method: str) -> None:
    """It is refused when it is registered, not when its first hook is asked; the error names what is missing."""
    wrong = type("Wrong", (Toy,), {"name": "wrong", method: getattr(Dialect, method)})
    with pytest.raises(errors.RegistrationError, match=f"'wrong' .Wrong. has no {method}"):
        register_dialect(wrong())


@pytest.mark.usefixtures("toy")
def test_a_misspelt_decision_lets_nothing_pass(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dialect that answers with a word that is none has failed: the call does not run."""

    def misspelt(self: Toy, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        return ProgramAnswer(decision="denied", reason="no")  # type: ignore[arg-type]

    monkeypatch.setattr(Toy, "read_answer", misspelt)
    result = stage.run(stage.hooks({"on": "tool", "dialect": "toy", "command": "true"}))
    said = " ".join(message.text for message in result.state.messages) + str(result.error)
    assert "no decision 'denied'" in said
    assert all(not each.is_success for step in result.state.steps for each in step.results)


def test_an_answer_with_an_unknown_status_is_an_error() -> None:
    """The remedy lists the words there are."""
    with pytest.raises(errors.UsageError, match="'completed', 'blocked', 'failed'"):
        ProgramAnswer(status="done")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["find", "find_named"])
def test_a_dialect_that_fails_on_its_files_is_an_error(
    stage: Any, toy: Dialect, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Nobody knows which guards were in them. The error names the dialect and its folder."""

    def broken(self: Toy, search: HookSearch) -> Iterator[Handler]:
        yield json.loads("{")

    monkeypatch.setattr(Toy, method, broken)
    monkeypatch.setattr(Toy, "has_files", method == "find")
    monkeypatch.setattr(Toy, "configuration_folders", (".toy",))
    with pytest.raises(
        errors.BuildError, match=r"'toy' cannot read the hooks in \.toy: JSONDecodeError"
    ):
        stage.discover()


def test_a_dialect_that_fails_on_one_file_names_it(
    stage: Any, toy: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as it is known."""
    monkeypatch.setattr(Toy, "has_files", True)
    monkeypatch.setattr(Toy, "read", lambda *given: 1 / 0)
    path = stage.file("toy.json", {})
    with pytest.raises(
        errors.BuildError, match=r"'toy' cannot read the hooks in .*toy\.json: ZeroDiv"
    ):
        CommandHooks.from_file(path, "toy", project=stage.root)


def test_an_unknown_dialect_is_an_error() -> None:
    """The remedy lists the known ones."""
    with pytest.raises(errors.UsageError, match="hookline, claude, gemini"):
        dialect_named("fortran")


def test_every_event_happens_at_one_of_our_points() -> None:
    """A misspelt point would be a hook that never runs."""
    points = set(all_dialects()["hookline"].events)
    for dialect in all_dialects().values():
        for event in dialect.events.values():
            assert {event.point, event.also} <= {*points, ""}
