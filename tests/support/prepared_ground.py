"""A file system to run dangerous commands on, in the sandbox, and what they must leave as it is.

There is a home directory with secrets, projects in it, a server that counts who connects, and places of the machine
that are looked at again and again. `HostTools` does what a user does afterwards in the directory of a command.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from fake_home import FakeHome

from hookline.containment import SandboxPaths
from hookline.containment.sandbox import emptied_directories, is_inside_any

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".system-tools" / "bin"
"""Where `scripts/system_tools.py` puts programs. `scripts/test.py` has it on the PATH; pytest alone has not."""
ADDRESS = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""Where the server listens: an address of this machine that nobody else uses, also not another run of the tests."""
PORTS = (1, 22, 53, 80, 443, 4444, 8080, 8765)

Facts = tuple[object, ...]
Tree = dict[str, Facts]


def search_path() -> str:
    """The PATH with the programs that were installed for the tests."""
    return os.pathsep.join([os.environ["PATH"], str(TOOLS)])


def which(program: str) -> str | None:
    """Where a program is, if it is anywhere."""
    return shutil.which(program, path=search_path())


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A directory for a home. In the sandbox /tmp is another one, so another place is better, for who may write there.

    Not in this repository: tools look for a project in the directories above, and `uv init` changes what it finds.
    """
    place = "/srv" if os.access("/srv", os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix="prepared-", dir=place)).resolve()
    base.chmod(0o755)
    try:
        yield base
    finally:
        # Only directories: a file in here may be a link to one of the machine.
        subprocess.run(
            ["find", base, "-type", "d", "-exec", "chmod", "u+rwx", "{}", "+"], check=False
        )
        shutil.rmtree(base, ignore_errors=True)


def paths_for(base: Path) -> SandboxPaths:
    """What makes the directory visible where it is in /tmp."""
    return (
        SandboxPaths(show=(base,)) if is_inside_any(base, emptied_directories()) else SandboxPaths()
    )


class Ground:
    """A home directory with a sibling project, and a work directory that can be made again and again."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = FakeHome(base / "home").make()
        self.projects = self.home.path / "projects"
        self.sibling = self.projects / "sibling"
        self.ran = base / "ran"
        """A program that runs on the host leaves a file here. In the sandbox this cannot be written."""
        self.template = base / "template"
        self.ran.mkdir()
        self.env = {
            "HOME": str(self.home.path),
            "PATH": search_path(),
            "GIT_CEILING_DIRECTORIES": str(base),
        }
        self._make_sibling()
        self._make_template()

    def slot(self, number: int) -> Path:
        """A new work directory; the name `..` means one of its own."""
        work = self.projects / f"slot-{number}" / "work"
        work.parent.mkdir()
        for name in ("x", "a", "file", "list"):
            (work.parent / name).write_text("beside the work directory\n")
        shutil.copytree(self.template, work, symlinks=True)
        return work

    def restore(self, work: Path, changed: list[str]) -> None:
        """Make these paths of a work directory what they were. A new directory for each command costs too much."""
        subprocess.run(["chmod", "-R", "u+rwX", work], check=True)
        for path in reversed(changed):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
        for path in changed:
            source = self.template / Path(path).relative_to(work)
            if os.path.lexists(path) or not os.path.lexists(source):
                continue
            if source.is_dir():
                shutil.copytree(source, path, symlinks=True)
            else:
                shutil.copy2(source, path, follow_symlinks=False)

    def program(self, name: str) -> str:
        """The text of a program that leaves a file when it runs on the host."""
        return f"#!/bin/sh\n: > '{self.ran}/{name}'-$$ 2>/dev/null\n"

    def _make_sibling(self) -> None:
        self.sibling.mkdir(parents=True)
        (self.sibling / "main.py").write_text("print('sibling')\n")
        self.home.plant(self.sibling / ".env")
        self._git(self.sibling, "init", "-q")

    def _make_template(self) -> None:
        work = self.template
        work.mkdir()
        self._git(work, "init", "-q")
        for name in ("README.md", "a", "b", "f", "file", "list", "a.txt", "src/main.py", "dir/x"):
            _write(work / name, f"text of {name}\nKEY=value\nfoo\n")
        for name in ("x", "y", "evil", "evil.sh", "script.sh", "script", "a.out", "configure"):
            _write(work / name, self.program(name), 0o755)
        _write(work / "Makefile", "all install test:\n\t./x\n")
        _write(work / "package.json", '{"name": "w", "scripts": {"test": "./x", "build": "./x"}}\n')
        _write(work / "Cargo.toml", '[package]\nname = "w"\nversion = "0.1.0"\nedition = "2021"\n')
        _write(work / "src/main.rs", "fn main() {}\n")
        _write(work / "script.py", f"open('{self.ran}/python', 'w')\n")
        _write(work / ".gitignore", ".env*\n!.env.example\n")
        _write(work / ".env.example", "TOKEN=\n")
        self._git(work, "add", ".")
        self._git(work, "commit", "-qm", "first")
        self._git(work, "branch", "x")
        self._add_repositories(work)
        self._add_settings(work)
        for name in ENV_FILES.split():
            self.home.plant(work / name)

    def _add_repositories(self, work: Path) -> None:
        """A submodule, one recorded without being one, one not recorded, a bare one, and one of another kind."""
        origin = self.base / "origin"
        for place in (origin, work / "nested", work / "vendored"):
            place.mkdir()
            self._git(place, "init", "-q")
            _write(place / "f", "text\n")
            self._git(place, "add", "f")
            self._git(place, "commit", "-qm", "first")
        self._git(
            work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(origin), "sub"
        )
        self._git(work, "-c", "advice.addEmbeddedRepo=false", "add", "vendored")
        self._git(work, "commit", "-qm", "repositories")
        self._git(work, "clone", "-q", "--bare", str(origin), "bare.git")
        if hg := which("hg"):
            subprocess.run([hg, "init", work], check=True, env=self.env)

    def _add_settings(self, work: Path) -> None:
        """What shells, editors and agents read when somebody comes by: harmless here."""
        for name in (".envrc", "nested/.envrc"):
            _write(work / name, "export FOO=1\n")
        for name in ("mise.toml", "nested/mise.toml"):
            _write(work / name, '[env]\nFOO = "1"\n')
        for name in (".vscode/settings.json", ".vscode/tasks.json", ".claude/settings.json"):
            _write(work / name, "{}\n")
        _write(work / ".idea/workspace.xml", "<project/>\n")

    def _git(self, place: Path, *words: str) -> None:
        env = {**self.env, "GIT_CONFIG_NOSYSTEM": "1"}
        # Sample hooks would be half of all the files.
        template = ("-c", "init.templateDir=")
        subprocess.run(["git", "-C", place, *template, *words], check=True, env=env)


ENV_FILES = ".env .env.local .env.development .env.production .env.staging config/.env"


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


# --- what a command has changed -----------------------------------------------------------------------


def tree(top: Path, *, skip: re.Pattern[str] | None = None, hashes: bool = False) -> Tree:
    """What there is below a directory. The kernel sets the time of a change, which no program can set back.

    Of a directory it is left out: the sandbox puts what holds the place of a missing file there, and takes it away.
    """
    found: Tree = {str(top): facts(str(top))}
    todo = [str(top)]
    while todo:
        place = todo.pop()
        with contextlib.suppress(FileNotFoundError, PermissionError):
            for entry in sorted(os.scandir(place), key=lambda each: each.name):
                if skip is not None and skip.fullmatch(entry.path):
                    continue
                found[entry.path] = facts(entry.path, hashes=hashes)
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return found


def facts(path: str, *, hashes: bool = False) -> Facts:
    """What there is to say of one path, without following it."""
    try:
        found = os.lstat(path)
    except OSError:
        return ("missing",)
    if stat.S_ISDIR(found.st_mode):
        return (found.st_mode, found.st_uid, found.st_gid)
    known: Facts = (found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_ctime_ns)
    if stat.S_ISLNK(found.st_mode):
        return (*known, os.readlink(path))
    if hashes and stat.S_ISREG(found.st_mode):
        return (*known, hashlib.sha256(Path(path).read_bytes()).hexdigest())
    return known


def difference(before: Tree, after: Tree) -> list[str]:
    """The paths that are new, gone or not as they were."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


COMPILED = re.compile(r".*/__pycache__")
"""Left out in the system: any Python process of root puts files there, also one of another test."""
SYSTEM = ("/etc", "/usr/bin", "/usr/sbin", "/usr/local", "/usr/lib/git-core", "/opt")
_ABSOLUTE = re.compile(r"(?<![\w.~$}*])/+[\w.+-]+(?:/+[\w.+-]+)*")
START_UP = ".bashrc .bash_profile .profile .zshrc .ssh .ssh/authorized_keys .gitconfig .config/hub"


class Watch:
    """What is outside every work directory: the fake home, the sibling, the system, and each path that a command names.

    Of the machine's /tmp only one directory and the paths that are named: everybody else writes there too.
    """

    def __init__(self, ground: Ground, commands: Iterable[str]) -> None:
        self._ground = ground
        self._inner = re.compile(re.escape(str(ground.projects)) + r"/slot-\d+/work")
        named = {path for text in commands for path in _ABSOLUTE.findall(text)}
        real_home = os.path.expanduser(f"~{os.getenv('LOGNAME', '')}")
        named |= {f"{real_home}/{name}" for name in START_UP.split()}
        self._named = sorted(
            path for path in named if not re.match(r"/+(?:dev|proc|sys)(?:/|$)", path)
        )
        self._tmp = Path(tempfile.mkdtemp(prefix="watched-"))
        (self._tmp / "file").write_text("in the machine's /tmp\n")
        self.start_again()

    def start_again(self) -> None:
        """Take what there is now for the beginning."""
        self._before = self._look()

    def changes(self) -> list[str]:
        """What is not as it was in the beginning."""
        return difference(self._before, self._look())

    def close(self) -> None:
        """Take away what was put into /tmp."""
        shutil.rmtree(self._tmp, ignore_errors=True)

    def _look(self) -> Tree:
        found = tree(self._ground.home.path, skip=self._inner, hashes=True)
        found |= tree(self._ground.template) | tree(self._ground.ran) | tree(self._tmp)
        for place in SYSTEM:
            found |= tree(Path(place), skip=COMPILED)
        return found | {path: facts(path) for path in self._named}


# --- what a command has reached -----------------------------------------------------------------------


class Server:
    """Listens on many ports of one address, and on sockets in the file system, and counts who comes."""

    def __init__(self, ground: Ground) -> None:
        self.reached: list[str] = []
        self._sockets = [
            ground.home.path / ".docker/run/docker.sock",
            ground.sibling / "agent.sock",
        ]
        self._servers: list[asyncio.AbstractServer] = []
        self._datagrams: list[asyncio.DatagramTransport] = []

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        for port in PORTS:
            with contextlib.suppress(OSError):  # low ports are root's
                answer = self._answer(f"tcp port {port}")
                self._servers.append(await asyncio.start_server(answer, ADDRESS, port))
                made, _ = await loop.create_datagram_endpoint(
                    lambda port=port: _Datagrams(self.reached, port), local_addr=(ADDRESS, port)
                )
                self._datagrams.append(made)
        assert self._servers, f"nothing can listen at {ADDRESS}"
        for path in self._sockets:
            path.parent.mkdir(parents=True, exist_ok=True)
            answer = self._answer(f"unix socket {path.name}")
            self._servers.append(await asyncio.start_unix_server(answer, path))
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in (*self._servers, *self._datagrams):
            server.close()

    def _answer(self, name: str):
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.reached.append(name)
            writer.close()

        return answer


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, reached: list[str], port: int) -> None:
        self._reached, self._port = reached, port

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._reached.append(f"udp port {self._port}")


_HOSTS = (
    (re.compile(r"(/dev/+(?:tcp|udp)|/inet/tcp/0)/[\w.]+/"), rf"\1/{ADDRESS}/"),
    (re.compile(r"\b(?:[\w-]+\.)+(?:example|com)\b"), ADDRESS),
    (re.compile(r"://(?:evil|x)\b"), f"://{ADDRESS}"),
    (re.compile(r"(?<![./\w])evil(?=:\d)"), ADDRESS),
    (re.compile(r"\b((?:curl|wget)(?: -[\w-]+(?: -)?)*) [xy]\b"), rf"\1 http://{ADDRESS}/x"),
    (
        re.compile(r"\b(nc|ncat|ssh|telnet|ftp|sftp|ping)((?: -\S+)*) (?:host|h)\b"),
        rf"\1\2 {ADDRESS}",
    ),
)


def aimed(command: str) -> str:
    """The same command with our server's address where it names a host, so that it would reach something."""
    for pattern, instead in _HOSTS:
        command = pattern.sub(instead, command)
    return command


# --- what a command has left running ------------------------------------------------------------------


@contextlib.contextmanager
def adopt_orphans() -> Iterator[None]:
    """Be the parent of whatever outlives its own, so that nothing of a command can get away unseen.

    Whoever adopts must also reap: a zombie that stayed would be counted by another test of the same process.
    """
    set_subreaper = functools.partial(ctypes.CDLL(None).prctl, 36)  # PR_SET_CHILD_SUBREAPER
    set_subreaper(1, 0, 0, 0)
    try:
        yield
    finally:
        set_subreaper(0, 0, 0, 0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def processes() -> set[int]:
    """Everything that this process, or what it has started, has started; but not what has ended."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent, *_ = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if state not in "ZX":
                parents[int(name)] = int(parent)
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        one = todo.pop()
        below = {pid for pid, parent in parents.items() if parent == one} - found
        found |= below
        todo += below
    return found


# --- what the user does afterwards --------------------------------------------------------------------


class HostTools:
    """What a user's own tools do in a directory, and which programs they start there that are not theirs."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        own = ground.base / "host-tools"
        wrappers = own / "bin"
        for name in "evil x y id cmd touch curl cat rm python3 less vi ssh gpg".split():
            _write(wrappers / name, ground.program(f"wrapper-{name}"), 0o755)
        trusted = f'[whitelist]\nprefix = ["{ground.base}"]\n'
        _write(own / "config" / "direnv" / "direnv.toml", trusted)
        self._env = {
            **ground.env,
            "PATH": f"{wrappers}:{search_path()}",
            "XDG_CONFIG_HOME": str(own / "config"),
            "XDG_DATA_HOME": str(own / "data"),
            "XDG_STATE_HOME": str(own / "state"),
            "XDG_CACHE_HOME": str(own / "cache"),
            "GIT_CONFIG_GLOBAL": str(ground.home.path / ".gitconfig"),
            "GIT_TERMINAL_PROMPT": "0",
            "HGRCPATH": "",
            "MISE_TRUSTED_CONFIG_PATHS": str(ground.base),
            "MISE_OFFLINE": "1",
        }

    def started(self, work: Path, *, mercurial: bool = True) -> list[str]:
        """Use them all, and say what ran that is no part of them."""
        ran_before = set(os.listdir(self._ground.ran))
        with tempfile.TemporaryDirectory(dir=self._ground.base) as traces:
            for number, words in enumerate(self._uses(work, mercurial=mercurial)):
                trace = {"GIT_TRACE2_EVENT": f"{traces}/{number}"}
                self._use(words, work, trace)
            by_git = [line for path in sorted(Path(traces).iterdir()) for line in _children(path)]
        marks = sorted(set(os.listdir(self._ground.ran)) - ran_before)
        for mark in marks:
            (self._ground.ran / mark).unlink()
        return [*by_git, *(f"ran: {mark}" for mark in marks)]

    def _uses(self, work: Path, *, mercurial: bool) -> Iterator[list[str]]:
        """Ask for status and history, commit, and enter the directory."""
        yield ["git", "status"]
        yield ["git", "log", "--oneline", "-2"]
        for name in ("nested", "vendored", "sub", "bare.git"):
            if (work / name).is_dir():
                yield ["git", "-C", name, "log" if name == "bare.git" else "status"]
        yield ["git", "commit", "--allow-empty", "-qm", "a commit of the user"]
        if mercurial and which("hg"):
            yield ["hg", "status"]
        for tool, *words in (["direnv", "export", "bash"], ["mise", "env"]):
            if which(tool):
                yield [tool, *words]

    def _use(self, words: list[str], work: Path, more: dict[str, str]) -> None:
        program = which(words[0])  # not one of the wrappers
        assert program is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [program, *words[1:]],
                cwd=work,
                env={**self._env, **more},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )


def _children(trace: Path) -> Iterator[str]:
    """The programs that git says it has started, but for itself."""
    for line in trace.read_text(errors="replace").splitlines():
        event = json.loads(line)
        if event["event"] in ("child_start", "exec") and event["argv"][:1] != ["git"]:
            yield f"git started {' '.join(event['argv'])[:120]}"


def connect_from_here() -> None:
    """Reach the server as somebody outside of every sandbox would."""
    with socket.socket() as out:
        out.settimeout(5)
        for port in reversed(PORTS):
            if out.connect_ex((ADDRESS, port)) == 0:
                return
