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
from hookline.containment.sandbox.named_files import files_named_by_git, files_named_by_script
from hookline.errors import SandboxError

from .conftest import ask_git, needs_bubblewrap

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
    "hooks behind a directory that the path enters and leaves": Way(
        f"mkdir tools && {REPOSITORY} && git config core.hooksPath tools/../.githooks",
        f"rmdir tools; mkdir -p z/y z/.githooks; ln -s z/y tools; {HOOK.format('z/.githooks/pre-commit')}",
        COMMIT,
    ),
    "hooks behind a missing directory that the path enters and leaves": Way(
        f"{REPOSITORY} && git config core.hooksPath tools/../.githooks",
        f"mkdir -p z/y z/.githooks; ln -s z/y tools; {HOOK.format('z/.githooks/pre-commit')}",
        COMMIT,
    ),
    "an include behind such a directory": Way(
        f"mkdir tools && {REPOSITORY} && git config include.path ../tools/../inc",
        "rmdir tools; mkdir -p z/y; ln -s z/y tools; "
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' > z/inc",
        "git status",
    ),
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
    "the user's own hooks in a new repository": Way(
        f"{REPOSITORY} && git config --global core.hooksPath .githooks",
        f"git init -q s/r; mkdir s/r/.githooks; {HOOK.format('s/r/.githooks/pre-commit')}",
        f"cd s/r && git config user.name x && git config user.email x@x && {COMMIT}",
    ),
    "the user's own template of repositories": Way(
        f"mkdir -p tpl/hooks && {REPOSITORY} && git config --global init.templateDir $PWD/tpl",
        HOOK.format("tpl/hooks/pre-commit"),
        f"git init -q n && cd n && git config user.name x && git config user.email x@x && {COMMIT}",
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
    "a hook among the hooks is a link": Way(
        f"{REPOSITORY} && mkdir h s && printf '#!/bin/sh\\n' > s/a && chmod +x s/a && ln -s ../s/a h/pre-commit && "
        "git config core.hooksPath h",
        HOOK.format("s/a"),
        COMMIT,
    ),
    "a hook has a second name": Way(
        f"{REPOSITORY} && printf '#!/bin/sh\\n' > check && chmod +x check && ln check .git/hooks/pre-commit",
        HOOK.format("check"),
        COMMIT,
    ),
    "a hook among the hooks has a second name": Way(
        f"{REPOSITORY} && mkdir h && printf '#!/bin/sh\\n' > check && chmod +x check && ln check h/pre-commit && "
        "git config core.hooksPath h",
        HOOK.format("check"),
        COMMIT,
    ),
    "the configuration of git has a second name": Way(
        f"{REPOSITORY} && ln .git/config second",
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' >> second",
        "git status",
    ),
    "an included file has a second name": Way(
        f"{REPOSITORY} && git config include.path ../inc && touch inc && ln inc second",
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' >> second",
        "git status",
    ),
    "an .envrc has a second name": Way(
        "echo A=1 > .envrc && ln .envrc second && direnv allow .",
        "echo MARK >> second",
        f"direnv allow .; {DIRENV}",
    ),
    "an .envrc that loads by its directory": Way(
        "touch e.sh; echo 'source \"$PWD/e.sh\"' > .envrc && direnv allow .",
        "echo MARK > e.sh",
        DIRENV,
    ),
    "an extension of hg whose parent becomes a link": Way(
        f"{HG} && mkdir s evil && touch s/x.py && printf '[extensions]\\nx = s/x.py\\n' > .hg/hgrc",
        "echo 'import os; os.system(\"MARK\")' > evil/x.py; mv s old; ln -sfn evil s",
        "hg status",
    ),
    "a repository that git does not find at the next start": Way(
        f"{REPOSITORY} && mkdir .githooks && printf '#!/bin/sh\\n' > .githooks/pre-commit && "
        "chmod +x .githooks/pre-commit && git config core.hooksPath .githooks",
        "mv .git/HEAD .git/H",
        COMMIT,
        again=f"{HOOK.format('.githooks/pre-commit')}; mv .git/H .git/HEAD",
    ),
    "a bare repository becomes the one of the directory": Way(
        "git init -q --bare fixtures/x && cd fixtures/x && git config core.bare false && "
        "git config core.fsmonitor 'MARK; false'",
        "mv fixtures/x .git",
        "git status",
    ),
    "a bare repository becomes a nested one": Way(
        f"{REPOSITORY} && mkdir s && git init -q --bare fixtures/x && cd fixtures/x && git config core.bare false && "
        "git config core.fsmonitor 'MARK; false'",
        "mv fixtures t; mv t/x s/.git",
        "cd s && git status",
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
    "a bare repository with work trees, without its HEAD": Way(
        f"mkdir first && cd first && {REPOSITORY} && cd .. && git clone -q --bare first .bare && "
        "git -C .bare worktree add -q ../wt",
        "mv .bare/HEAD .bare/H",
        "cd wt && git status",
        again="printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' >> .bare/config",
    ),
    "a bare repository without its objects": Way(
        f"mkdir first && cd first && {REPOSITORY} && cd .. && git clone -q --bare first bare",
        "mv bare/objects bare/o; mv bare/refs bare/r; mv bare/HEAD bare/H",
        "cd bare; mv o objects; mv r refs; mv H HEAD; git --git-dir=. --work-tree=../first status",
        again="printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' >> bare/config",
    ),
    "a work tree of a repository elsewhere": Way(
        f"mkdir main n && cd main && {REPOSITORY} && git config core.hooksPath .gh && git worktree add -q ../n/wt",
        f"mkdir wt/.gh; {HOOK.format('wt/.gh/pre-commit')}",
        f"cd n/wt && {COMMIT}",
        "n",
    ),
    "the user's own hooks in a work tree of a repository elsewhere": Way(
        f"mkdir main n && cd main && {REPOSITORY} && git worktree add -q ../n/wt && "
        "git config --global core.hooksPath .githooks",
        f"mkdir wt/.githooks; {HOOK.format('wt/.githooks/pre-commit')}",
        f"cd n/wt && {COMMIT}",
        "n",
    ),
    "a file that a submodule includes whose repository is above": Way(
        f"mkdir one sup && cd one && {REPOSITORY} && cd ../sup && {REPOSITORY} && "
        "git -c protocol.file.allow=always submodule --quiet add $PWD/../one libs/one && "
        "git -C libs/one config include.path $PWD/libs/one/inc",
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' > one/inc",
        "cd sup/libs/one && git status",
        "sup/libs",
    ),
    "hooks of a repository above the nearest one": Way(
        f"{REPOSITORY} && git config core.hooksPath mod/hooks && mkdir mod && cd mod && {REPOSITORY}",
        f"mkdir hooks; {HOOK.format('hooks/pre-commit')}",
        COMMIT,
        "mod",
    ),
    "a file that a repository above the nearest one includes": Way(
        f"{REPOSITORY} && git config include.path ../mod/inc && mkdir mod && cd mod && {REPOSITORY}",
        "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n' > inc",
        "git status",
        "mod",
    ),
    "a file of the home that is kept in the work directory": Way(
        "touch hgrc && ln -s $PWD/hgrc ~/.hgrc && " + HG,
        "printf '[hooks]\\npre-status = MARK\\n' > hgrc",
        "unset HGRCPATH; hg status",
    ),
}

FSMONITOR = "printf '[core]\\n\\tfsmonitor = \"MARK; false\"\\n'"
LINKED_WAYS = {
    "the hooks of the repository above are a link": Way(
        f"{REPOSITORY} && mkdir -p sub/h && rm -r .git/hooks && ln -s ../sub/h .git/hooks",
        HOOK.format("h/pre-commit"),
        COMMIT,
        "sub",
    ),
    "the hooks of the repository above are a link that leads nowhere": Way(
        f"{REPOSITORY} && mkdir sub && rm -r .git/hooks && ln -s ../sub/h .git/hooks",
        f"mkdir h; {HOOK.format('h/pre-commit')}",
        COMMIT,
        "sub",
    ),
    "the hooks of the repository above are a link to a link": Way(
        f"{REPOSITORY} && mkdir -p sub/h && ln -s sub/h tools && rm -r .git/hooks && ln -s ../tools .git/hooks",
        f"mv h old; mkdir h; {HOOK.format('h/pre-commit')}",
        COMMIT,
        "sub",
    ),
    "hooks of the repository above that a setting names are a link": Way(
        f"{REPOSITORY} && mkdir -p sub/h && ln -s sub/h .husky && git config core.hooksPath .husky",
        HOOK.format("h/pre-commit"),
        COMMIT,
        "sub",
    ),
    "the hooks of a submodule whose repository is above are a link": Way(
        f"mkdir one sup && cd one && {REPOSITORY} && cd ../sup && {REPOSITORY} && "
        "git -c protocol.file.allow=always submodule --quiet add $PWD/../one libs/one && mkdir libs/h && "
        "rm -r .git/modules/libs/one/hooks && ln -s $PWD/libs/h .git/modules/libs/one/hooks",
        HOOK.format("h/pre-commit"),
        f"cd sup/libs/one && {COMMIT}",
        "sup/libs",
    ),
    "hooks that the user's own file names are a link": Way(
        f"{REPOSITORY} && mkdir h && ln -s $PWD/h ~/hooks && git config --global core.hooksPath '~/hooks'",
        HOOK.format("h/pre-commit"),
        COMMIT,
    ),
    "a hook among those that the user's own file names is a link": Way(
        f"{REPOSITORY} && mkdir ~/.hooks && printf '#!/bin/sh\\n' > check && chmod +x check && "
        "ln -s $PWD/check ~/.hooks/pre-commit && git config --global core.hooksPath '~/.hooks'",
        HOOK.format("check"),
        COMMIT,
    ),
    "the user's own file is a link to an empty one": Way(
        f"{REPOSITORY} && mkdir -p ~/.config/git && touch settings && ln -s $PWD/settings ~/.config/git/config",
        f"{FSMONITOR} > settings",
        "git status",
    ),
    "the user's own file is a link that leads nowhere": Way(
        f"{REPOSITORY} && mkdir -p ~/.config/git && ln -s $PWD/settings ~/.config/git/config",
        f"{FSMONITOR} > settings",
        "git status",
    ),
    "an empty file that the user's own includes is a link": Way(
        f"{REPOSITORY} && touch inc && ln -s $PWD/inc ~/inc && git config --global include.path '~/inc'",
        f"{FSMONITOR} > inc",
        "git status",
    ),
    "an include that leaves a link again": Way(
        f"{REPOSITORY} && mkdir -p a/b d && ln -s ../a/b d/e && git config include.path ../d/e/../inc",
        f"{FSMONITOR} > a/inc",
        "git status",
    ),
}
"""Each step of a path may be a link, wherever the path begins."""
WAYS |= LINKED_WAYS


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
    before = files_named_by_git(str(ground.work))
    assert f"{ground.work}/inc" in before
    ground.shell("git config -f inc core.hooksPath h")
    assert f"{ground.work}/h" in files_named_by_git(str(ground.work))


def test_a_directory_that_is_no_repository_has_the_users_settings(ground: Ground) -> None:
    """And nothing fails where git cannot be asked."""
    ground.shell("git config --global core.hooksPath hooks")
    assert f"{ground.work}/hooks" in files_named_by_git(str(ground.work))
    ground.shell("mkdir .git && echo '[core' > .git/config && echo x > .git/HEAD")
    assert files_named_by_git(str(ground.work))


PROGRAMS = """
    $(git rev-parse --show-toplevel)/tools/x | "$(git rev-parse --show-toplevel)/tools/x" | $PWD/tools/x |
    ${PWD}/tools/x | "$PWD"/tools/x | sh tools/x | true&&tools/x | sh -c 'tools/x' |
    `pwd`/tools/x | sed s#a#b# && sh ./tools/x | X=a#b sh tools/x
    """


@pytest.mark.parametrize("program", [each.strip() for each in re.split(r" \|\s", PROGRAMS)])
def test_an_existing_program_is_found_by_its_word(ground: Ground, program: str) -> None:
    """Also with a variable or a command for the directory before it."""
    tool = ground.work / "tools" / "x"
    tool.parent.mkdir()
    tool.touch()
    ground.shell(REPOSITORY)
    subprocess.run(["git", "config", "filter.z.clean", program], cwd=ground.work, check=True)
    assert str(tool) in files_named_by_git(str(ground.work))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".envrc", "A=1 # etc\nsource a.sh"),
        (".envrc.local", 'if true; then . "$PWD"/a.sh; fi'),
        (".envrc", "bash ./a.sh"),
        (".hg/hgrc", "%include ../a.sh"),
        (".hg/hgrc", "[hooks]\npre-status = sh a.sh"),
        ("mise.toml", '[env]\n_.source = ["x", "a.sh"]'),
        (".config/mise/conf.d/x.toml", '[env]\n_.file = { path = "{{config_root}}/a.sh" }'),
    ],
)
def test_an_existing_file_is_found_by_its_word(tmp_path: Path, name: str, text: str) -> None:
    """In what direnv, Mercurial and mise read, from the directory of the project."""
    (tmp_path / "a.sh").touch()
    (tmp_path / "other.sh").touch()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert list(files_named_by_script(str(tmp_path / name))) == [str(tmp_path / "a.sh")]


def test_a_comment_names_nothing(tmp_path: Path) -> None:
    """Only a `#` where a word begins makes one."""
    (tmp_path / "a.sh").touch()
    (tmp_path / ".envrc").write_text("# source a.sh\nA=1 # etc a.sh\n")
    assert list(files_named_by_script(str(tmp_path / ".envrc"))) == []


# --- the user's own configuration of git --------------------------------------------------------------


@pytest.fixture
def gitconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, in a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    return home / ".gitconfig"


NAMED = {
    "hooks": "[core]\n\thooksPath = {work}/tools/hooks\n",
    "an included file": "[include]\n\tpath = {work}/tools/settings\n",
    "an included file of some repositories": '[includeIf "gitdir:{work}/"]\n\tpath = {work}/tools/settings\n',
    "a program": "[core]\n\tfsmonitor = {work}/tools/program\n",
    "a filter": '[filter "x"]\n\tclean = sh {work}/tools/program\n[core]\n\tattributesFile = {work}/tools/attributes\n',
}


@needs_bubblewrap
@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there yet"])
@pytest.mark.parametrize("what", NAMED)
def test_whole_paths_of_the_users_own_file_are_kept(
    work: Path, gitconfig: Path, marker: Path, what: str, is_there: bool
) -> None:
    """Hooks, included files, programs and attributes: nothing there changes, and hooks or settings do not come."""
    gitconfig.write_text(NAMED[what].format(work=work))
    tools = work / "tools"
    (tools / "hooks").mkdir(parents=True)
    if is_there or what in {"a program", "a filter"}:
        (tools / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
        (tools / "program").write_text("#!/bin/sh\ncat\n")
        (tools / "settings").write_text("")
        (tools / "attributes").write_text("* filter=x\n")
        for path in (tools / "hooks" / "pre-commit", tools / "program"):
            path.chmod(0o755)
    elif what == "hooks":
        (tools / "hooks").rmdir()
    plant = (
        f"mkdir -p tools/hooks; for f in tools/hooks/pre-commit tools/program; do "
        f"printf '#!/bin/sh\\ntouch {marker}\\n' > $f; chmod +x $f; done; "
        f"printf '[core]\\n\\tfsmonitor = \"touch {marker};false\"\\n' > tools/settings; echo y > file"
    )
    Sandbox(work, "required").run_sync(plant)
    ask_git(work)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=work, check=True)
    ask_git(work)
    assert marker.exists(), "the way is real"


@needs_bubblewrap
def test_hooks_that_a_conditional_file_names_are_kept(
    work: Path, gitconfig: Path, marker: Path
) -> None:
    """A file that git includes in some repositories alone may name a directory of each of them."""
    gitconfig.write_text(f'[includeIf "gitdir:{work}/"]\n\tpath = of-work\n')
    gitconfig.with_name("of-work").write_text("[core]\n\thooksPath = .team/hooks\n")
    plant = (
        f"mkdir -p .team/hooks; printf '#!/bin/sh\\ntouch {marker}\\n' > .team/hooks/pre-commit; "
        "chmod +x .team/hooks/pre-commit"
    )
    Sandbox(work, "required").run_sync(plant)
    ask_git(work)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=work, check=True)
    ask_git(work)
    assert marker.exists(), "the way is real"


@needs_bubblewrap
def test_a_new_repository_has_none_of_the_hooks_that_the_users_own_file_names(
    work: Path, gitconfig: Path, marker: Path
) -> None:
    """It was not there when the command began, and may stay; what would run in it does not."""
    gitconfig.write_text("[core]\n\thooksPath = .team/hooks\n")
    plant = (
        "git init -q sub; mkdir -p sub/.team/hooks; cd sub/.team/hooks; "
        f"printf '#!/bin/sh\\ntouch {marker}\\n' > pre-commit; "
        "chmod +x pre-commit"
    )
    ran = Sandbox(work, "required").run_sync(plant)
    assert ran.set_aside == ("sub/.team/hooks.from-command",)
    ask_git(work)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=work, check=True)
    ask_git(work)
    assert marker.exists(), "the way is real"


@needs_bubblewrap
@pytest.mark.parametrize("name", [".config/hookline/config.toml", ".claude/settings.json"])
def test_a_file_of_an_agent_in_the_home_that_is_a_link_is_kept(
    work: Path, gitconfig: Path, name: str
) -> None:
    """Such a file is often kept in a repository with others of the user's."""
    (work / "settings").write_text("as it was")
    link = gitconfig.parent / name
    link.parent.mkdir(parents=True)
    link.symlink_to(work / "settings")
    Sandbox(work, "required").run_sync("echo evil > settings")
    assert link.read_text() == "as it was"


@needs_bubblewrap
def test_hooks_that_are_the_work_directory_itself_are_refused(work: Path, gitconfig: Path) -> None:
    """Nothing could be written there any more; the error says what to change."""
    gitconfig.write_text(f"[core]\n\thooksPath = {work}\n")
    with pytest.raises(SandboxError, match=r"other programs obey .* leads to"):
        Sandbox(work, "required").run_sync("true")


def _set_hooks(gitconfig: Path, hooks: Path) -> None:
    gitconfig.write_text(f"[core]\n\thooksPath = {hooks}\n")


@needs_bubblewrap
async def test_what_the_user_names_while_a_command_runs_counts_for_the_next(
    work: Path, gitconfig: Path
) -> None:
    """A command in the background does not keep later ones from seeing new links and settings of the user."""
    (work / "rules").write_text("as it was")
    sandbox = Sandbox(work, "required")
    first = await sandbox.start("sleep 60", on_output=lambda _: None)
    try:
        link = gitconfig.parent / ".claude" / "settings.json"
        link.parent.mkdir()
        link.symlink_to(work / "rules")
        _set_hooks(gitconfig, work / "team")
        second = await sandbox.run("echo evil > rules; mkdir team; touch team/pre-commit")
        assert link.read_text() == "as it was"
        assert second.set_aside == ("team.from-command",)
        _set_hooks(gitconfig, work)
        with pytest.raises(SandboxError, match=r"other programs obey .* leads to"):
            await sandbox.run("true")
    finally:
        first.kill()
        await first.wait()
    assert (work / "rules").read_text() == "as it was"
