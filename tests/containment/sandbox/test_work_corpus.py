"""Ordinary work is run on the host and in the sandbox, and ends the same way, without a question."""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fake_home import FakeHome
from prepared_ground import ROOT, Facts, directory, paths_for, search_path, tree, which

from hookline.containment import Sandbox, ShellPolicy

from .conftest import needs_bubblewrap

pytestmark = [needs_bubblewrap, pytest.mark.timeout(1200)]

CORPUS = Path(__file__).parent / "corpus" / "work.toml"
SECONDS = 120.0
NAMES_ONLY = (
    "*.git/index",
    ".git/worktrees/",
    "*.pyc",
    "*.pack",
    "*.idx",
    "*.rev",
    ".pytest_cache/",
    "*.diff",
)
"""Of these the names are compared and not what is in them: they hold times, and numbers of files."""
IGNORED = ("incremental/",)
"""Directories with names that are different each time: what rustc keeps for the next build."""
FIXED = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "USER": "ada",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "SOURCE_DATE_EPOCH": "1767225600",
    "RUSTUP_AUTO_INSTALL": "0",
}


@dataclass(frozen=True)
class Section:
    """Commands that are run one after another, in a directory that is prepared for them."""

    name: str
    setup: str
    commands: tuple[str, ...]
    needs: tuple[str, ...] = ()
    names_only: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """What has to be installed first."""
        return [program for program in self.needs if which(program) is None]


@cache
def sections() -> tuple[Section, ...]:
    """The corpus."""
    read = tomllib.loads(CORPUS.read_text(encoding="utf-8"))["section"]
    return tuple(_section(each) for each in read)


def _section(read: dict[str, Any]) -> Section:
    lists = {name: tuple(read.get(name, ())) for name in ("needs", "names_only")}
    commands = tuple(_commands(read["commands"]))
    return Section(read["name"], read["setup"], commands, env=read.get("env", {}), **lists)


def _commands(text: str) -> Iterator[str]:
    """One a line; what ends with `END` has it to the end."""
    lines = iter(text.strip().splitlines())
    for line in lines:
        if "<<'END'" in line:
            for more in lines:
                line += f"\n{more}"
                if more == "END":
                    break
        yield line


@dataclass(frozen=True)
class End:
    """How a command ended: its exit code, and what it left."""

    code: int
    left: Mapping[str, object]
    said: str


class Workshop:
    """A home directory with what work needs, and a directory in which each section is run from the beginning."""

    def __init__(self, base: Path) -> None:
        self.home = FakeHome(base / "home").make().path
        self.base, self.work = base, self.home / "projects" / "work"
        self._template = base / "template"
        self.work.parent.mkdir()
        tools = ROOT / ".system-tools"
        # The registry of a test is a directory.
        for name in (".npmrc", ".config/pip/pip.conf"):
            (self.home / name).unlink()
        for source, name in (
            (tools / "wheels/files", "wheels"),
            (tools / "npm-cache/cache", ".npm"),
        ):
            if source.is_dir():
                shutil.copytree(source, self.home / name)

    def prepare(self, section: Section) -> None:
        """Make the directory as the section wants it. The first time its set-up is run."""
        shutil.rmtree(self.work.parent)  # with what was made beside it
        self.work.parent.mkdir()
        template = self._template / section.name
        if not template.exists():
            self.work.mkdir()
            done = self.on_host(section.setup, section)
            assert done.returncode == 0, done.stdout
            shutil.copytree(self.work, template, symlinks=True)
            shutil.rmtree(self.work)
        shutil.copytree(template, self.work, symlinks=True)

    def environment(self, section: Section) -> dict[str, str]:
        """The variables of both."""
        return {**FIXED, **section.env, "GIT_CEILING_DIRECTORIES": str(self.base)}

    def on_host(self, command: str, section: Section) -> subprocess.CompletedProcess[str]:
        """Run a command as the user would."""
        inherited = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME")
            if name in os.environ
        }
        return subprocess.run(
            ["bash", "-c", "--", command],
            cwd=self.work,
            env={**inherited, **self.environment(section)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )

    def sandbox(self, section: Section, **options: Any) -> Sandbox:
        """The sandbox around it."""
        env = self.environment(section)
        return Sandbox(self.work, "required", paths=paths_for(self.base), env=env, **options)

    def left(self, section: Section) -> dict[str, object]:
        """What there is: names, kinds, whether it can be run, and content, where that is the same each time."""
        found: dict[str, object] = {}
        for path, known in tree(self.work).items():
            name = os.path.relpath(path, self.work)
            if _fits(name, IGNORED):
                continue
            if os.path.islink(path):
                found[name] = os.readlink(path)
            elif os.path.isfile(path):
                by_name = _fits(name, (*NAMES_ONLY, *section.names_only))
                content = "" if by_name else _content(path, known)
                found[name] = (os.access(path, os.X_OK), content)
            else:
                found[name] = "directory"
        return found


@cache
def _content(path: str, known: Facts) -> str:
    """A digest of a file. It is read once as long as the kernel's facts about it are the same."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path is in a directory, or has a name, that one of the patterns is for."""
    return any(
        f"/{pattern}" in f"/{name}/" if pattern.endswith("/") else fnmatch.fnmatch(name, pattern)
        for pattern in patterns
    )


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    """Where the work is done."""
    with directory() as base, pytest.MonkeyPatch.context() as patch:
        made = Workshop(base)
        real = Path.home()
        for name, place in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")):
            if name not in os.environ and (real / place).is_dir():
                patch.setenv(name, str(real / place))
        patch.setenv("HOME", str(made.home))
        patch.setenv("PATH", search_path())
        yield made


@dataclass
class Results:
    """How the sandbox differed from the host, for each command; empty if it did not."""

    differences: dict[str, str] = field(default_factory=dict)
    """Of every command, where it may write."""
    reading: dict[str, str] = field(default_factory=dict)
    """Of those that change nothing on the host, in the read-only place."""


@pytest.fixture(scope="module")
def results(workshop: Workshop) -> Results:
    """The results of every section that can be run here."""
    found = Results()
    for section in sections():
        if not section.missing:
            workshop.prepare(section)
            expected = asyncio.run(_ends_on_host(workshop, section, found.reading))
            workshop.prepare(section)
            ends = asyncio.run(_ends_in_sandbox(workshop, section))
            before: set[str] = set()
            for text, host, inside in zip(section.commands, expected, ends, strict=True):
                found.differences[f"{section.name}: {text}"] = _difference(host, inside, before)
                before = _unlike(host, inside)
            failed = [
                each for each, end in zip(section.commands, expected, strict=True) if end.code
            ]
            assert len(failed) <= 0.15 * len(expected), f"no work but failures: {failed}"
    return found


async def _ends_on_host(workshop: Workshop, section: Section, reading: dict[str, str]) -> list[End]:
    """How each command ends on the host, and, if it changes nothing there, in the read-only place."""
    sandbox = workshop.sandbox(section, place="read-only")
    ends = []
    for text in section.commands:
        before = tree(workshop.work)
        done = await asyncio.to_thread(workshop.on_host, text, section)
        ends.append(End(done.returncode, workshop.left(section), done.stdout))
        # The kernel's times say what was changed, also of files of which only the names are compared.
        if tree(workshop.work) == before:
            result = await sandbox.run(text, timeout=SECONDS)
            assert tree(workshop.work) == before, f"the read-only place was written: {text}"
            inside = End(result.exit_code, {}, result.text)
            reading[f"{section.name}: {text}"] = _difference(replace(ends[-1], left={}), inside)
    return ends


async def _ends_in_sandbox(workshop: Workshop, section: Section) -> list[End]:
    sandbox = workshop.sandbox(section)
    ends = []
    for text in section.commands:
        result = await sandbox.run(text, timeout=SECONDS)
        ends.append(End(result.exit_code, workshop.left(section), result.text))
    return ends


def _difference(host: End, inside: End, before: Set[str] = frozenset()) -> str:
    """How two ends differ, but for what was not the same before."""
    if host.code != inside.code:
        last = (inside.said.strip().splitlines() or [""])[-1]
        return f"exit code {inside.code}, not {host.code}: {last[:160]}"
    names = sorted(_unlike(host, inside) - before)
    return f"not the same: {', '.join(names[:4])} ({len(names)})" if names else ""


def _unlike(host: End, inside: End) -> set[str]:
    """The names whose content differs."""
    names = host.left.keys() | inside.left.keys()
    return {name for name in names if host.left.get(name) != inside.left.get(name)}


def question(text: str, work: Path) -> str:
    """Why somebody would be asked about a command before it runs in the sandbox; empty if nobody would."""
    verdict = ShellPolicy.default().judge(text, root=str(work))
    if verdict.decision == "deny":
        return f"denied: {verdict.reason}"
    return f"asked: {verdict.reason}" if verdict.asks_in_sandbox else ""


def test_the_corpus_is_large_enough() -> None:
    """At least 200 commands, for at least three languages."""
    assert sum(len(section.commands) for section in sections()) >= 200
    assert {"Python", "Node", "Rust", "C"} <= {section.name for section in sections()}


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.name)
def test_all_of_it_can_be_run_here(section: Section) -> None:
    """Nothing is left out where scripts/system_tools.py could install all that is needed."""
    if section.missing:
        pytest.skip(f"not installed: {', '.join(section.missing)}: run scripts/system_tools.py")


def test_work_ends_as_on_the_host(results: Results) -> None:
    """At least 95 in 100 commands have the same exit code and leave the same files."""
    other = {text: why for text, why in results.differences.items() if why}
    report = _listed(f"{len(other)} of {len(results.differences)} differ", other)
    print(report)
    assert len(other) <= 0.05 * len(results.differences), report


def test_work_asks_nothing(workshop: Workshop) -> None:
    """About at least 95 in 100 commands nobody is asked before they run in the sandbox."""
    texts = [text for section in sections() for text in section.commands]
    asked = {text: why for text in texts if (why := question(text, workshop.work))}
    report = _listed(f"{len(asked)} of {len(texts)} are asked about", asked)
    print(report)
    assert len(asked) <= 0.05 * len(texts), report


def test_work_ends_well_without_a_question(results: Results, workshop: Workshop) -> None:
    """Both together: at least 95 in 100 end as on the host, and nobody was asked."""
    good = [
        text
        for text, why in results.differences.items()
        if not why and not question(text.partition(": ")[2], workshop.work)
    ]
    assert len(good) >= 0.95 * len(results.differences), (
        f"{len(good)} of {len(results.differences)}"
    )


def test_reading_works_where_nothing_can_be_written(results: Results) -> None:
    """Of what changes nothing on the host, at least 95 in 100 commands end the same way in the read-only place."""
    other = {text: why for text, why in results.reading.items() if why}
    report = _listed(f"{len(other)} of {len(results.reading)} that read differ", other)
    print(report)
    assert len(results.reading) >= 50
    assert len(other) <= 0.05 * len(results.reading), report


def _listed(heading: str, entries: Mapping[str, str]) -> str:
    lines = (f"  {text.splitlines()[0]}\n      {why}" for text, why in entries.items())
    return "\n".join(["", heading, *lines])
