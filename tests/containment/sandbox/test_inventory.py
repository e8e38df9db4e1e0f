"""What processes write down of a directory: one that lives is left alone, and what one that died left is judged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.containment import Sandbox, SandboxGrant
from hookline.containment.sandbox import inventory
from hookline.containment.sandbox.quarantine import birth_of, facts_of, move_aside
from hookline.errors import SandboxError

from .conftest import ask_git, needs_bubblewrap

pytestmark = needs_bubblewrap

Start = Callable[[str], subprocess.Popen[bytes]]

PROGRAM = """
import asyncio, sys
from hookline.containment import Sandbox, SandboxGrant

async def main():
    grant = SandboxGrant(alone="alone" in sys.argv[2])
    running = await Sandbox(sys.argv[1], "required").start(
        sys.argv[2], on_output=lambda _: None, grant=grant
    )
    await running.wait()

asyncio.run(main())
"""


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Path]]:
    """The records on disk, in a place of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda: list((tmp_path / "state").rglob("*.json"))


@pytest.fixture
def start(work: Path, records: Callable[[], list[Path]]) -> Iterator[Start]:
    """Start another process whose command does something and then waits; give it once that is done."""
    started: list[subprocess.Popen[bytes]] = []

    def start(command: str) -> subprocess.Popen[bytes]:
        made = work / f"made-{len(started)}"
        waiting = f"{command}; touch {made}; while test -e {made}; do sleep 0.05; done"
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), work, waiting])
        started.append(process)
        until = time.monotonic() + 60
        while not made.exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_process_that_lives_is_not_taken_for_a_dead_one(
    work: Path, start: Start, records: Callable[[], list[Path]]
) -> None:
    """Its record and what is the user's by it stay; what its command has planted so far does not."""
    (work / "old").mkdir()
    (work / "old" / ".envrc").write_text("the user's")
    other = start("git init -q fresh; mkdir new; echo evil > new/.envrc")
    (record,) = records()
    sandbox = Sandbox(work, "required")
    assert (work / "new" / ".envrc").exists(), "only a command that starts looks"
    ran = sandbox.run_sync("cat old/.envrc; echo x > old/.envrc; echo evil > new/AGENTS.md")
    assert ran.text.startswith("the user's")
    assert set(ran.set_aside) == {"new/.envrc.from-command", "new/AGENTS.md.from-command"}
    assert records() == [record]
    (work / "made-0").unlink()
    assert other.wait(60) == 0
    assert records() == []
    assert (work / "old" / ".envrc").read_text() == "the user's"
    assert sorted(os.listdir(work / "new")) == [
        ".envrc.from-command",
        "AGENTS.md.from-command",
    ]
    assert (work / "fresh" / ".git" / "config").exists(), "a fresh repository is harmless"
    assert sorted(os.listdir(work)) == [".git", "file", "fresh", "nested", "new", "old"]


def test_a_link_by_which_something_is_hidden_is_back_after_its_process_died(
    work: Path, start: Start
) -> None:
    """The next command does not see what it leads to."""
    (work / "settings").write_text("a-secret\n")
    (work / "x.env").symlink_to("settings")
    other = start("rm x.env")
    other.kill()
    other.wait()
    assert not (work / "x.env").is_symlink()
    ran = Sandbox(work, "required").run_sync("cat settings x.env; echo ran")
    assert ran.text == "ran\n"
    assert os.readlink(work / "x.env") == "settings"


def test_another_directory_at_the_path_of_a_killed_process_is_left_alone(
    work: Path, start: Start, records: Callable[[], list[Path]]
) -> None:
    """As where a disk is not mounted yet. When the first one is back, what was planted there is found."""
    other = start("mkdir new; echo evil > new/.envrc")
    other.kill()
    other.wait()
    (record,) = records()
    work.rename(away := work.with_name("away"))
    (work / "sub").mkdir(parents=True)
    (work / "sub" / ".envrc").write_text("the user's")
    ran = Sandbox(work, "required").run_sync("true")
    assert (ran.exit_code, records()) == (0, [record])
    assert (work / "sub" / ".envrc").read_text() == "the user's"
    work.rename(work.with_name("second"))
    away.rename(work)
    assert Sandbox(work, "required").run_sync("true").exit_code == 0
    assert os.listdir(work / "new") == [".envrc.from-command"]
    assert records() == []


def test_a_device_that_has_another_number_after_a_kill_has_the_same_files(
    work: Path, start: Start, records: Callable[[], list[Path]]
) -> None:
    """A container that starts again mounts its files anew: what was the user's is still theirs."""
    (work / "old").mkdir()
    (work / "old" / ".envrc").write_text("the user's")
    if not birth_of("/", str(work)):
        pytest.skip("this file system does not know when a directory was made")
    other = start("mkdir new; echo evil > new/.envrc")
    other.kill()
    other.wait()
    (record,) = records()
    kept = json.loads(record.read_text())
    kept["place"][0] += 1
    kept["known"] = {path: [each[0] + 1, *each[1:]] for path, each in kept["known"].items()}
    record.write_text(json.dumps(kept))
    assert Sandbox(work, "required").run_sync("true").exit_code == 0
    assert (work / "old" / ".envrc").read_text() == "the user's"
    assert os.listdir(work / "new") == [".envrc.from-command"]


def test_what_is_held_for_one_process_stays_when_the_command_of_another_ends(
    work: Path, start: Start
) -> None:
    """The first command can still not make the name."""
    other = start(
        "(until test -e go; do sleep 0.05; done; mkdir .vscode; echo x > .vscode/tasks.json; touch tried) & true"
    )
    assert Sandbox(work, "required").run_sync("true").set_aside == ()
    (work / "go").touch()
    until = time.monotonic() + 60
    while not (work / "tried").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert (work / ".vscode").is_socket()
    (work / "made-0").unlink()
    assert other.wait(60) == 0
    assert not os.path.lexists(work / ".vscode")


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("by_user", ["git config user.name Me", "rm -rf .git && git init -q"])
def test_what_the_user_replaces_while_another_process_runs_a_command_is_read_only(
    work: Path, start: Start, records: Callable[[], list[Path]], by_user: str, *, is_killed: bool
) -> None:
    """Also after that process was killed. By its record the file was there before any command ran."""
    other = start("true")
    if is_killed:
        other.kill()
        other.wait()
    subprocess.run(by_user, shell=True, cwd=work, check=True)
    before = (work / ".git" / "config").read_bytes()
    sandbox = Sandbox(work, "required")
    for _ in range(2):
        ran = sandbox.run_sync("echo '[core]' >> .git/config; git config user.name Evil")
        assert (ran.exit_code != 0, ran.set_aside) == (True, ())
    assert (work / ".git" / "config").read_bytes() == before
    assert len(records()) == (0 if is_killed else 1)


def test_what_another_process_planted_is_not_read_as_the_users(work: Path, start: Start) -> None:
    """Settings that are refused in the user's own file keep nobody else from working here."""
    start("git init -q sub; git -C sub config core.hooksPath ..")
    ran = Sandbox(work, "required").run_sync("echo ran")
    assert (ran.text, ran.set_aside) == ("ran\n", ("sub/.git/config.from-command",))


@pytest.mark.parametrize(
    "plant",
    [
        "git init -q sub; git -C sub config core.hooksPath ..",
        "git init -q sub; git -C sub config include.path {work}",
        "git init -q sub; printf '[core]\\n\\thooksPath = ..\\n' > .git/config.worktree; mkdir -p a/.hg; "
        "git -C sub config core.fsmonitor 'touch {marker};false'; echo '%include ..' > a/.hg/hgrc; "
        "ln -s {work} a/.envrc; ln -s /dev/zero a/mise.toml",
    ],
)
def test_recovery_is_not_stopped_by_what_was_planted(
    work: Path, marker: Path, start: Start, records: Callable[[], list[Path]], plant: str
) -> None:
    """Settings that are refused in the user's own file were written by a command here: they are moved aside."""
    process = start(plant.format(work=work, marker=marker))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(records()) == 1
    sandbox = Sandbox(work, "required")
    assert records() == []
    assert (work / "sub" / ".git" / "config.from-command").exists()
    assert not (work / "sub" / ".git" / "config").exists()
    ran = sandbox.run_sync("echo ran")
    assert (ran.text, ran.set_aside) == ("ran\n", ())
    ask_git(work)
    assert not marker.exists()


def test_recovery_prints_no_control_characters(
    work: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A command chooses the names that are reported."""
    process = start(
        'd=$(printf \'x\\033]0;title\\007\\nINFO fine\'); mkdir "$d"; touch "$d/.envrc"'
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    Sandbox(work, "required")
    assert "moved aside" in caplog.text
    assert "\x1b" not in caplog.text
    assert "\nINFO fine" not in caplog.text


def test_recovery_looks_at_what_the_user_had_named(
    work: Path, marker: Path, start: Start, records: Callable[[], list[Path]]
) -> None:
    """A directory for hooks that was missing when the command began is not the user's because it is there now."""
    subprocess.run(["git", "-C", work, "config", "core.hooksPath", "tools"], check=True)
    process = start(
        f"mkdir tools; printf '#!/bin/sh\\ntouch {marker}\\n' > tools/pre-commit; chmod +x tools/pre-commit"
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(records()) == 1
    Sandbox(work, "required")
    assert (work / "tools.from-command").exists()
    ask_git(work)
    assert not marker.exists()


@pytest.mark.parametrize("field", ["known", "changed_at", "named", "links"])
@pytest.mark.parametrize("way", ["../outside/file", "sub/../../outside/file", "{outside}/file"])
def test_a_record_that_leads_out_of_its_directory_is_refused(
    work: Path, records: Callable[[], list[Path]], field: str, way: str
) -> None:
    """Nothing of it is done, also not to the paths that are inside: nobody knows who wrote it."""
    outside = work.parent / "outside"
    outside.mkdir()
    path = way.format(outside=outside)
    known = {"made": [0, 0, 0]}
    record = {"root": str(work), "known": known, "changed_at": {}, "links": {"made": "file"}}
    values: dict[str, object] = {
        "known": {path: [0, 0, 0], **known},
        "changed_at": {path: 0},
        "named": [path],
        "links": {path: "/etc/passwd", "made": "file"},
    }
    place = work.parent / "state" / "hookline" / "sandbox"
    place.mkdir(parents=True)
    (place / f"{'0' * 32}-{'0' * 16}.json").write_text(json.dumps({**record, field: values[field]}))
    Sandbox(work, "required").run_sync("true")
    assert os.listdir(outside) == []
    assert not os.path.lexists(work / "made")


def test_nothing_is_done_to_a_path_that_leads_out(tmp_path: Path) -> None:
    """What looks at files and moves them refuses such a path itself."""
    (tmp_path / "work").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        facts_of(str(tmp_path / "work"), "../file")
    assert move_aside(str(tmp_path / "work"), "../file") == ""
    assert (tmp_path / "file").stat().st_mode & 0o777


def test_recovery_does_not_go_where_a_link_leads(
    work: Path, records: Callable[[], list[Path]]
) -> None:
    """A command of the directory above may have put one there; the record counts again once the directory is back."""
    inner, outside = work / "way" / "inner", work.parent / "outside" / "inner"
    for place in (inner, outside):
        place.mkdir(parents=True)
        (place / ".envrc").write_text("new")
    (work.parent / "state" / "hookline" / "sandbox").mkdir(parents=True)
    path = work.parent / "state" / "hookline" / "sandbox" / f"{'0' * 32}-{'0' * 16}.json"
    path.write_text(json.dumps({"root": str(inner), "known": {}, "links": {}}))
    away = inner.parent.rename(work / "away")
    inner.parent.symlink_to(outside.parent)
    Sandbox(work, "required")
    assert os.listdir(outside) == [".envrc"]
    assert records() == [path]
    inner.parent.unlink()
    away.rename(inner.parent)
    Sandbox(work, "required")
    assert os.listdir(inner) == [".envrc.from-command"]
    assert records() == []


@pytest.mark.parametrize("is_made_before", [False, True])
@pytest.mark.parametrize("next_root", ["..", "inner"], ids=["above", "below"])
def test_a_start_above_or_below_recovers_too(
    work: Path,
    start: Start,
    records: Callable[[], list[Path]],
    next_root: str,
    is_made_before: bool,
) -> None:
    """Else what was planted would be taken for the user's there."""
    (work / "inner").mkdir()
    sandbox = Sandbox((work / next_root).resolve(), "required")
    process = start("mkdir -p inner/.vscode; echo x > inner/.vscode/tasks.json")
    process.send_signal(signal.SIGKILL)
    process.wait()
    if is_made_before:
        assert sandbox.run_sync("true").exit_code == 0
    else:
        Sandbox((work / next_root).resolve(), "required")
    assert records() == []
    assert not (work / "inner" / ".vscode").exists()


@pytest.mark.parametrize("place", [".", "..", "inner"])
def test_a_command_that_is_to_be_alone_is_so_in_every_process(
    work: Path, start: Start, place: str
) -> None:
    """Whichever of the two starts first, in the same directory, above or below."""
    (work / "inner").mkdir()
    here = Sandbox((work / place).resolve(), "required")
    first = start(": alone")
    with pytest.raises(SandboxError, match="must be the only one in its directory"):
        here.run_sync("true")
    first.kill()
    first.wait()
    start(": another")
    with pytest.raises(SandboxError, match="must be the only one in its directory"):
        here.run_sync("true", grant=SandboxGrant(alone=True))
    assert here.run_sync("echo beside").text == "beside\n"


def test_the_record_of_a_dead_process_is_read_once(
    work: Path, records: Callable[[], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again when it is another one. Every command asks for all of them, several times."""
    place = tmp_path / "state" / "hookline" / "sandbox"
    place.mkdir(parents=True)
    kept = {"root": str(tmp_path / "gone"), "known": {"a/.envrc": [1, 2, 3]}}
    (place / "1-2.json").write_text(json.dumps(kept))
    (first,) = inventory.records()
    assert (first.root, first.is_alive) == (str(tmp_path / "gone"), False)
    (second,) = inventory.records()
    assert second is first
    (place / "new").write_text(json.dumps({**kept, "root": str(work)}))
    (place / "new").replace(place / "1-2.json")
    (third,) = inventory.records()
    assert third.root == str(work)
    assert Sandbox(work, "required").run_sync("true").exit_code == 0
    assert records() == [], "it was looked at"
    assert list(inventory.records()) == []
