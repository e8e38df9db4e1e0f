"""What the user's configuration names runs as it was, whatever a command puts there or in the way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from prepared_ground import search_path

from hookline.containment import Sandbox
from hookline.containment.sandbox import work_tree as work_tree_module
from hookline.containment.sandbox.named_files import named_by_git, named_by_mise, named_by_shell

from .conftest import needs_bubblewrap

REPOSITORY = (
    "git init -q . && git config user.name x && git config user.email x@x && echo 1 > f && git add f && "
    "git commit -qm one"
)
HOOK = "printf '#!/bin/sh\\nMARK\\n' > {0}; chmod +x {0}"
COMMIT = "git commit -q --allow-empty -m two"
DIRENV = 'eval "$(direnv export bash)"'
HG = "hg init . && echo 1 > f && hg add -q f && hg commit -qm one -u x"


@dataclass(frozen=True)
class Way:
    """A way by which a command could let something run on the host."""

    user: str
    """What the user has made."""
    plant: str
    """What the command does. MARK is what would run."""
    action: str
    """What the user does afterwards."""
    root: str = "."
    """The directory that the command can write."""
    again: str = ""
    """What a second command does, after our process was started again."""


WAYS = {
    "the parent of the hooks becomes a link": Way(
        f"mkdir -p tools/hooks evil && {REPOSITORY} && git config core.hooksPath tools/hooks",
        f"mv tools old; mkdir evil/hooks; {HOOK.format('evil/hooks/pre-commit')}; ln -sfn evil tools",
        COMMIT,
    ),
    "the parent of missing hooks becomes a link": Way(
        f"{REPOSITORY} && git config core.hooksPath tools/hooks",
        f"mkdir -p evil/hooks; {HOOK.format('evil/hooks/pre-commit')}; ln -sfn evil tools",
        COMMIT,
    ),
    "a hook is a link to a link": Way(
        f"{REPOSITORY} && mkdir s && printf '#!/bin/sh\\n' > s/a && chmod +x s/a && ln -s a s/b && "
        "ln -s ../../s/b .git/hooks/pre-commit",
        f"{HOOK.format('s/c')}; ln -sfn c s/b",
        COMMIT,
    ),
    "a hook of the repository above leads here": Way(
        f"{REPOSITORY} && mkdir sub && printf '#!/bin/sh\\n' > sub/a && chmod +x sub/a && "
        "ln -s ../../sub/a .git/hooks/pre-commit",
        HOOK.format("a"),
        COMMIT,
        "sub",
    ),
    "a linked work tree has the hooks of its main one": Way(
        f"mkdir main && cd main && {REPOSITORY} && mkdir .githooks && printf '#!/bin/sh\\n' > .githooks/pre-commit && "
        "chmod +x .githooks/pre-commit && git add -A && git commit -qm hooks && git config core.hooksPath .githooks && "
        "git worktree add -q ../side",
        HOOK.format(".githooks/pre-commit"),
        f"cd side && {COMMIT}",
        "side",
    ),
    "hooks in the configuration of one work tree": Way(
        f"{REPOSITORY} && git config extensions.worktreeConfig true && git config --worktree core.hooksPath h",
        f"mkdir -p h; {HOOK.format('h/pre-commit')}",
        COMMIT,
    ),
    "a filter that is missing": Way(
        f"{REPOSITORY} && git config filter.z.clean tools/clean && echo '*.z filter=z' > .gitattributes",
        f"mkdir -p tools; {HOOK.format('tools/clean')}; echo 1 > a.z",
        "git add a.z",
    ),
    "a program that is missing, of the user's own": Way(
        f"{REPOSITORY} && git config --global core.fsmonitor ./tools/fsm",
        f"mkdir -p tools; {HOOK.format('tools/fsm')}",
        "git status",
    ),
    "the user's own hooks in a new repository": Way(
        f"{REPOSITORY} && git config --global core.hooksPath .githooks",
        f"git init -q s/r; mkdir s/r/.githooks; {HOOK.format('s/r/.githooks/pre-commit')}",
        f"cd s/r && git config user.name x && git config user.email x@x && {COMMIT}",
    ),
    "the user's own file is in the work directory": Way(
        f"{REPOSITORY} && mkdir dot && mv ~/.gitconfig dot/config && ln -s $PWD/dot/config ~/.gitconfig",
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' >> dot/config",
        "git status",
    ),
    "a relative file that the user's own includes": Way(
        f"{REPOSITORY} && git config --global include.path $(basename $PWD)/inc && touch inc",
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' >> inc",
        "git status",
    ),
    "an .envrc that loads .env": Way(
        "echo dotenv_if_exists > .envrc && direnv allow .",
        "printf 'LD_PRELOAD=/nonexistent.so\\n' > .env",
        f'{DIRENV}; [ -z "$LD_PRELOAD" ] || MARK',
    ),
    "an .envrc that loads on a condition": Way(
        "echo '[ -f l.sh ] && . ./l.sh' > .envrc && direnv allow .", "echo MARK > l.sh", DIRENV
    ),
    "an .envrc that loads by its directory": Way(
        "touch e.sh; echo 'source \"$PWD/e.sh\"' > .envrc && direnv allow .",
        "echo MARK > e.sh",
        DIRENV,
    ),
    "an .envrc above the work directory": Way(
        "mkdir sub && touch sub/e.sh && echo 'source sub/e.sh' > .envrc && direnv allow .",
        "echo MARK > e.sh",
        DIRENV,
        "sub",
    ),
    "an extension of hg whose parent becomes a link": Way(
        f"{HG} && mkdir s evil && touch s/x.py && printf '[extensions]\\nx = s/x.py\\n' > .hg/hgrc",
        "echo 'import os; os.system(\"MARK\")' > evil/x.py; mv s old; ln -sfn evil s",
        "hg status",
    ),
    "a hook of hg that is missing": Way(
        f"{HG} && printf '[hooks]\\npre-status = ./chk.sh\\n' > .hg/hgrc",
        HOOK.format("chk.sh"),
        "hg status",
    ),
    "a file that hg includes by another": Way(
        f"{HG} && echo '%include ../a.rc' > .hg/hgrc && echo '%include rc/b' > a.rc && mkdir rc && touch rc/b",
        "printf '[hooks]\\npre-status = MARK\\n' > rc/b",
        "hg status",
    ),
    "a repository that git does not find at the next start": Way(
        f"{REPOSITORY} && mkdir .githooks && printf '#!/bin/sh\\n' > .githooks/pre-commit && "
        "chmod +x .githooks/pre-commit && git config core.hooksPath .githooks",
        "mv .git/HEAD .git/H",
        COMMIT,
        again=f"{HOOK.format('.githooks/pre-commit')}; mv .git/H .git/HEAD",
    ),
    "a home that a link leads to": Way(
        f"{REPOSITORY} && ln -s $HOME ../../linked && mkdir h && printf '#!/bin/sh\\n' > h/pre-commit && "
        "chmod +x h/pre-commit && git config core.hooksPath $(dirname $HOME)/linked/work/h",
        HOOK.format("h/pre-commit"),
        COMMIT,
    ),
    "a further work tree in the directory": Way(
        f"{REPOSITORY} && git worktree add -q wt && git config core.hooksPath .githooks",
        f"mkdir wt/.githooks; {HOOK.format('wt/.githooks/pre-commit')}",
        f"cd wt && {COMMIT}",
    ),
    "a file that is included on a branch": Way(
        f"{REPOSITORY} && git config includeIf.onbranch:other.path ../inc && git config -f inc core.hooksPath h",
        f"mkdir h; {HOOK.format('h/pre-commit')}; git checkout -qb other",
        COMMIT,
    ),
    "Mercurial's configuration of the user": Way(
        f"{HG} && printf '#!/bin/sh\\n' > chk && chmod +x chk && "
        'printf "[hooks]\\npre-status = $PWD/chk\\n" > ~/.hgrc && unset HGRCPATH',
        HOOK.format("chk"),
        "unset HGRCPATH; hg status",
    ),
    "a file of the home that is kept in the work directory": Way(
        "touch hgrc && ln -s $PWD/hgrc ~/.hgrc && " + HG,
        "printf '[hooks]\\npre-status = MARK\\n' > hgrc",
        "unset HGRCPATH; hg status",
    ),
}


class Ground:
    """A home, a work directory in it, and a shell that has both."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.marker = base / "marker"
        home = base / "home"
        self.work = home / "work"
        self.work.mkdir(parents=True)
        (home / ".gitconfig").write_text("[user]\n\tname = x\n\temail = x@x\n")
        for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "DIRENV_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", search_path())
        monkeypatch.setenv("HGRCPATH", "")

    def shell(self, text: str, where: str = ".") -> None:
        """Do something as the user."""
        subprocess.run(["bash", "-c", self._marked(text)], cwd=self.work / where, timeout=30)

    def _marked(self, text: str) -> str:
        return text.replace("MARK", f"touch {self.marker}")

    def contained(self, text: str, where: str) -> None:
        """Do something in the sandbox."""
        Sandbox(self.work / where, "required").run_sync(self._marked(text))


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """One of its own for each test."""
    return Ground(tmp_path, monkeypatch)


def skip_without(way: Way) -> None:
    """Skip where the tool of a way is not installed."""
    tool = "direnv" if "direnv" in way.user else "hg" if "hg init" in way.user else "git"
    if shutil.which(tool, path=search_path()) is None:
        pytest.skip(f"{tool} is not installed")


@needs_bubblewrap
@pytest.mark.parametrize("name", WAYS)
def test_nothing_of_a_command_runs_by_what_is_named(ground: Ground, name: str) -> None:
    """The command runs in the sandbox, and the user's tool runs nothing of it."""
    way = WAYS[name]
    skip_without(way)
    ground.shell(way.user)
    ground.contained(way.plant, way.root)
    if way.again:
        work_tree_module._trees.clear()
        ground.contained(way.again, way.root)
    ground.shell(way.action)
    assert not ground.marker.exists()


@pytest.mark.parametrize("name", WAYS)
def test_each_way_is_real(ground: Ground, name: str) -> None:
    """The same without a sandbox: the user's tool runs what was planted."""
    way = WAYS[name]
    skip_without(way)
    ground.shell(way.user)
    ground.shell(way.plant, way.root)
    ground.shell(way.again, way.root)
    ground.shell(way.action)
    assert ground.marker.exists()


def test_settings_are_listed_again_when_a_file_of_them_changes(ground: Ground) -> None:
    """Also one that was missing when they were listed first."""
    ground.shell(f"{REPOSITORY} && git config include.path ../inc")
    before = named_by_git(str(ground.work))
    assert f"{ground.work}/inc" in before
    ground.shell("git config -f inc core.hooksPath h")
    assert f"{ground.work}/h" in named_by_git(str(ground.work))


def test_a_directory_that_is_no_repository_has_the_users_settings(ground: Ground) -> None:
    """And nothing fails where git cannot be asked."""
    ground.shell("git config --global core.hooksPath hooks")
    assert f"{ground.work}/hooks" in named_by_git(str(ground.work))
    ground.shell("mkdir .git && echo '[core' > .git/config && echo x > .git/HEAD")
    assert named_by_git(str(ground.work))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("source a.sh", {"/w/a.sh"}),
        ("dotenv", {"/w/.env"}),
        ("dotenv_if_exists .env.local", {"/w/.env.local"}),
        ("if true; then . ./b; fi; source_env ../up", {"/w/b", "/up"}),
        ("echo source a.sh", set()),
        ("export A=.", set()),
        ("# source a.sh\nA=1 # etc", set()),
    ],
)
def test_what_a_shell_loads_is_found(text: str, named: set[str]) -> None:
    """By the commands that load a file, wherever they stand in a line."""
    assert set(named_by_shell(text, "/w")) == named


@pytest.mark.parametrize(
    "text",
    [
        '[env]\n_.source = "a.sh"',
        '[env]\n_.source = ["x", "a.sh"]',
        '[env]\n_.file = { path = "a.sh", redact = true }',
        'env_file = "a.sh"\n[env]\nA = "1"\n_.path = "p"',
    ],
)
def test_what_mise_loads_is_found(text: str) -> None:
    """Whatever form it has."""
    assert "/w/a.sh" in set(named_by_mise(text, "/w"))


PROGRAMS = """
    $(git rev-parse --show-toplevel)/tools/x | "$(git rev-parse --show-toplevel)/tools/x" | $PWD/tools/x |
    ${PWD}/tools/x | cd tools && ./x | cat\\|tools/x | true&&tools/x | sh -c 'tools/x' | $GIT_DIR/../tools/x |
    `pwd`/tools/x | sed s#a#b# && sh ./tools/x | X=a#b sh tools/x
    """


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there yet"])
@pytest.mark.parametrize(
    "program", [each.strip().replace("\\|", "|") for each in re.split(r" \|\s", PROGRAMS)]
)
def test_a_program_is_found_however_it_is_written(
    ground: Ground, program: str, is_there: bool
) -> None:
    """With a directory before it, or after a change of directory, as shells have it."""
    tool = ground.work / "tools" / "x"
    tool.parent.mkdir()
    if is_there:
        tool.touch()
    ground.shell(REPOSITORY)
    subprocess.run(["git", "config", "filter.z.clean", program], cwd=ground.work, check=True)
    assert str(tool) in named_by_git(str(ground.work))


def test_mise_may_write_the_directory_of_the_project() -> None:
    """It means the file below it."""
    text = '[env]\n_.source = "{{config_root}}/a.sh"\n_.file = "{{ config_root }}/b"'
    assert {"/w/a.sh", "/w/b"} <= set(named_by_mise(text, "/w"))
