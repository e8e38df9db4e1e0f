"""Output: what is shown and kept of a long one, and what is reported while the command runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from pathlib import Path
from typing import IO, cast

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Bash, Redaction
from hookline.capabilities.bash import output
from hookline.capabilities.bash.output import Output, ProgressMessages, Scratch, format_output
from hookline.containment.sandbox import Excerpt
from hookline.redaction import redact
from hookline.testing import ScriptedDriver, call, say

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SIZE = 2_000


class _Full:
    """A file on a disk that has room for a few bytes more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, data: bytes) -> int:
        written = min(len(data), self.room)
        if not written:
            raise OSError(28, "No space left on device")
        self.room -= written
        return written

    def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize("place", range(SIZE // 2 - 45, SIZE // 2 + 5))
def test_a_token_is_not_cut_in_two(place: int) -> None:
    """Of one that stands where output is cut nothing is shown: half of it does not look like one."""
    for text in (
        f"{'x' * place} {TOKEN} {'y' * 9_000}",
        f"{'x' * 9_000} {TOKEN} {'y' * (place - 9)}\nyyy",
    ):
        excerpt = Excerpt(SIZE)
        excerpt.add(text.encode())
        text = redact(format_output(excerpt, ""))
        assert not [at for at in range(len(TOKEN) - 5) if TOKEN[at : at + 6] in text]


async def test_a_token_is_not_cut_in_two_in_progress_messages() -> None:
    """The same holds for progress messages, which show the end of the output."""
    for place in range(7_955, 8_005):
        heard: list[str] = []
        progress = ProgressMessages(heard.append)
        progress.add(f"{'x' * 12_000} {TOKEN} {'y' * (place - 9)}\nyyy".encode())
        progress.finish()
        report = redact("".join(heard))
        assert "yyy" in report
        assert not [at for at in range(len(TOKEN) - 5) if TOKEN[at : at + 6] in report]


@pytest.mark.parametrize("size", range(400, 640, 20))
def test_a_value_is_not_shown_without_its_name(size: int) -> None:
    """The rest of a line that was cut is left out: it may be the value of a name that is not shown."""
    excerpt = Excerpt(size)
    excerpt.add(
        f'{{"x":"{"a" * 3_000}","db_password":"hunter2 correct horse","y":"{"b" * 100}"}}'.encode()
    )
    excerpt.add(b"\nthe next line\n")
    text = redact(format_output(excerpt, ""))
    assert "horse" not in text
    assert text.endswith("\nthe next line\n")


async def test_a_progress_message_has_no_value_without_its_name() -> None:
    """Also if the line that was cut ends much later."""
    heard: list[str] = []
    progress = ProgressMessages(heard.append)
    progress.add(b'{"db_password":"' + b"a" * 20_000)
    progress.add(b"correct-horse")
    progress.add(b'"}\nnext')
    progress.finish()
    assert heard == ["[20,032 characters not shown here]\nnext"]
    progress.add(b"x" * 20_000)
    progress.finish()
    assert heard[1:] == ["[20,000 characters not shown here]\n"]


def test_of_a_long_line_the_beginning_is_shown() -> None:
    """Output without blanks loses a few letters at the cut as well, and all are counted."""
    excerpt = Excerpt(SIZE)
    excerpt.add(b"z" * 10_000)
    text = format_output(excerpt, "")
    assert f"[... {10_000 - text.count('z'):,} bytes left out here ...]" in text
    assert text.count("z") > SIZE // 4


def test_what_a_full_disk_does_not_take_is_not_claimed(tmp_path: Path) -> None:
    """The result says how much of the output is in the file, and continues without the rest."""
    output = Output(Scratch(tmp_path), SIZE)
    output.add(b"a" * 3_000)
    output.close()
    output._file = cast("IO[bytes]", _Full(500))
    for _ in range(3):
        output.add(b"b" * 400)
    assert output.excerpt.total == 4_200
    assert output.note == (
        f"only the first 3,500 of 4,200 bytes could be kept, in {tmp_path / 'command-1.txt'}"
    )


def test_output_that_cannot_be_kept_is_shown_all_the_same(tmp_path: Path) -> None:
    """Somebody has removed the directory: no file is named, and the command is not disturbed."""
    output = Output(Scratch(tmp_path / "out"), SIZE)
    shutil.rmtree(tmp_path / "out")
    for _ in range(2):
        output.add(b"a line\n" * 1_000)
    assert output.where == ""
    assert "bytes left out here; the rest could not be kept in a file" in format_output(
        output.excerpt, output.note
    )


def test_output_goes_into_the_directory_that_was_named(tmp_path: Path) -> None:
    """Not where a link leads that a command of somebody else has put in its place."""
    output = Output(Scratch(tmp_path / "out"), SIZE)
    (tmp_path / "victim").mkdir()
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "out").symlink_to("victim")
    output.add(b"a line\n" * 1_000)
    output.close()
    assert os.listdir(tmp_path / "victim") == []
    assert (tmp_path / "moved" / "command-1.txt").stat().st_size == 7_000


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("root", ["home", "home/work"])
def test_the_model_can_read_long_output_wherever_commands_work(
    tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a home too, of which the directory of our state is a part."""
    (tmp_path / "home" / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    bash = Bash(tmp_path / root, sandbox="required", max_chars=200)
    turns = ScriptedDriver([call("bash", command="seq 1 1000"), say("done")])
    agent = AgentBuilder().with_driver(turns).with_capability(bash).with_approver("deny").build()
    (result,) = agent.run_sync("Go.").steps[0].results
    where = result.metadata["output_file"]
    assert bash.sandbox.run_sync(["tail", "-n1", where]).text == "1000\n"


# --- progress messages: soon, in whole lines, and nothing is lost ------------------------------------


async def test_progress_messages_have_whole_lines() -> None:
    """A line that comes in pieces is sent when it has ended."""
    heard: list[str] = []
    progress = ProgressMessages(heard.append)
    for piece in (b"one\ntw", b"o\nthr", b"ee\n"):
        progress.add(piece)
        await asyncio.sleep(0.1)
    progress.finish()
    assert "".join(heard) == "one\ntwo\nthree\n"
    assert all(each.endswith("\n") for each in heard)


async def test_a_prompt_is_sent_although_its_line_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a silence, and while dots keep coming; the rest is sent at the end."""
    monkeypatch.setattr(output, "_SILENCE", 0.1)
    heard: list[str] = []
    progress = ProgressMessages(heard.append)
    progress.add(b"Go on? ")
    while not heard:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    assert heard == ["Go on? "]
    dots = 0
    while len(heard) == 1:
        progress.add(b".")
        dots += 1
        await asyncio.sleep(0.01)
    progress.add(b"end")
    progress.finish()
    assert "".join(heard) == f"Go on? {'.' * dots}end"


async def test_a_long_progress_message_has_only_its_end() -> None:
    """A message that is too long has only its end, and says how much is missing."""
    heard: list[str] = []
    progress = ProgressMessages(heard.append)
    progress.add(b"xxxx\n" * 10_000)
    progress.finish()
    assert heard[0].startswith("[42,005 characters not shown here]\nxxx")
    assert len(heard) == 1


def test_a_secret_that_is_printed_in_pieces_is_redacted(tmp_path: Path) -> None:
    """A command that prints a secret with a pause in it: no listener gets a part of it."""
    heard: list[str] = []
    script = "printf 'id: ghp_01234567'; sleep 0.2; echo 89abcdefghijABCDEFGHIJ012345"
    (tmp_path / "leak.sh").write_text(script)
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("bash", command="sh leak.sh"), say("done")]))
        .with_capability(Bash(tmp_path, sandbox="host"))
        .with_capability(Redaction())
        .with_approver(lambda _: True)
        .on_event(lambda record: heard.append(str(record)) if record.type == "progress" else None)
        .build()
    )
    assert "[redacted:github-token]" in agent.run_sync("Go.").steps[0].results[0].text
    assert heard
    assert "01234567" not in "".join(heard)


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nAoIBAQC7VJTUt9Us8cKjMzEfYy\n-----END PRIVATE KEY-----\n"


def progress_and_result(
    tmp_path: Path, script: str, *, command: str = "sh leak.sh"
) -> tuple[str, str]:
    """What listeners get while a script runs, and its result."""
    heard: list[str] = []
    (tmp_path / "leak.sh").write_text(script)
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("bash", command=command), say("done")]))
        .with_capability(Bash(tmp_path, sandbox="host"))
        .with_capability(Redaction())
        .with_approver(lambda _: True)
        .on_event(lambda each: heard.append(each.message) if each.type == "progress" else None)  # type: ignore[attr-defined]
        .build()
    )
    result = agent.run_sync("Go.")
    return "".join(heard), result.steps[0].results[0].text


def test_a_key_that_is_printed_line_by_line_is_redacted(tmp_path: Path) -> None:
    """The lines of a private key come in messages of their own; each of them is part of the key."""
    pauses = "".join(f"echo '{line}'; sleep 0.15\n" for line in KEY.splitlines())
    heard, result = progress_and_result(tmp_path, f"echo before\nsleep 0.15\n{pauses}echo after\n")
    assert "before\n" in heard
    assert "after\n" in heard
    assert "MIIEvQ" not in heard + result
    assert "AoIBAQ" not in heard + result


def test_a_value_that_follows_its_name_is_redacted(tmp_path: Path) -> None:
    """A name, a pause, and its value: the value is hidden, as it is in the result."""
    heard, result = progress_and_result(
        tmp_path, "printf 'DB_PASSWORD='; sleep 1.2; echo hunter2; echo on\n"
    )
    assert "hunter2" not in heard + result
    assert "on\n" in heard


def test_a_prompt_is_shown_and_what_follows_is_hidden(tmp_path: Path) -> None:
    """What was reported of a line counts for what comes after it."""
    heard, _ = progress_and_result(
        tmp_path, "printf 'api_key = '; sleep 1.2; echo abc123def456ghi; echo on\n"
    )
    assert "api_key = " in heard
    assert "abc123def456ghi" not in heard


def test_a_command_runs_with_the_secret_that_is_not_kept(tmp_path: Path) -> None:
    """The real shell gets the value, and no listener does."""
    command = "DB_PASSWORD=hunter2 sh leak.sh"
    heard, result = progress_and_result(
        tmp_path, 'echo "${#DB_PASSWORD} letters"\n', command=command
    )
    assert "7 letters" in result
    assert "hunter2" not in heard + result


async def test_half_a_word_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long word that has not ended is not reported; what came before it is."""
    monkeypatch.setattr(output, "_SILENCE", 0.05)
    heard: list[str] = []
    messages = ProgressMessages(heard.append)
    messages.add(b"token ghp_01234567")
    while not heard:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert heard == ["token "]
    messages.add(b"89\n")
    messages.finish()
    assert heard == ["token ", "ghp_0123456789\n"]


def test_hints_are_given_in_the_language_of_the_user_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs print what the C library says, in the language that its own table has."""
    catalogue = tmp_path / "xx/LC_MESSAGES/libc.mo"
    catalogue.parent.mkdir(parents=True)
    pairs = [(b"", b"Content-Type: text/plain; charset=UTF-8\n")]
    pairs.append((b"Read-only file system", "Schreibgeschütztes Dateisystem".encode()))
    texts = [text for pair in zip(*pairs, strict=True) for text in pair]
    table, start = b"", 28 + 8 * len(texts)
    for position, text in enumerate(texts):
        begin = start + sum(len(each) + 1 for each in texts[:position])
        table += struct.pack("<2I", len(text), begin)
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    catalogue.write_bytes(head + table + b"".join(text + b"\0" for text in texts))
    monkeypatch.setattr(output, "_LOCALES", str(tmp_path))
    monkeypatch.setenv("LANGUAGE", "xx")
    output._translations.cache_clear()
    try:
        assert output.find_causes("touch: 'x': Schreibgeschütztes Dateisystem") == {"files"}
        assert not output.find_causes("touch: 'x': Etwas anderes")
    finally:
        output._translations.cache_clear()


def test_a_long_line_with_many_names_is_searched_once() -> None:
    """A message counts behind a name in the same line, however long that is."""
    line = '{"path": ".git/x"}, ' * 500_000
    assert output.find_causes(line) == set()
    assert output.find_causes(f"{line}: File exists") == {"files"}
    assert output.find_causes(f"{line}\nmkdir: x: File exists: .git") == set()
    assert output.find_causes("mkdir: x: File exists: .vscode: Not a directory") == {"files"}
