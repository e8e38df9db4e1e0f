"""Known ways out of a jail: none of them works."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hookline.containment import FileJail
from hookline.errors import (
    BadPathError,
    FileJailError,
    FileKindError,
    NoSuchFileError,
    OutsideJailError,
    UsageError,
)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "docs/../../secret.txt",
        "docs/deep/../../../secret.txt",
        "./.././secret.txt",
        "..",
        "../root/docs/notes.txt",
        "docs/../../root/docs/notes.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/secret.txt",
        "missing/../../secret.txt",
    ],
)
def test_dots_and_absolute_paths_lead_nowhere(jail: FileJail, path: str) -> None:
    """A path that leads out is refused, also when it would come back, for every kind of use."""
    for use in (jail.open, jail.read_bytes, jail.list, jail.mkdir, jail.remove, jail.stat):
        with pytest.raises(OutsideJailError):
            use(path)
    for use in (jail.locate, jail.exists):
        with pytest.raises(OutsideJailError):
            use(path)
    with pytest.raises(OutsideJailError):
        jail.write_bytes(path, b"x")


def test_a_sibling_with_the_same_beginning_is_outside(jail: FileJail, root: Path) -> None:
    """`/jail-other` does not lie in `/jail`."""
    other = root.with_name("root-other")
    other.mkdir()
    (other / "f").write_text("x")
    with pytest.raises(OutsideJailError):
        jail.open(str(other / "f"))
    with pytest.raises(OutsideJailError):
        jail.open(f"{root}/../root-other/f")


def test_absolute_paths_inside_are_made_relative(jail: FileJail, root: Path) -> None:
    """However they are spelled."""
    for path in (
        root / "docs/notes.txt",
        f"{root}//docs/./deep/../notes.txt",
        f"/{root}/docs/notes.txt",
    ):
        assert jail.read_text(path) == "notes"
    assert jail.locate(str(root)) == "."


@pytest.mark.parametrize(
    "target",
    [
        "../secret.txt",
        "../../secret.txt",
        "docs/../../secret.txt",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/dev/null",
    ],
)
def test_links_to_the_outside_are_not_followed(jail: FileJail, root: Path, target: str) -> None:
    """As the last name or on the way, to a file or to a directory, to read or to write."""
    (root / "link").symlink_to(target)
    (root / "docs" / "out").symlink_to("../../elsewhere")
    (root / "chain").symlink_to("link")
    for path in ("link", "chain", "docs/out/secret.txt", "docs/out/new.txt"):
        with pytest.raises(OutsideJailError):
            jail.open(path)
        for write in (jail.write_text, lambda path, text: jail.open(path, "w").write(text)):
            with pytest.raises(OutsideJailError):
                write(path, "overwritten")
    assert "overwritten" not in (root.parent / "secret.txt").read_text()
    assert os.listdir(root.parent / "elsewhere") == ["secret.txt"]


def test_an_absolute_link_is_not_followed_even_to_the_inside(jail: FileJail, root: Path) -> None:
    """There is no other root than the jail's, so an absolute target means nothing here."""
    (root / "link").symlink_to(root / "docs" / "notes.txt")
    with pytest.raises(OutsideJailError):
        jail.open("link")


def test_links_that_stay_inside_work(jail: FileJail, root: Path) -> None:
    """To files, to directories, over several links and with dots in them."""
    (root / "a").symlink_to("docs/notes.txt")
    (root / "b").symlink_to("a")
    (root / "docs" / "up").symlink_to("..")
    (root / "c").symlink_to("docs/up/docs/up/b")
    (root / "d").symlink_to("docs/deep")
    for path in ("a", "b", "c", "docs/up/a", "docs/up/docs/notes.txt", "d/../notes.txt"):
        assert jail.read_text(path) == "notes", path
    assert jail.read_text("d/er.txt") == "deeper"
    assert jail.locate("docs/up/docs/up/d/er.txt") == "docs/deep/er.txt"


def test_links_in_a_circle_end(jail: FileJail, root: Path) -> None:
    """With an error that says so."""
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    for use in (jail.open, jail.locate, jail.list):
        with pytest.raises(FileJailError, match="loop of symbolic links"):
            use("a")


@pytest.mark.skipif(not os.path.exists("/proc/self/root"), reason="there is no /proc here")
@pytest.mark.parametrize("path", ["root/etc/passwd", "cwd", "root", "exe", "fd/0", "cwd/x"])
def test_magic_links_are_not_followed(way: str, path: str) -> None:
    """Links that the kernel makes up lead anywhere, whatever they read like."""
    jail = FileJail("/proc/self", way=way)  # type: ignore[arg-type]
    with pytest.raises(FileJailError):
        jail.open(path)


@pytest.mark.skipif(not os.path.exists("/proc/self/root"), reason="there is no /proc here")
def test_magic_links_are_not_followed_below_the_root_of_the_system(way: str) -> None:
    """Even where nothing is outside."""
    with pytest.raises(OutsideJailError):
        FileJail("/", way=way).open("proc/self/root/etc/passwd")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "\uff0e\uff0e/secret.txt",
        "..\\secret.txt",
        "\u2025/secret.txt",
    ],
)
def test_nothing_is_decoded(jail: FileJail, root: Path, path: str) -> None:
    """Percent signs and characters that look like dots are names like any other."""
    with pytest.raises(NoSuchFileError):
        jail.open(path)
    jail.write_text(path, "inside")
    assert jail.read_text(path) == "inside"
    assert root.parent.joinpath("secret.txt").read_text() != "inside"
    assert (root / path).exists()


@pytest.mark.parametrize("path", ["docs/notes.txt\0.png", "\0", "docs\0/../../secret.txt"])
def test_a_nul_is_refused(jail: FileJail, path: str) -> None:
    """Before anything looks at the path."""
    for use in (jail.open, jail.list, jail.remove, jail.locate):
        with pytest.raises(BadPathError, match="NUL"):
            use(path)


@pytest.mark.parametrize("path", ["x" * 256, "x/" * 4000, "docs/" + "y" * 5000, "\ud800"])
def test_names_that_no_file_has_are_refused(jail: FileJail, path: str) -> None:
    """With a short message, however long they are."""
    for use in (jail.open, lambda path: jail.write_text(path, "x"), jail.mkdir):
        with pytest.raises(BadPathError) as error:
            use(path)
        assert len(str(error.value)) < 400


def test_a_deep_path_does_not_use_up_all_descriptors(jail: FileJail) -> None:
    """There is an end to how deep a path is followed name by name."""
    jail.write_text("/".join("d" * 200), "x")
    for use in (jail.open, jail.list, jail.mkdir, lambda path: jail.write_text(path, "x")):
        with pytest.raises(BadPathError, match="deep"):
            use("/".join("d" * 300))


def test_an_empty_path_is_refused(jail: FileJail) -> None:
    """The root is called '.'."""
    with pytest.raises(BadPathError, match=r"Use '\.'"):
        jail.open("")


def test_what_is_no_path_is_refused(jail: FileJail) -> None:
    """Bytes and numbers, a descriptor above all, are not paths."""
    for path in (0, b"docs/notes.txt", None):
        with pytest.raises(UsageError):
            jail.open(path)  # type: ignore[arg-type]


def test_only_plain_files_are_opened(jail: FileJail, root: Path, tmp_path: Path) -> None:
    """A pipe does not make anybody wait, and a directory, a socket or a device is no file."""
    os.mkfifo(root / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(root)  # a socket's name is short
    try:
        listening.bind("socket")
    finally:
        os.chdir(here)
    for path in ("pipe", "socket", "docs"):
        for mode in ("r", "w", "a", "r+"):
            with pytest.raises(FileKindError):
                jail.open(path, mode)
        with pytest.raises(FileKindError):
            jail.write_text(path, "x")
    listening.close()


@pytest.mark.parametrize("name", ["null", "zero", "tty", "stdin"])
def test_devices_are_not_files(way: str, name: str) -> None:
    """Not even harmless ones."""
    with pytest.raises(FileJailError):
        FileJail("/dev", way=way).open(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["docs/notes.txt/", "docs/notes.txt/.", "new/", "docs/", "."])
def test_a_path_that_ends_with_a_slash_is_no_file(jail: FileJail, path: str) -> None:
    """It is not taken for the file without the slash."""
    for use in (
        jail.open,
        lambda path: jail.open(path, "w"),
        lambda path: jail.write_text(path, ""),
    ):
        with pytest.raises(FileKindError):
            use(path)


def test_writing_to_a_hard_link_is_refused(jail: FileJail, root: Path) -> None:
    """Its other name may be outside. Reading it is like reading any file."""
    os.link(root.parent / "secret.txt", root / "link")
    for mode in ("w", "a", "r+", "wb"):
        with pytest.raises(FileKindError, match="second name"):
            jail.open("link", mode)
    with pytest.raises(FileKindError, match="Remove it first"):
        jail.write_text("link", "x")
    assert jail.read_text("link") == (root.parent / "secret.txt").read_text() != "x"


def test_a_root_that_is_a_link_is_followed_once(tmp_path: Path, root: Path, way: str) -> None:
    """Where it points later is of no interest."""
    link = tmp_path / "link"
    link.symlink_to(root)
    jail = FileJail(link, way=way)  # type: ignore[arg-type]
    assert jail.read_text("docs/notes.txt") == jail.read_text(link / "docs/notes.txt") == "notes"
    assert jail.read_text(root / "docs/notes.txt") == "notes"
    link.unlink()
    link.symlink_to(tmp_path / "elsewhere")
    assert jail.read_text("docs/notes.txt") == "notes"
    with pytest.raises(NoSuchFileError):
        jail.open("secret.txt")


def test_a_root_that_is_gone_has_nothing_in_it(jail: FileJail, root: Path) -> None:
    """Another directory of the same name is another directory."""
    root.rename(root.with_name("moved"))
    root.mkdir()
    (root / "planted.txt").write_text("x")
    assert jail.read_text("docs/notes.txt") == "notes"
    with pytest.raises(NoSuchFileError):
        jail.open("planted.txt")
    jail.remove("docs", recursive=True)
    root.with_name("moved").rmdir()
    for use in (jail.list, lambda path: jail.write_text(f"{path}/x", "x"), jail.stat):
        with pytest.raises(NoSuchFileError):
            use("docs")
    with pytest.raises(NoSuchFileError, match="removed"):
        jail.list()
    with pytest.raises(NoSuchFileError):
        jail.write_text("x", "x")


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="nothing is mounted here")
def test_mounts_can_be_left_out(way: str) -> None:
    """They count as inside, because the user mounted them, unless they are refused."""
    assert FileJail("/", way=way).read_bytes("proc/version")  # type: ignore[arg-type]
    strict = FileJail("/", way=way, mounts=False)  # type: ignore[arg-type]
    with pytest.raises(OutsideJailError):
        strict.open("proc/version")
    with pytest.raises(OutsideJailError):
        strict.list("proc")


def test_errors_name_no_other_path(jail: FileJail, root: Path) -> None:
    """What a link points to and where the root is are nobody's business."""
    (root / "link").symlink_to("../elsewhere/secret.txt")
    for path in ("link", "/etc/shadow", "nothing", "docs", "../x"):
        with pytest.raises(FileJailError) as error:
            jail.open(path)
        assert str(root) not in str(error.value)
        assert "elsewhere" not in str(error.value)
        assert error.value.path == path
        assert error.value.__cause__ is None
        assert isinstance(error.value, OSError)
