"""A command that takes the right to list its own work directory hides nothing by that, and ends no check."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hookline.containment import Sandbox
from hookline.containment.sandbox.tree_index import TreeIndex
from hookline.errors import SandboxError

from .conftest import Place, needs_bubblewrap

pytestmark = needs_bubblewrap

PLANT = "git init -q new; git -C new config core.fsmonitor x; echo x > new/.envrc"
MOVED = {"new/.git/config.from-command", "new/.envrc.from-command"}
MODES = [0, 0o100, 0o300, 0o500, 0o600]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_new_in_a_closed_root_is_moved_aside(place: Place, mode: int) -> None:
    """The owner gets back what the command took."""
    ran = place.run(f"{PLANT}; chmod {mode:04o} .")
    assert {*ran.set_aside} >= MOVED
    assert place.work.stat().st_mode & stat.S_IRWXU == stat.S_IRWXU


def test_what_is_new_in_another_closed_directory_is_moved_aside(place: Place) -> None:
    """One of `write=` is judged like the work directory."""
    other = str(place.outside)
    ran = place.run(f"cd {other}; {PLANT}; chmod 0300 .", write=[other])
    assert {*ran.set_aside} >= MOVED


@pytest.mark.parametrize("where", ["workspace", "read-only"])
@pytest.mark.parametrize("mode", MODES)
def test_environment_files_are_hidden_while_another_command_has_closed_the_root(
    place: Place, mode: int, where: str
) -> None:
    """Also below a directory."""
    (place.work / "sub").mkdir()
    for path in (place.work / ".env", place.work / "sub" / ".env"):
        path.write_text("KEY=a-secret\n")
    place.own()
    ran = place.run(
        "cat .env sub/.env; echo done",
        where=where,
        beside=f"chmod {mode:04o} .; echo closed; sleep 60",
    )
    assert "a-secret" not in ran.text
    assert ran.text.endswith("done\n")


@pytest.mark.parametrize("where", ["workspace", "read-only"])
@pytest.mark.parametrize("mode", [0, 0o300])
def test_a_root_that_cannot_be_listed_is_an_error(place: Place, mode: int, where: str) -> None:
    """It must not pass for an empty one. Root can list any, and nothing is shown to it either."""
    (place.work / ".env").write_text("KEY=a-secret\n")
    place.own()
    place.work.chmod(mode)
    try:
        text = place.run("chmod 0700 .; cat .env", where=where).text
    except AssertionError as error:
        text = str(error)
    assert "a-secret" not in text
    if place.user is not None or os.geteuid() != 0:
        assert "SandboxError" in text
        assert "cannot be listed" in text


def test_what_could_not_be_checked_is_checked_before_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of what was there stays until then."""
    closed = tmp_path / "closed"
    monkeypatch.setattr(TreeIndex, "is_closed", property(lambda _: closed.exists()))
    sandbox = Sandbox(tmp_path, "required")
    with pytest.raises(SandboxError, match="cannot be listed"):
        sandbox.run_sync("mkdir new; echo x > new/.envrc; touch closed")
    with pytest.raises(SandboxError, match="cannot be listed"):
        sandbox.run_sync("true")
    closed.unlink()
    assert sandbox.run_sync("true").set_aside == ("new/.envrc.from-command",)
    assert sandbox.run_sync("true").set_aside == ()
