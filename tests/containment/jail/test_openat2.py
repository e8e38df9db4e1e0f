"""The system call, and what is done where it is missing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment import FileJail, openat2
from hookline.errors import FileJailError, UsageError

needed = pytest.mark.skipif(not openat2.is_available(), reason="this system has no openat2")


@pytest.mark.parametrize(
    ("machine", "number"), [("x86_64", 437), ("aarch64", 437), ("alpha", None), ("mips64", None)]
)
def test_the_number_depends_on_the_machine(
    machine: str, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has another one, or there is no such call, another way is taken."""
    monkeypatch.setattr(openat2.sys, "platform", "linux")
    monkeypatch.setattr(openat2.platform, "machine", lambda: machine)
    assert openat2.number() == number
    monkeypatch.setattr(openat2.sys, "platform", "darwin")
    assert openat2.number() is None


@needed
def test_what_the_kernel_refuses(root: Path) -> None:
    """Each by its own error."""
    start = os.open(root, os.O_RDONLY)
    (root / "link").symlink_to("docs")
    strict = openat2.BENEATH | openat2.NO_SYMLINKS
    for path, code in ((b"..", errno.EXDEV), (b"link/x", errno.ELOOP), (b"nope", errno.ENOENT)):
        with pytest.raises(OSError, match=os.strerror(code)):
            openat2.openat2(start, path, os.O_RDONLY, strict)
    os.close(start)


def test_a_tree_that_keeps_changing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    """After some tries, and with words for it."""
    calls = []

    def busy(*arguments: object) -> int:
        calls.append(arguments)
        openat2.ctypes.set_errno(errno.EAGAIN)
        return -1

    monkeypatch.setattr(openat2, "is_available", lambda: True)
    monkeypatch.setattr(openat2, "_system_call", lambda: busy)
    with pytest.raises(FileJailError, match="keeps changing"):
        FileJail(root, way="openat2").open("docs/notes.txt")
    assert len(calls) > 100


def test_without_the_call_names_are_walked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default. If it is required, the error says that it is missing."""
    monkeypatch.setattr(openat2, "is_available", lambda: False)
    assert FileJail(root).way == "steps"
    assert FileJail(root).read_text("docs/notes.txt") == "notes"
    with pytest.raises(UsageError, match="no openat2"):
        FileJail(root, way="openat2")


NAMES = ("a", "b", "c", "..", ".", "")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=6).map("/".join)


@needed
@given(
    st.lists(st.tuples(PATHS, st.one_of(st.none(), PATHS)), max_size=12),
    st.lists(PATHS, min_size=1),
)
def test_both_ways_say_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[str, str | None]],
    asked: list[str],
) -> None:
    """In any tree of directories, files and links; and it is what the kernel says, as long as that stays inside."""
    place = tmp_path_factory.mktemp("tree")
    root = place / "root"
    root.mkdir()
    (place / "a").write_text("outside")
    for path, target in made:
        _plant(root, path, target)
    fast, slow = FileJail(root, way="openat2"), FileJail(root, way="steps")
    for path in asked:
        by_call, by_steps = _outcome(fast, path), _outcome(slow, path)
        assert by_call == by_steps, path
        assert _answers(fast, path) == _answers(slow, path), path
        assert by_call != "outside"
        real = os.path.realpath(root / path)
        if by_call.startswith("in "):
            assert by_call == f"in {os.path.relpath(real, root)}"
        elif os.path.isfile(root / path) and real.startswith(f"{root}/"):
            assert by_call in ("OutsideJailError", "FileKindError", "BadPathError")


def _plant(root: Path, path: str, target: str | None) -> None:
    """A file whose text says where it is, or a link; where that does not work, nothing."""
    inside = os.path.normpath(os.path.join("/", path)).lstrip("/")
    where = root / inside
    try:
        if not inside or os.path.realpath(where) != str(where):
            return
        where.parent.mkdir(parents=True, exist_ok=True)
        if target is None:
            where.write_text(f"in {inside}")
        elif target:
            where.symlink_to(target)
    except OSError:
        pass


def _outcome(jail: FileJail, path: str) -> str:
    try:
        return jail.read_text(path)
    except FileJailError as error:
        return type(error).__name__


def _answers(jail: FileJail, path: str) -> list[object]:
    """What else a jail says about a path."""
    found: list[object] = []
    for ask in (
        jail.exists,
        jail.locate,
        lambda path: jail.stat(path).st_ino,
        lambda path: [entry.path for entry in jail.list(path)],
        lambda path: jail.locate(path, to_change=True),
    ):
        try:
            found.append(ask(path))
        except FileJailError as error:
            found.append(type(error).__name__)
    return found
