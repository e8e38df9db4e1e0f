"""No regular file keeps a set-id bit that a command gave it; directories do."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from hookline.containment import Sandbox
from hookline.containment.sandbox import bubblewrap
from hookline.containment.sandbox.set_id import clear_set_ids, file_clock

from .conftest import ROOT, Place, needs_bubblewrap

pytestmark = needs_bubblewrap


def _bits(path: Path) -> int:
    return path.stat().st_mode & 0o6000


def _marked(place: Path) -> list[str]:
    """The regular files with a set-id bit."""
    found = (path for path in place.rglob("*") if not path.is_symlink() and path.is_file())
    return sorted(path.name for path in found if _bits(path))


WAYS = {
    "chmod": "touch f; chmod g+s f; chmod 2775 f",
    "with execution": "cp /bin/true f; chmod 2755 f; test -g f",
    "copied with its mode": "mkdir s; touch s/f; chmod 2775 s/f; cp -a s/f f; cp -a s t",
    "moved into place": "cp /bin/true /tmp/f; chmod 2755 /tmp/f; mv /tmp/f f",
    "renamed": "touch .x; chmod 2755 .x; mkdir d; mv .x d/f",
    "linked": "touch a; chmod 2755 a; ln a b; mkdir d; ln b d/f; rm a",
    "unpacked": "touch f; chmod 2755 f; tar cf a.tar f; rm f; tar xpf a.tar",
    "in the background": "(touch f; chmod 2755 f; sleep 20) & while ! test -g f; do sleep 0.05; done",
    "without a name": 'python3 -I -c \'import os; fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o755); '
    'os.fchmod(fd, 0o2755); os.link(f"/proc/self/fd/{fd}", "f", follow_symlinks=True)\' || true',
    "through an access list": "touch f; chmod 2644 f; setfacl -m g::x,m::x f || true",
    "in a directory that cannot be listed": "mkdir d; touch d/f; chmod 2755 d/f; chmod 0311 d; ls -d d/f",
    "without permission to read it": "touch f; chmod 2311 f",
    "killed": "touch f; chmod 2755 f; kill -9 $$",
    "with an old date": "touch f; chmod 2755 f; touch -d 2001-01-01 f",
}

SHOW = "find . -type f -perm -2000 2>/dev/null || true"


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leaves_a_set_group_id_file(place: Place, way: str) -> None:
    """However the file got its bit and its place."""
    seen = place.run(f"{WAYS[way].replace('python3', place.python)}\n{SHOW}")
    if way != "killed":
        assert "f" in seen.text  # it had the bit while the command ran
    assert _marked(place.work) == []


def test_the_set_user_id_bit_is_refused_at_once(place: Place) -> None:
    """Nothing has to be cleared, for files and directories."""
    seen = place.run("touch f; mkdir d; chmod u+s f || chmod u+s d || echo refused")
    assert seen.text.endswith("refused\n")


def test_capabilities_cannot_be_given_to_a_file(place: Place) -> None:
    """They would be the same by another name."""
    code = """
import os, struct
open("f", "w").close()
for revision, size in ((0x02000000, 5), (0x03000000, 6)):
    try:
        os.setxattr("f", "security.capability", struct.pack(f"<{size}I", revision | 1, *[0xFFFFFFFF] * (size - 2), 0))
        print("given")
    except OSError as error:
        print(error.strerror)
"""
    assert set(place.run_python(code).text.split("\n")) == {"Operation not permitted", ""}


def test_a_file_cannot_be_made_with_the_bit(place: Place) -> None:
    """Neither by opening it nor as a node."""
    code = """
import os, stat
for make in (
    lambda: os.open("f", os.O_CREAT | os.O_WRONLY, 0o2755),
    lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o2755),
    lambda: os.mknod("f", stat.S_IFREG | 0o2755),
):
    try:
        make()
        print("made")
    except OSError as error:
        print(error.strerror)
"""
    assert set(place.run_python(code).text.split("\n")) == {"Operation not permitted", ""}


def test_directories_keep_the_bit(place: Place) -> None:
    """The programs that set it work as they do outside, and what is below such a directory has its group."""
    made = """
set -e
mkdir one; chmod 2775 one
mkdir -m 2775 two
mkdir two/inherits; chmod 755 two/inherits
cp -a one three
tar cf all.tar one two; mkdir out; tar xpf all.tar -C out
python3 -I -c 'import shutil; shutil.copytree("two", "four")'
if command -v git >/dev/null; then git init -q --shared=group repository; fi
"""
    seen = place.run(made)
    assert (seen.exit_code, seen.text) == (0, "")
    kept = ["one", "two", "two/inherits", "three", "out/one", "out/two", "four", "four/inherits"]
    if (place.work / "repository").exists():
        kept += ["repository/.git/objects", "repository/.git/refs"]
    assert [name for name in kept if _bits(place.work / name) != stat.S_ISGID] == []


def test_files_from_before_stay_as_they_were(place: Place) -> None:
    """Also when the command sets a bit on another file, which is then looked for."""
    (place.work / "d").mkdir()
    for name in ("before", "d/before"):
        (place.work / name).write_text("the user's")
        (place.work / name).chmod(0o2755)
    place.own()  # changing the owner clears the bits
    for name in ("before", "d/before"):
        (place.work / name).chmod(0o6755)
    time.sleep(0.02)
    place.run("cat before d/before; touch new; chmod 2755 new; chmod 2775 d")
    assert [_bits(place.work / name) for name in ("before", "d/before", "new", "d")] == [
        0o6000,
        0o6000,
        0,
        0o2000,
    ]


async def test_nothing_is_looked_for_where_no_bit_was_set(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A look at all files takes long; the kernel says whether it is needed, and a file that was found is named."""
    looks = []

    def look(*arguments: object) -> list[str]:
        looks.append(arguments)
        return clear_set_ids(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bubblewrap, "clear_set_ids", look)
    await sandbox.run("mkdir d; touch f; chmod 755 f d; install -m 644 f g")
    if sandbox_reports():
        assert looks == []
    await sandbox.run("chmod 2755 d")
    assert not caplog.text
    await sandbox.run("chmod 2755 f")
    assert len(looks) >= 2
    assert f"'{sandbox.root}/f'" in caplog.text


def sandbox_reports() -> bool:
    """Whether this kernel reports."""
    return bubblewrap.spawner().reports is not None


async def test_a_command_beside_another_cannot_move_its_files_out_of_the_way(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one has set is looked for once more when the other has ended, which began later and set nothing."""
    ready, moved = sandbox.root / "ready", sandbox.root / "moved"
    first = await sandbox.start(
        "touch f; chmod 2755 f; touch ready; while ! test -e moved; do sleep 0.02; done",
        on_output=print,
    )
    while not ready.exists():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    second = await sandbox.start("while ! test -e over; do sleep 0.02; done", on_output=print)
    with monkeypatch.context() as blind:  # as if the file were never where the look is
        blind.setattr(bubblewrap, "clear_set_ids", lambda *_: [])
        moved.touch()
        await first.wait()
    assert _marked(sandbox.root) == ["f"]
    (sandbox.root / "over").touch()
    await second.wait()
    assert _marked(sandbox.root) == []


async def test_without_reports_every_command_is_followed_by_a_look(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old kernel, or a container that forbids them."""

    class Silent(bubblewrap.InstalledBubblewrap):
        """A bubblewrap that has to be started with its own privileges."""

    program = bubblewrap.find_installed()
    silent = Silent(program.path, program.version, program.options, needs_privileges=True)
    monkeypatch.setattr(bubblewrap, "find_installed", lambda: silent)
    await sandbox.run("touch f; chmod 2755 f")
    assert _marked(sandbox.root) == []


async def test_other_writable_directories_are_looked_at(tmp_path: Path) -> None:
    """Those that are named, and a /tmp that lasts."""
    from hookline.containment import SandboxPaths

    for name in ("work", "more", "tmp"):
        (tmp_path / name).mkdir()
    paths = SandboxPaths(write=(str(tmp_path / "more"),), tmp=str(tmp_path / "tmp"))
    sandbox = Sandbox(tmp_path / "work", "required", paths=paths)
    await sandbox.run(f"for d in . {tmp_path}/more /tmp; do touch $d/f; chmod 2755 $d/f; done")
    assert (tmp_path / "tmp" / "f").exists()
    assert _marked(tmp_path) == []


@pytest.mark.parametrize(
    ("hide", "show"),
    [
        ("for i in $(seq 150); do mkdir x; cd x; done", "find . -type d -exec chmod 755 {} +"),
        ("mkdir x; cd x", "chmod 755 x"),
    ],
    ids=["deep", "closed"],
)
def test_a_later_command_opens_no_way_to_the_bit(place: Place, hide: str, show: str) -> None:
    """However deep the file is, and whatever the mode of its directory: the first look finds it."""
    place.run(f"(umask 022; {hide}; cp /bin/true f; chmod 2755 f); test -d x/x || chmod 0 x")
    place.run(show)
    found = subprocess.run(
        ["find", place.work, "-name", "f", "-printf", "%m\n"], capture_output=True, check=True
    )
    assert found.stdout == b"755\n"


def test_a_closed_directory_stays_closed(tmp_path: Path) -> None:
    """It is opened for its owner as long as the look takes. One that nobody touched since then is not opened at all."""
    before = tmp_path / "before"
    before.mkdir()
    before.chmod(0o011)
    changed = before.stat().st_ctime_ns
    time.sleep(0.02)  # the clock of files moves in steps
    since = file_clock()
    deep = tmp_path / "1" / "2"
    deep.mkdir(parents=True)
    for path in (deep / "f", tmp_path / "f"):
        path.touch()
        path.chmod(0o2755)
    for path in (deep, deep.parent):
        path.chmod(0o011)
    assert sorted(clear_set_ids([tmp_path], since)) == [f"{deep}/f", f"{tmp_path}/f"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (deep.parent, deep)] == [0o011, 0o011]
    assert before.stat().st_ctime_ns == changed


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link to a set-id file elsewhere changes nothing there, nor does one on the way to the work directory."""
    since = file_clock()
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    program = tmp_path / "outside" / "program"
    program.touch()
    program.chmod(0o6755)
    (tmp_path / "work" / "file").symlink_to(program)
    (tmp_path / "work" / "directory").symlink_to(program.parent)
    program.parent.joinpath("inner").mkdir()
    program = program.rename(program.parent / "inner" / "program")
    through = tmp_path / "work" / "directory" / "inner"
    assert clear_set_ids([tmp_path / "work", tmp_path / "gone", through], since) == []
    assert _bits(program) == 0o6000


def test_archives_of_the_user_are_unpacked_without_the_bit(place: Place) -> None:
    """An archive that was made outside can carry it."""
    with tarfile.open(place.work / "a.tar", "w") as archive:
        for name, mode in (("program", 0o2755), ("d", 0o2775)):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.uid, entry.gid = mode, os.geteuid(), os.getegid()
            entry.type = tarfile.DIRTYPE if name == "d" else tarfile.REGTYPE
            archive.addfile(entry)
    place.own()
    seen = place.run("tar xpf a.tar && ls")
    assert "program" in seen.text
    assert _bits(place.work / "program") == 0
    assert _bits(place.work / "d") == stat.S_ISGID


def test_sandboxes_work_in_a_fork(tmp_path: Path) -> None:
    """A process that was forked has no threads of its parent, and starts its own."""
    code = f"""
import os, sys
from hookline.containment.sandbox import Sandbox
sandbox = Sandbox({str(tmp_path)!r}, "required")
sandbox.run_sync("true")
pid = os.fork()
if pid == 0:
    sandbox.run_sync("touch f; chmod 2755 f")
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)
    assert _bits(tmp_path / "f") == 0
