"""Reading, writing, listing and removing inside a jail."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import shlex
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from open_files import open_files

from hookline.containment import FileJail
from hookline.containment.jail import directory
from hookline.containment.protected import is_accepted
from hookline.errors import (
    FileChangedError,
    FileJailError,
    FileKindError,
    FileThereError,
    FileTooLargeError,
    NoSuchFileError,
    ProtectedPathError,
    UsageError,
)


def test_open_has_the_modes_of_open(jail: FileJail, root: Path) -> None:
    """Text is UTF-8, whatever the machine is set to."""
    with jail.open("a.txt", "x") as file:
        file.write("één")
    assert (root / "a.txt").read_bytes() == "één".encode()
    with jail.open("a.txt", "a") as file:
        file.write(" twee")
    with jail.open("a.txt", "r+") as file:
        assert file.read() == "één twee"
    with jail.open("a.txt", "w") as file:
        file.write("kort")
    with jail.open("a.txt", "rb") as file:
        assert file.read() == b"kort"
    with pytest.raises(FileThereError):
        jail.open("a.txt", "x")
    with pytest.raises(UsageError, match="mode"):
        jail.open("a.txt", "z")


def test_a_file_is_written_as_a_whole(jail: FileJail, root: Path) -> None:
    """Whoever has the old one open keeps it, its mode stays, and nothing else is left behind."""
    os.chmod(root / "docs/notes.txt", 0o640)
    with jail.open("docs/notes.txt") as old:
        jail.write_text("docs/notes.txt", "new", fsync=True)
        assert old.read() == "notes"
    assert jail.read_text("docs/notes.txt") == "new"
    assert stat.S_IMODE(os.stat(root / "docs/notes.txt").st_mode) == 0o640
    assert sorted(os.listdir(root / "docs")) == ["deep", "notes.txt"]


def test_a_reader_never_sees_half_a_file(jail: FileJail) -> None:
    """It is the one content or the other, at any time."""
    contents = {b"a" * 100_000, b"b" * 50_000}
    jail.write_bytes("f", b"a" * 100_000)
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(jail.read_bytes("f"))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        for content in contents:
            jail.write_bytes("f", content)
    done.set()
    reader.join()
    assert seen <= contents


def test_a_new_file_has_the_mode_that_new_files_have(jail: FileJail, root: Path) -> None:
    """And a program that ran as somebody else does not any more when it is another program."""
    mask = os.umask(0o027)
    try:
        jail.write_text("made/up/new.txt", "x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(root / "made/up/new.txt").st_mode) == 0o640
    (root / "program").write_text("x")
    os.chmod(root / "program", 0o4755)
    jail.write_text("program", "y")
    assert stat.S_IMODE(os.stat(root / "program").st_mode) == 0o755


def test_writing_through_a_link_keeps_the_link(jail: FileJail, root: Path) -> None:
    """The file it leads to is what is written, also when it is not there yet."""
    (root / "link").symlink_to("docs/notes.txt")
    (root / "dangling").symlink_to("docs/new.txt")
    jail.write_text("link", "by link")
    jail.write_text("dangling", "made")
    with jail.open("dangling", "a") as file:
        file.write(" more")
    assert (root / "link").is_symlink()
    assert jail.read_text("docs/notes.txt") == "by link"
    assert jail.read_text("docs/new.txt") == "made more"


def test_overwriting_and_parents_can_be_refused(jail: FileJail, root: Path) -> None:
    """With nothing left behind."""
    with pytest.raises(FileThereError):
        jail.write_text("docs/notes.txt", "x", overwrite=False)
    with pytest.raises(NoSuchFileError):
        jail.write_text("nowhere/x", "x", parents=False)
    jail.write_text("new.txt", "x", overwrite=False)
    assert sorted(os.listdir(root)) == ["docs", "new.txt"]


def test_a_file_that_changed_meanwhile_is_left_alone(jail: FileJail, root: Path) -> None:
    """For callers that looked at the file before they write it."""
    seen = jail.stat("docs/notes.txt")
    jail.write_bytes("docs/notes.txt", b"mine", expected=seen)
    with pytest.raises(FileChangedError):
        jail.write_bytes("docs/notes.txt", b"late", expected=seen)
    assert jail.read_text("docs/notes.txt") == "mine"
    assert sorted(os.listdir(root / "docs")) == ["deep", "notes.txt"]


def test_a_write_that_fails_leaves_everything_as_it_was(jail: FileJail, root: Path) -> None:
    """No half of a file, and nothing beside it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(FileJailError, match="file too large"):
            jail.write_bytes("docs/notes.txt", b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert jail.read_text("docs/notes.txt") == "notes"
    assert sorted(os.listdir(root / "docs")) == ["deep", "notes.txt"]


def test_reading_is_bounded(jail: FileJail) -> None:
    """A file larger than asked for is an error, not a surprise."""
    jail.write_bytes("f", b"x" * 11)
    assert jail.read_bytes("f", limit=11) == b"x" * 11
    with pytest.raises(FileTooLargeError, match="larger than 10 bytes"):
        jail.read_bytes("f", limit=10)
    assert len(jail.read_bytes("f", limit=None)) == 11


def test_directories_are_made_listed_and_walked(jail: FileJail, root: Path) -> None:
    """In the order of the names, with what each thing is; links are shown and not followed."""
    jail.mkdir("a/b/c")
    jail.mkdir("a/b")
    with pytest.raises(FileThereError):
        jail.mkdir("a/b", exist_ok=False)
    with pytest.raises(FileJailError):
        jail.mkdir("docs/notes.txt/x")
    (root / "a" / "link").symlink_to("../docs")
    os.mkfifo(root / "a" / "pipe")
    assert [(e.name, e.kind) for e in jail.list("a")] == [
        ("b", "directory"),
        ("link", "link"),
        ("pipe", "other"),
    ]
    assert [e.path for e in jail.walk("a")] == ["a/b", "a/b/c", "a/link", "a/pipe"]
    assert [e.path for e in jail.list("a/link")] == ["docs/deep", "docs/notes.txt"]
    assert [e.size for e in jail.list("docs") if e.is_file] == [5]
    with pytest.raises(FileKindError):
        jail.list("docs/notes.txt")


def test_removing(jail: FileJail, root: Path) -> None:
    """A link goes, not what it points to; a directory that is not empty only when all of it is meant."""
    (root / "link").symlink_to("docs")
    (root / "docs" / "out").symlink_to("../../elsewhere")
    jail.remove("link")
    with pytest.raises(FileJailError, match="not empty"):
        jail.remove("docs")
    jail.remove("docs/notes.txt")
    jail.remove("docs", recursive=True)
    assert os.listdir(root) == []
    assert (root.parent / "elsewhere" / "secret.txt").exists()
    with pytest.raises(NoSuchFileError):
        jail.remove("docs")
    with pytest.raises(FileJailError, match="the root"):
        jail.remove(".", recursive=True)


def test_questions_open_nothing(jail: FileJail, root: Path) -> None:
    """What is there, and where a path leads."""
    os.mkfifo(root / "pipe")
    assert stat.S_ISFIFO(jail.stat("pipe").st_mode)
    assert [jail.exists(path) for path in ("pipe", "docs", "nope", "nope/x")] == [1, 1, 0, 0]
    assert jail.locate("docs/../new/./x") == "new/x"


@pytest.mark.parametrize(
    "name",
    [".git", ".GIT", ".Git", ".git.", ".git ", ".g\u200cit", "git~1", ".git::$INDEX_ALLOCATION"],
)
def test_protected_names_are_read_and_not_changed(jail: FileJail, root: Path, name: str) -> None:
    """At any depth and in any spelling that some file system takes for the same name."""
    (root / "sub" / name).mkdir(parents=True)
    (root / "sub" / name / "config").write_text("as it was")
    (root / "innocent").symlink_to(f"sub/{name}")
    assert jail.read_text(f"sub/{name}/config") == "as it was"
    for path in (f"sub/{name}/config", "innocent/config", f"sub/x/../{name}/hooks/new"):
        for use in (
            lambda path: jail.write_text(path, "planted"),
            lambda path: jail.open(path, "w"),
            lambda path: jail.open(path, "a"),
            lambda path: jail.open(path, "x"),
            jail.remove,
            jail.mkdir,
            lambda path: jail.locate(path, to_change=True),
        ):
            with pytest.raises(ProtectedPathError, match="protected"):
                use(path)
    with pytest.raises(ProtectedPathError):
        jail.remove("sub", recursive=True)
    assert (root / "sub" / name / "config").read_text() == "as it was"
    assert os.listdir(root / "sub" / name) == ["config"]


STORES = ("objects/a", "refs/a")
SETTINGS = ("config", "config.worktree", "hooks/a")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_no_order_of_writing_makes_a_repository(
    jail: FileJail, root: Path, order: tuple[int, ...], setting: str
) -> None:
    """Settings never stand beside both stores, so a `HEAD` that a command adds later makes nothing that git obeys."""
    parts = ("HEAD", *STORES, setting)
    for each in order:
        with contextlib.suppress(ProtectedPathError):
            jail.write_text(f"s/{parts[each]}", "x")
    there = [part for part in parts if (root / "s" / part).exists()]
    assert len(there) == 2
    assert "HEAD" not in there
    for part in there:
        jail.write_text(f"s/{part}", "they can be written again")


@pytest.mark.parametrize("missing", [*STORES, *SETTINGS])
def test_a_repository_without_a_head_is_not_changed(
    jail: FileJail, root: Path, missing: str
) -> None:
    """The sandbox counts it as a repository of yours, and a command can add the `HEAD`."""
    for part in {*STORES, "config"} - {missing}:
        (root / "s" / part).parent.mkdir(parents=True, exist_ok=True)
        (root / "s" / part).write_text("as it was")
    for use in (lambda path: jail.write_text(path, "x"), jail.mkdir):
        with pytest.raises(ProtectedPathError, match="part of a repository"):
            use(f"s/{missing}")


@pytest.mark.parametrize("part", ["config", "config.worktree", "hooks/a", *STORES])
def test_a_directory_with_a_commondir_gets_no_settings(
    jail: FileJail, root: Path, part: str
) -> None:
    """The sandbox counts it as git's, and git does too with a `HEAD`."""
    (root / "s").mkdir()
    (root / "s" / "commondir").write_text(".")
    with pytest.raises(ProtectedPathError, match="part of a repository"):
        jail.write_text(f"s/{part}", "x")


@pytest.mark.parametrize("store", STORES)
def test_settings_beside_one_store_are_files_of_a_project(jail: FileJail, store: str) -> None:
    """Only both stores together make a repository."""
    for _ in range(2):
        for part in ("config", store, "hooks/use.ts"):
            jail.write_text(f"src/{part}", "x")
    jail.remove("src", recursive=True)


@pytest.mark.parametrize(
    "missing", ["objects/a", "refs/a", "config", "config.worktree", "commondir", "hooks/a"]
)
@pytest.mark.parametrize("place", ["s", "link", "."])
def test_a_repository_under_another_name_is_not_changed(
    jail: FileJail, root: Path, missing: str, place: str
) -> None:
    """A directory with a `HEAD` in it, which a command may have left, gets nothing that git obeys."""
    (root / "s" / "wt").mkdir(parents=True)
    (root / "link").symlink_to("s")
    (root / "s" / "HEAD").symlink_to("missing")
    (root / "HEAD").write_text("ref: refs/heads/main")
    for use in (
        lambda path: jail.write_text(path, "x"),
        lambda path: jail.open(path, "w"),
        jail.mkdir,
    ):
        for spelled in (missing, missing.upper()):
            with pytest.raises(ProtectedPathError, match="part of a repository"):
                use(f"{place}/{spelled}")
    for use in (jail.remove, lambda path: jail.remove("s", recursive=True)):
        with pytest.raises(ProtectedPathError, match="part of a repository"):
            use("s/HEAD")
    jail.write_text(f"{place}/wt/config", "x")


@pytest.mark.parametrize(
    "name", ["rebase-merge/msgnum", "MERGE_RR", "sl/config", "logs/HEAD.lock", "new/deep/file"]
)
def test_nothing_is_changed_in_a_git_directory_of_another_name(
    jail: FileJail, root: Path, name: str
) -> None:
    """As `git init --separate-git-dir` makes one. A work tree that lies in it is one like others."""
    make = "git init -q --separate-git-dir store tree && git -C tree commit -q --allow-empty -m x"
    user = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(
        ["bash", "-c", make.replace("commit", shlex.join([*user, "commit"]))], cwd=root, check=True
    )
    subprocess.run(
        ["git", "worktree", "add", "-q", "../store/trees/one"], cwd=root / "tree", check=True
    )
    for place in ("store", "store/worktrees/one"):
        for use in (lambda path: jail.write_text(path, "x"), jail.mkdir):
            with pytest.raises(ProtectedPathError, match="part of a repository"):
                use(f"{place}/{name}")
    jail.write_text("store/trees/one/src/file", "x")
    jail.write_text("tree/src/file", "x")


@pytest.mark.parametrize(
    "change",
    [
        lambda store: (store / "HEAD").rename(store / "H"),
        lambda store: (store / "refs").rename(store / "r"),
        lambda store: (store / ".git").mkdir(),
        lambda store: (store / "rebase-merge/.git").mkdir(parents=True),
    ],
)
def test_a_command_does_not_hide_a_git_directory_of_another_name(
    jail: FileJail, root: Path, change: Callable[[Path], object]
) -> None:
    """It may move a part of it away, or make a directory `.git` inside of it."""
    subprocess.run(["git", "init", "-q", "--bare", root / "store"], check=True)
    change(root / "store")
    for name in ("rebase-merge/msgnum", "MERGE_RR"):
        with pytest.raises(ProtectedPathError, match="part of a repository"):
            jail.write_text(f"store/{name}", "x")


@pytest.mark.parametrize(
    "inside", [".git/hooks", ".git/refs/heads", "store/hooks", "store/info", ".hg/store"]
)
def test_a_root_inside_of_version_control_is_not_changed(root: Path, inside: str, way: str) -> None:
    """The names above the root count too, up to the next work tree."""
    for git in (".git", "store"):
        subprocess.run(["git", "init", "-q", "--bare", root / git], check=True)
    (root / inside / "tree" / "src").mkdir(parents=True)
    with FileJail(root / inside, way=way) as jail, pytest.raises(ProtectedPathError):  # type: ignore[arg-type]
        jail.write_text("pre-commit", "x")
    subprocess.run(["git", "init", "-q", root / inside / "tree"], check=True)
    for place in ("tree", "tree/src"):
        with FileJail(root / inside / place, way=way) as jail:  # type: ignore[arg-type]
            jail.write_text("file", "x")


@pytest.mark.parametrize(
    "name",
    [
        "HEAD",
        "head",
        "HEAD.",
        "HE\u200cAD",
        "docs/HEAD",
        "new/sub/Head",
        "commondir",
        "s/CommonDir",
    ],
)
def test_a_head_is_not_written(jail: FileJail, root: Path, name: str) -> None:
    """At any depth and in any spelling that some file system takes for the same name; without `.git`, it is."""
    with pytest.raises(ProtectedPathError, match="part of a repository"):
        jail.write_text(name, "x")
    FileJail(root, protected=["x"], way=jail.way).write_text(name, "x")


@pytest.mark.parametrize(
    "name",
    ["config", "sub/config", "hooks/use.ts", "refs/a", "src/head/index.ts", "HEAD.md", "head.html"],
)
def test_ordinary_files_with_such_names_are_written(jail: FileJail, root: Path, name: str) -> None:
    """Without a `HEAD` beside them these are files of a project."""
    jail.write_text(name, "x")
    jail.write_text(name, "y")
    assert (root / name).read_text() == "y"
    jail.remove(name.split("/")[0], recursive=True)


def test_which_names_are_protected_is_an_option(root: Path, way: str) -> None:
    """`protected` is read only, `secret` is not there at all; what only looks alike is neither."""
    (root / ".env").write_text("KEY=1")
    jail = FileJail(root, protected=["Docs"], secret=".env", way=way)  # type: ignore[arg-type]
    jail.write_text(".git/config", "mine to break")
    jail.write_text(".environment", "x")
    with pytest.raises(ProtectedPathError):
        jail.write_text("docs/notes.txt", "x")
    for use in (jail.open, jail.stat, jail.remove, jail.locate):
        with pytest.raises(ProtectedPathError, match="secret"):
            use(".ENV")
    assert ".env" not in [entry.name for entry in jail.walk()]
    with pytest.raises(UsageError, match="not a name"):
        FileJail(root, protected=["a/b/c"])
    with pytest.raises(UsageError, match="not a name"):
        FileJail(root, secret=["a/b"])


def test_a_name_can_be_protected_in_one_directory_alone(root: Path, way: str) -> None:
    """At any depth, in any spelling, and in the root if that is the directory; elsewhere it is a name like others."""
    (root / "Lib").mkdir()
    names = ["lib/Keys", "lib/*.toml", "a*z"]
    for jail, before in (
        (FileJail(root, protected=names, way=way), "Lib/"),  # type: ignore[arg-type]
        (FileJail(root, protected=names, way=way), "sub/LIB./"),  # type: ignore[arg-type]
        (FileJail(root / "Lib", protected=names, way=way), ""),  # type: ignore[arg-type]
    ):
        for name in ("keys", "KEYS/a", "x.toml"):
            with pytest.raises(ProtectedPathError):
                jail.write_text(before + name, "x")
        for name in ("sub/keys", "sub/x.toml", "ab/yz"):
            jail.write_text(before + name, "x")
    (root / "Lib" / "keys").touch()
    with pytest.raises(ProtectedPathError):
        FileJail(root, protected=names, way=way).remove("Lib", recursive=True)  # type: ignore[arg-type]
    for wrong in ("/a", "a/", "/", "[a/b]"):
        with pytest.raises(UsageError, match="not a name"):
            FileJail(root, protected=[wrong])


def test_a_pattern_is_all_names_that_fit(root: Path, way: str) -> None:
    """At any depth, whatever the case, in directories too; and it is never taken for nothing."""
    for name in ("key.pem", "sub/Other.PEM", "plain.txt", "x1"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("text")
    jail = FileJail(root, protected=["*.lock", "[xy]?"], secret=["*.pem"], way=way)  # type: ignore[arg-type]
    for secret in ("key.pem", "sub/Other.PEM", "new.pem", "a.pem/b"):
        with pytest.raises(ProtectedPathError, match="secret"):
            jail.write_text(secret, "x")
    for protected in ("z.lock", "sub/Z.LOCK", "x1"):
        with pytest.raises(ProtectedPathError):
            jail.write_text(protected, "x")
    assert {entry.name for entry in jail.walk()}.isdisjoint({"key.pem", "Other.PEM"})
    jail.write_text("plain.txt", "new")
    jail.write_text("locks", "new")


def test_a_root_has_to_be_a_directory(root: Path) -> None:
    """Said when the jail is made."""
    for wrong in (root / "nope", root / "docs/notes.txt"):
        with pytest.raises(UsageError, match="cannot be the root"):
            FileJail(wrong)
    with pytest.raises(UsageError, match="None cannot be the root of a file jail"):
        FileJail(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="way="):
        FileJail(root, way="magic")  # type: ignore[arg-type]


def test_a_closed_jail_opens_nothing(jail: FileJail) -> None:
    """And says so, instead of using a descriptor that is somebody else's by now."""
    with jail.open("docs/notes.txt") as file:
        jail.close()
        jail.close()
        assert file.read() == "notes"
    with pytest.raises(UsageError, match="closed"):
        jail.open("docs/notes.txt")


def test_no_descriptor_is_lost(jail: FileJail, root: Path) -> None:
    """Whether paths work or not."""
    (root / "link").symlink_to("docs/deep")
    os.mkfifo(root / "pipe")

    def use() -> None:
        for path in (
            "docs/notes.txt",
            "link/er.txt",
            "pipe",
            "docs",
            "nope",
            "../x",
            "link/../x/y",
        ):
            for act in (jail.read_bytes, jail.list, jail.stat, jail.locate):
                with contextlib.suppress(FileJailError):
                    act(path)
            with contextlib.suppress(FileJailError):
                jail.write_text(path, "x", parents=False)

    use()
    before = open_files(root)
    use()
    assert open_files(root) == before


def test_content_and_modes_that_make_no_sense_are_named(tmp_path: Path) -> None:
    """An error of ours that says what was wrong and what to use, and nothing is written."""
    jail = FileJail(tmp_path)
    with pytest.raises(UsageError, match=r"given bytes\. Use write_bytes"):
        jail.write_text("a", b"x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"given str\. Use write_text"):
        jail.write_bytes("a", "x")  # type: ignore[arg-type]
    for mode in ("z", "rw", ""):
        with pytest.raises(UsageError, match=r"does not work: .*mode.* Use the modes"):
            jail.open("a", mode)
    with pytest.raises(UsageError, match="unknown encoding"):
        jail.open("a", "w", encoding="no such")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("target", ["tools/hooks", "{root}/tools/hooks"])
@pytest.mark.parametrize("path", [".husky/pre-commit", "tools/hooks/pre-commit", "tools/Hooks/x"])
def test_what_a_protected_link_leads_to_is_protected(
    tmp_path: Path, target: str, path: str
) -> None:
    """Others obey the files there, whatever path they were written by; the rest can be written."""
    (tmp_path / "tools/hooks").mkdir(parents=True)
    (tmp_path / ".husky").symlink_to(target.format(root=tmp_path))
    with FileJail(tmp_path) as jail:
        with pytest.raises(FileJailError):
            jail.write_text(path, "x")
        with pytest.raises(FileJailError):
            jail.remove("tools", recursive=True)
        jail.write_text("tools/other", "x")
    assert not any((tmp_path / "tools/hooks").iterdir())


@pytest.mark.parametrize("name", [".vscode", ".git", ".hg", ".github/hooks", "x.code-workspace"])
def test_nothing_is_changed_where_the_root_itself_is_protected(tmp_path: Path, name: str) -> None:
    """Others obey whatever is in it. It can be read."""
    root = tmp_path / name
    root.mkdir(parents=True)
    (root / "file").write_text("x")
    with FileJail(root) as jail:
        with pytest.raises(ProtectedPathError, match=root.name):
            jail.write_text("file", "y")
        assert jail.read_text("file") == "x"
    with FileJail(root, protected=()) as jail:
        jail.write_text("file", "y")


def test_only_what_was_written_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may put another file in its place at once, which nobody has agreed to."""
    (tmp_path / "evil").write_text("evil")
    take = directory._take_free_name

    def take_and_lose(where: int, temporary: str, name: str) -> None:
        take(where, temporary, name)
        os.rename(tmp_path / name, tmp_path / "good")
        os.rename(tmp_path / "evil", tmp_path / name)

    monkeypatch.setattr(directory, "_take_free_name", take_and_lose)
    with FileJail(tmp_path, protected=()) as jail:
        jail.write_text("AGENTS.md", "good", overwrite=False)
    assert not is_accepted(os.stat(tmp_path / "AGENTS.md"))
