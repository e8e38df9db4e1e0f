"""A work directory with secrets beside it, and a way to try things in a sandbox, as ourselves and as another user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import Sandbox

ROOT = Path(__file__).resolve().parents[3]
HELPER = ROOT / "tests" / "support" / "contained.py"
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
GIT = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


@dataclass(frozen=True)
class Outcome:
    """The result of a command, in any place."""

    exit_code: int
    text: str
    ended: str
    contained: bool
    left_out: int
    duration: float
    set_aside: Sequence[str]


class Helper:
    """A process of a user that runs commands in sandboxes."""

    def __init__(self, user: int | None, nice: int) -> None:
        python = sys.executable if user is None else SYSTEM_PYTHON
        argv = ["nice", f"-n{nice}", python, str(HELPER)]
        if user is not None:
            change = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            argv = ["setpriv", *change, *argv]
        self._process = subprocess.Popen(
            argv,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, plan: dict[str, Any]) -> dict[str, Any]:
        """What came of one command."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps(plan) + "\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        """End it."""
        with self._process as process:
            process.kill()


class Helpers(dict[tuple[int | None, bool, int], Helper]):
    """For each user and priority, with a watcher and without; started again after a test that did not wait for it."""

    def run(self, user: int | None, nice: int, plan: dict[str, Any]) -> dict[str, Any]:
        """What came of one command of a user."""
        key = (user, plan["watched"], nice)
        helper = self.pop(key, None) or Helper(user, nice)
        try:
            answer = helper.run(plan)
        except BaseException:
            helper.close()
            raise
        self[key] = helper
        return answer


@pytest.fixture(scope="session")
def helpers() -> Iterator[Helpers]:
    """What runs commands as somebody."""
    made = Helpers()
    yield made
    for helper in made.values():
        helper.close()


class Place:
    """`work` can be written; `outside` and `home` are beside it, and would be seen but for the sandbox."""

    def __init__(self, base: Path, user: int | None, helpers: Helpers) -> None:
        self.base, self._helpers = base, helpers
        self.work, self.outside, self.home = base / "work", base / "outside", base / "home"
        self.user = user
        for directory in (self.work, self.outside, self.home / ".ssh"):
            directory.mkdir(parents=True)
        (self.outside / "file").write_text("outside")
        (self.home / ".ssh" / "id_ed25519").write_text("private key")
        (self.home / ".netrc").write_text("password")
        self.own()

    def own(self) -> None:
        """Give all of it to the user who will run commands."""
        if self.user is not None:
            subprocess.run(["chown", "-R", f"{self.user}:{self.user}", self.base], check=True)

    @property
    def python(self) -> str:
        """An interpreter that is there inside."""
        return SYSTEM_PYTHON if self.user is not None else os.path.realpath(sys.executable)

    def run(
        self,
        command: str | Sequence[str],
        *,
        limits: dict[str, Any] | None = None,
        grant: dict[str, Any] | None = None,
        timeout: float = 30.0,
        where: str = "workspace",
        watched: bool = False,
        beside: str = "",
        nice: int = 0,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        **paths: Sequence[str],
    ) -> Outcome:
        """Run a command in a sandbox around `work`. With `watched`, a watcher holds every limit that it can.

        `beside` is a command that runs at the same time, as soon as it has printed something. `nice` is added to the
        priority of the process that starts them, which has the variables `env` and works in `cwd`.
        """
        seen = [str(self.base), *([] if self.user is not None else [sys.base_prefix])]
        plan = {
            "root": str(self.work),
            "command": command if isinstance(command, str) else list(command),
            "paths": {"show": seen, **{name: list(value) for name, value in paths.items()}},
            "limits": limits or {},
            "grant": grant or {},
            "timeout": timeout,
            "place": where,
            "watched": watched,
            "beside": beside,
            "cwd": cwd,
            "env": {
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "XDG_STATE_HOME": f"{self.base}-state",
                "PYTHONPATH": str(ROOT / "src"),
                "MY_TOKEN": "a secret of the environment",
                **(env or {}),
            },
        }
        return Outcome(**self._helpers.run(self.user, nice, plan))

    def run_python(self, code: str, **options: Any) -> Outcome:
        """Run Python code inside."""
        return self.run([self.python, "-I", "-c", code], **options)


@pytest.fixture(params=["ourselves", "nobody"])
def place(request: pytest.FixtureRequest, helpers: Helpers) -> Iterator[Place]:
    """A place to try things in, for each kind of user."""
    user = None
    if request.param == "nobody":
        user = NOBODY
        if reason := _why_we_cannot_be(user):
            pytest.skip(reason)
    base = Path(tempfile.mkdtemp(prefix="sandbox-test-")).resolve()
    base.chmod(0o755)
    try:
        yield Place(base, user, helpers)
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", base], check=False)
        shutil.rmtree(base, ignore_errors=True)
        shutil.rmtree(f"{base}-state", ignore_errors=True)


@cache
def _why_we_cannot_be(user: int) -> str:
    """Why commands cannot run as another user here; empty if they can."""
    if os.geteuid() != 0:
        return "only root can run as somebody else; this user is an ordinary one already"
    who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    check = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import hookline.containment.sandbox"
    if subprocess.run([*who, SYSTEM_PYTHON, "-I", "-c", check], capture_output=True).returncode:
        return "there is no Python of version 3.11 that an ordinary user may run here"
    return ""


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """A sandbox in this process."""
    (tmp_path / "work").mkdir()
    return Sandbox(tmp_path / "work", "required")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once something planted was run on the host."""
    return tmp_path / "ran"


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit and a nested one beside it that is not part of it. Tests get copies."""
    made = tmp_path_factory.mktemp("repository") / "work"
    for place in (made, made / "nested"):
        subprocess.run(["git", "init", "-q", place], check=True)
        (place / "file").write_text("x\n")
        subprocess.run([*GIT, "-C", place, "add", "file"], check=True)
        subprocess.run([*GIT, "-C", place, "commit", "-qm", "first"], check=True)
    return made


@pytest.fixture
def work(tmp_path: Path, repository: Path) -> Path:
    """A repository with a nested one."""
    return shutil.copytree(repository, tmp_path / "work", symlinks=True)


def ask_git(work: Path) -> None:
    """What people and their prompts ask git, at the top and in every directory, and a commit."""
    inside = (path for path in work.rglob("*") if path.is_dir() and ".git" not in path.parts)
    places = [work, *(path for path in inside if not _leads_on(path))]
    for place in places:
        for words in (
            ["status"],
            ["log", "-1"],
            ["diff"],
            ["branch"],
            ["diff", "--cached"],
            ["stash", "list"],
        ):
            subprocess.run([*GIT, *words], cwd=place, capture_output=True, timeout=30)
    for place in places:
        subprocess.run(
            [*GIT, "commit", "--allow-empty", "-qm", "x"], cwd=place, capture_output=True
        )


def _leads_on(path: Path) -> bool:
    """Whether there is nothing in a directory but one other: for git it is as the one above it."""
    try:
        entries = list(path.iterdir())
    except PermissionError:
        return False
    return len(entries) == 1 and entries[0].name != ".git" and entries[0].is_dir()
