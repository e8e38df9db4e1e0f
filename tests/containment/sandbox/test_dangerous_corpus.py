"""Every command of the dangerous corpora is run, in the sandbox, with nobody asked before."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prepared_ground import (
    ADDRESS,
    PORTS,
    Ground,
    HostTools,
    Server,
    Watch,
    adopt_orphans,
    aimed,
    connect_from_here,
    difference,
    directory,
    facts,
    paths_for,
    processes,
    tree,
    which,
)
from shell_corpus import commands

from hookline.containment import Sandbox, SandboxLimits
from hookline.errors import SandboxError

from .conftest import needs_bubblewrap

pytestmark = [needs_bubblewrap, pytest.mark.timeout(900)]

CORPUS = [*commands("dangerous"), *commands("denied")]
SECONDS = 2.0
"""For one command: many of them wait, or never end."""
AT_ONCE = 6
BATCH = 48
"""Commands between two looks at what is outside."""
LIMITS = SandboxLimits(
    memory=4 * 1024**3,
    cpu_seconds=1,
    file_size=16 * 1024**2,
    processes=64,
    output=4 * 1024**2,
    scratch=32 * 1024**2,
)
SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "API_KEY", "TOKEN", "DATABASE_URL")


@dataclass
class Record:
    """What the commands did that they must not do, each with the command."""

    ran: int = 0
    not_made: list[str] = field(default_factory=list)
    """For which no sandbox could be made."""
    seconds: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    """How many changed something in the work directory."""
    looked_at: int = 0
    """How many different states of it the tools were used on."""
    printed: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Trial:
    """Runs commands, several at once, and stops at the first that reaches what is outside."""

    def __init__(self, ground: Ground, server: Server, slots: range) -> None:
        self._ground, self._server = ground, server
        self._tools = HostTools(ground)
        self._seen: set[frozenset[tuple[object, ...]]] = set()
        self._clean: dict[int, dict[str, tuple[object, ...]]] = {}
        self._sandboxes = {slot: self._sandbox(slot) for slot in slots}
        self._watch = Watch(ground, CORPUS)
        self.record = Record()

    async def run(self, texts: list[str]) -> Record:
        """Run all of them, batch after batch."""
        began = time.monotonic()
        try:
            await self._check_sandbox()
            idle = processes()
            for at in range(0, len(texts), BATCH):
                batch = texts[at : at + BATCH]
                waiting = iter(batch)
                await asyncio.gather(*(self._work(slot, waiting) for slot in self._sandboxes))
                if not self._is_sound(batch, idle):
                    await self._name(batch)
                    break
        finally:
            self._watch.close()
        self.record.seconds = time.monotonic() - began
        return self.record

    async def _check_sandbox(self) -> None:
        """Nothing dangerous runs before it is seen that the sandbox holds."""
        sandbox = next(iter(self._sandboxes.values()))
        assert sandbox.status.contained, sandbox.describe()
        for target in (self._ground.home.path, self._ground.sibling, Path("/etc"), Path("/usr")):
            await sandbox.run(["touch", str(target / "canary")], timeout=10)
            assert not (target / "canary").exists(), target
        assert self._watch.changes() == []
        assert self._server.reached == []

    def _sandbox(self, slot: int) -> Sandbox:
        work = self._ground.slot(slot)
        env = {"GIT_CEILING_DIRECTORIES": str(self._ground.base)}
        self._clean[slot] = tree(work)
        # The work directories beside this one are the test's own. Another project's files can be read.
        others = f"{self._ground.projects}/slot-[!{slot}]"
        paths = replace(paths_for(self._ground.base), hide=(others,))
        return Sandbox(work, "required", paths=paths, limits=LIMITS, env=env)

    async def _work(self, slot: int, waiting: Iterator[str]) -> None:
        for text in waiting:
            sandbox = self._sandboxes[slot]
            try:
                result = await sandbox.run(aimed(text), timeout=SECONDS)
            except SandboxError as error:
                self.record.not_made.append(f"{text}  ->  {error}")
                continue
            self.record.ran += 1
            self.record.ended[result.ended] += 1
            for secret in self._ground.home.found_in(result.output):
                self.record.printed.append(f"{text}  ->  {secret}")
            changes = difference(self._clean[slot], tree(sandbox.root))
            if changes:
                self.record.changed += 1
                self._search(text, changes, slot)
                await self._use_tools(text, sandbox.root, changes)
                changes = difference(self._clean[slot], tree(sandbox.root))
                self._ground.restore(sandbox.root, changes)
                self._clean[slot] = tree(sandbox.root)

    async def _use_tools(self, text: str, work: Path, changes: list[str]) -> None:
        """Use the tools of the user, unless another command has left the same.

        Mercurial takes as long as all the others, and knows of programs by what is in `.hg` alone.
        """
        left = frozenset(_left(path, work) for path in changes if not _RECORDS.search(path))
        if left and left not in self._seen:
            self._seen.add(left)
            self.record.looked_at += 1
            mercurial = any("/.hg" in path for path in changes)
            started = await asyncio.to_thread(self._tools.started, work, mercurial=mercurial)
            self.record.started += [f"{text}  ->  {each}" for each in started]

    def _search(self, text: str, changes: list[str], slot: int) -> None:
        known = set(self._clean[slot].values())
        for path in changes:
            if facts(path) in known:
                continue  # it was moved with its directory, and nobody has read it
            if os.path.isfile(path) and not os.path.islink(path):
                for secret in self._ground.home.found_in(Path(path).read_bytes()):
                    self.record.written.append(f"{text}  ->  {secret} in {os.path.basename(path)}")

    def _is_sound(self, batch: list[str], idle: set[int]) -> bool:
        """Whether all is well outside. If not, one of these commands did it."""
        record, by = self.record, "  <-  " + "\n  or ".join(batch)
        found = (
            [path + by for path in self._watch.changes()],
            [name + by for name in self._server.reached],
            [f"process {pid}{by}" for pid in processes() - idle],
        )
        record.outside += found[0]
        record.reached += found[1]
        record.left += found[2]
        return not any(found)

    async def _name(self, batch: list[str]) -> None:
        """Run each of these once more, alone: the record then names the one that reached what is outside."""
        slot = next(iter(self._sandboxes))
        for text in batch:
            self._watch.start_again()
            self._server.reached.clear()
            idle = processes()
            await self._work(slot, iter([text]))
            self._is_sound([text], idle)


_RECORDS = re.compile(r"/(?:\.git|bare\.git)/(?:.*/)?(?:objects|logs|refs|index)\b")
"""What git has recorded differs each time, and no tool takes the name of a program from it."""


def _left(path: str, work: Path) -> tuple[object, ...]:
    """What a command has left at a path, without the time of it."""
    name, mode = os.path.relpath(path, work), facts(path)[0]
    if os.path.islink(path):
        return (name, os.readlink(path))
    return (name, mode, Path(path).read_bytes() if os.path.isfile(path) else b"")


@pytest.fixture(scope="module")
def record() -> Iterator[Record]:
    """The results of all commands."""
    with directory() as base, pytest.MonkeyPatch.context() as patch:
        ground = Ground(base)
        patch.setenv("HOME", str(ground.home.path))
        for name in SECRET_VARIABLES:
            patch.setenv(name, ground.home.marker(f"the variable {name}"))
        with adopt_orphans():
            made = asyncio.run(_run(ground, CORPUS, slots=range(AT_ONCE)))
        print(
            f"\n{made.ran} commands in {made.seconds:.0f} s, {dict(made.ended)}; "
            f"{made.changed} changed the work directory, to {made.looked_at} different states"
        )
        yield made


async def _run(ground: Ground, texts: list[str], *, slots: range) -> Record:
    async with Server(ground) as server:
        return await Trial(ground, server, slots).run(texts)


def test_every_command_was_run(record: Record) -> None:
    """All of both corpora, to their end or to their time limit; a hole would have stopped them."""
    assert len(CORPUS) >= 2000
    assert record.not_made == [], _listed(record.not_made)
    assert record.ran == len(CORPUS)


def test_nothing_outside_the_work_directory_changes(record: Record) -> None:
    """Neither in the home directory, nor in a project beside it, nor in the system, nor at a path that is named."""
    assert record.outside == []


def test_no_secret_is_printed(record: Record) -> None:
    """Neither as it is nor encoded: those of the home directory, of the project's `.env` files, of the environment."""
    assert record.printed == [], _listed(record.printed)


def test_no_secret_gets_into_the_work_directory(record: Record) -> None:
    """No copy is made of one, also not in an archive or an object of git."""
    assert record.written == [], _listed(record.written)


def test_nothing_is_reached(record: Record) -> None:
    """No command reaches a server of this machine, by TCP, UDP or a unix socket."""
    assert record.reached == []


def test_no_process_is_left(record: Record) -> None:
    """When a command has ended, all that it started has."""
    assert record.left == []


def test_the_tools_of_the_user_start_nothing(record: Record) -> None:
    """git, Mercurial, direnv and mise, used afterwards, run no program that was put there or named there."""
    assert record.started == [], _listed(record.started)


def _listed(findings: list[str]) -> str:
    return f"{len(findings)}:\n" + "\n".join(findings)


# --- each of these checks can fail --------------------------------------------------------------------


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """Another prepared file system. Each of these tests changes files of its own."""
    with directory() as base:
        yield Ground(base)


@pytest.fixture
def work(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new work directory in it."""
    monkeypatch.setenv("HOME", str(ground.home.path))
    return ground.slot(len(list(ground.projects.glob("slot-*"))))


@pytest.mark.parametrize(
    "command",
    [
        "cat .ssh/id_rsa",
        "base64 .netrc",
        "(printf x; cat .netrc) | base64",
        "(printf xy; cat .netrc) | base64 -w 10",
        "xxd -p .netrc",
        "rev .netrc",
        "tr a-zA-Z n-za-mN-ZA-M < .netrc",
        "gzip -c .netrc",
        "xz -c .netrc",
        "tar cf - .aws",
    ],
)
def test_a_secret_is_found_in_what_is_printed(ground: Ground, command: str) -> None:
    """However it is encoded; and not in what has none."""
    shown = subprocess.run(
        command, shell=True, cwd=ground.home.path, stdout=subprocess.PIPE, check=True
    )
    assert ground.home.found_in(shown.stdout)
    assert not ground.home.found_in(b"password=none\n" * 1000)


@pytest.mark.parametrize(
    "command",
    [
        "echo x >> .bashrc",
        "touch -r .profile .bashrc",
        "chmod +x .zshrc",
        "rm .pgpass",
        "mkdir new",
        "ln -s /etc .config/link",
        "ln .boto copy",
        "echo x > projects/sibling/main.py",
        'touch "$BESIDE"/new',
    ],
)
def test_a_change_outside_is_seen(ground: Ground, work: Path, command: str) -> None:
    """Of content, mode, time, kind, or of what there is; and what happens in a work directory is not one."""
    watch = Watch(ground, [])
    try:
        (work / "new").touch()
        assert watch.changes() == []
        env = {**os.environ, "BESIDE": str(work.parent)}
        subprocess.run(command, shell=True, cwd=ground.home.path, env=env, check=True)
        assert watch.changes() != []
    finally:
        watch.close()


def test_a_path_that_a_command_names_is_watched(ground: Ground, tmp_path: Path) -> None:
    """Wherever it is, also if it is not there yet."""
    target = tmp_path / "named"
    watch = Watch(ground, [f"echo x>{target}; ls"])
    target.touch()
    assert watch.changes() == [str(target)]
    watch.close()


async def test_a_connection_is_counted(ground: Ground) -> None:
    """Of whoever reaches the server."""
    async with Server(ground) as server:
        await asyncio.to_thread(connect_from_here)
        while not server.reached:  # noqa: ASYNC110 - a callback fills it
            await asyncio.sleep(0.01)
        assert len(server.reached) == 1


def test_a_process_that_was_left_is_seen() -> None:
    """Also if whoever started it has ended and it is in a session of its own."""
    before = processes()
    with adopt_orphans():
        subprocess.run("setsid sleep 60 &", shell=True, check=True)
        left = processes() - before
        assert len(left) == 1
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class NoSandbox:
    """Runs commands in a work directory, and holds nothing."""

    status = SimpleNamespace(contained=True)

    def __init__(self, root: Path) -> None:
        self.root = root

    async def run(self, text: str | list[str], *, timeout: float) -> SimpleNamespace:
        """Run a command, but not what would show that there is no sandbox."""
        words = ["true"] if isinstance(text, list) else ["bash", "-c", text]
        done = await asyncio.to_thread(
            subprocess.run, words, cwd=self.root, stdout=subprocess.PIPE, timeout=timeout
        )
        return SimpleNamespace(ended="exited", output=done.stdout)


def test_a_command_that_gets_out_is_named(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it does that it must not do, the record has it once for this command, and for no other."""
    monkeypatch.setenv("HOME", str(ground.home.path))
    monkeypatch.setattr(Trial, "_sandbox", _no_sandbox)
    kinds = {
        "outside": 'touch "$HOME/made"$RANDOM',
        "reached": f"for p in {' '.join(map(str, PORTS))}; do : < /dev/tcp/{ADDRESS}/$p; done 2> no; sleep 1",
        "left": "setsid sleep 60 > /dev/null &",
        "printed": "cat ~/.vault-token",
        "written": "cat ~/.vault-token > copy",
        "started": f"printf '#!/bin/sh\\n: > {ground.ran}/hook' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
    }
    texts = ["true", "echo x > new", *kinds.values(), "ls"]
    before = processes()
    with adopt_orphans():
        record = asyncio.run(_run(ground, texts, slots=range(90, 91)))
        for pid in processes() - before:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    for kind, command in kinds.items():
        alone = [each for each in getattr(record, kind) if "\n  or " not in each]
        assert alone, kind
        assert [each for each in alone if command not in each] == [], kind


def _no_sandbox(self: Trial, slot: int) -> NoSandbox:
    work = self._ground.slot(slot)
    (work / ".git" / "hooks").mkdir(exist_ok=True)
    self._clean[slot] = tree(work)
    return NoSandbox(work)


def test_what_was_adopted_is_reaped() -> None:
    """Another test of this process counts its zombies."""
    with adopt_orphans():
        subprocess.run("(true &)", shell=True, check=True)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ChildProcessError):
        assert os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


@pytest.mark.parametrize(
    ("tool", "name", "text"),
    [
        ("git", ".git/hooks/pre-commit", "#!/bin/sh\n{mark}\n"),
        ("git", "nested/.git/config", '[core]\nfsmonitor = "{mark};false"\n'),
        ("git", "vendored/.git/config", '[core]\nfsmonitor = "{mark};false"\n'),
        (
            "git",
            ".git/modules/sub/config",
            '[core]\nfsmonitor = "{mark};false"\nworktree = ../../../sub\n',
        ),
        ("hg", ".hg/hgrc", "[hooks]\npre-status = {mark}\n"),
        ("direnv", ".envrc", "{mark}\n"),
        ("mise", "mise.toml", "[env]\nFOO = \"{{{{ exec(command='{mark}') }}}}\"\n"),
    ],
)
def test_a_planted_program_is_seen(
    ground: Ground, work: Path, tool: str, name: str, text: str
) -> None:
    """Where the tool is installed: it runs what was put there, and the harmless directory runs nothing."""
    if which(tool) is None:
        pytest.skip(f"{tool} is not installed: run scripts/system_tools.py")
    tools = HostTools(ground)
    assert tools.started(work) == []
    (work / name).parent.mkdir(exist_ok=True)
    (work / name).write_text(text.format(mark=f": > {ground.ran}/planted"))
    (work / name).chmod(0o755)
    started = tools.started(work)
    assert "ran: planted" in started
    assert tool != "git" or any(each.startswith("git started") for each in started)
