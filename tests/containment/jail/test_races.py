"""Somebody swaps what is inside for links to the outside while it is being opened. Nothing leaks."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.containment import FileJail
from hookline.errors import FileJailError

ROUNDS = 2_000
SECRET = b"what nobody inside may read"


@contextlib.contextmanager
def swapping(swap: Callable[[int], None]) -> Iterator[None]:
    """Swap, over and over, in a thread of its own."""
    ended = threading.Event()

    def run() -> None:
        turn = 0
        while not ended.is_set():
            with contextlib.suppress(OSError):
                swap(turn)
            turn += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def exchange(root: Path, name: str, plain: str, link: str) -> Callable[[int], None]:
    """`name` is the plain thing and the link, in turn; it is replaced at once, so that it is always there."""
    os.symlink(link, root / "evil")

    def swap(turn: int) -> None:
        if turn % 2:
            os.rename(root / name, root / plain)
            os.rename(root / "evil", root / name)
        else:
            os.rename(root / name, root / "evil")
            os.rename(root / plain, root / name)

    os.rename(root / plain, root / name)
    return lambda turn: swap(turn + 1)


def reads(jail: FileJail, path: str) -> dict[bytes, int]:
    """What was read, and how often; b'' stands for an error. It goes on until the plain thing was there, too."""
    seen: dict[bytes, int] = {}
    for number in range(50 * ROUNDS):
        if number >= ROUNDS and b"harmless" in seen:
            break
        try:
            found = jail.read_bytes(path)
        except FileJailError:
            found = b""
        seen[found] = seen.get(found, 0) + 1
    return seen


def test_a_directory_that_turns_into_a_link(jail: FileJail, root: Path) -> None:
    """On the way to a file: thousands of opens, and not one of them leads out."""
    (root / "plain").mkdir()
    (root / "plain" / "secret.txt").write_text("harmless")
    swap = exchange(root, "d", "plain", "../elsewhere")
    with swapping(swap):
        seen = reads(jail, "d/secret.txt")
    assert SECRET not in seen
    assert sum(seen.values()) >= ROUNDS
    assert seen.get(b"harmless", 0) > 0


def test_a_file_that_turns_into_a_link(jail: FileJail, root: Path) -> None:
    """As the last name, to read."""
    (root / "plain").write_text("harmless")
    with swapping(exchange(root, "f", "plain", "../secret.txt")):
        seen = reads(jail, "f")
    assert SECRET not in seen
    assert seen.get(b"harmless", 0) > 0


def test_a_link_that_turns_from_inside_to_outside(jail: FileJail, root: Path) -> None:
    """Links are followed, and swapped while they are."""
    (root / "inner").mkdir()
    (root / "inner" / "secret.txt").write_text("harmless")
    (root / "plain").symlink_to("inner")
    with swapping(exchange(root, "l", "plain", "../elsewhere")):
        seen = reads(jail, "l/secret.txt")
    assert SECRET not in seen
    assert seen.get(b"harmless", 0) > 0


@pytest.mark.parametrize("kind", ["whole", "opened", "created"])
def test_writing_while_a_directory_turns_into_a_link(jail: FileJail, root: Path, kind: str) -> None:
    """Nothing outside is changed or made, however the file is written."""
    (root / "plain").mkdir()
    swap = exchange(root, "d", "plain", "../elsewhere")

    def write(turn: int) -> None:
        if kind == "whole":
            jail.write_text("d/secret.txt", "written")
        elif kind == "opened":
            with jail.open("d/secret.txt", "w") as file:
                file.write("written")
        else:
            jail.open(f"d/new-{turn}", "x").close()

    with swapping(swap):
        for turn in range(ROUNDS // 4):
            with contextlib.suppress(FileJailError):
                write(turn)
    assert os.listdir(root.parent / "elsewhere") == ["secret.txt"]
    assert (root.parent / "elsewhere" / "secret.txt").read_bytes() == SECRET


def test_removing_and_making_while_a_directory_turns_into_a_link(
    jail: FileJail, root: Path
) -> None:
    """Nothing outside is removed, and no directory is made there."""
    (root / "plain").mkdir()
    with swapping(exchange(root, "d", "plain", "../elsewhere")):
        for turn in range(ROUNDS // 8):
            for use in (
                lambda turn=turn: jail.mkdir(f"d/sub-{turn}/deep"),
                lambda: jail.remove("d/secret.txt"),
                lambda turn=turn: jail.remove(f"d/sub-{turn}", recursive=True),
                lambda: jail.list("d"),
            ):
                with contextlib.suppress(FileJailError):
                    use()
    assert os.listdir(root.parent / "elsewhere") == ["secret.txt"]


def test_walking_while_a_directory_turns_into_a_link(jail: FileJail, root: Path) -> None:
    """What is outside is not listed."""
    (root / "plain" / "sub").mkdir(parents=True)
    (root.parent / "elsewhere" / "sub").mkdir()
    (root.parent / "elsewhere" / "sub" / "leaked").touch()
    with swapping(exchange(root, "d", "plain", "../elsewhere")):
        for _ in range(ROUNDS // 20):
            with contextlib.suppress(FileJailError):
                assert not [entry for entry in jail.walk() if entry.name == "leaked"]


def test_protected_names_while_links_to_them_change(jail: FileJail, root: Path) -> None:
    """What was checked is what is opened: a link to `.git` swapped in late does not make it writable."""
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("as it was")
    (root / "plain").mkdir()
    with swapping(exchange(root, "d", "plain", ".git")):
        for _ in range(ROUNDS // 4):
            with contextlib.suppress(FileJailError):
                jail.write_text("d/config", "planted")
            with contextlib.suppress(FileJailError), jail.open("d/config", "w") as file:
                file.write("planted")
    assert (root / ".git" / "config").read_text() == "as it was"
