"""Programs that a repository, or a file read on entering a directory, names: the real tool runs none of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hookline.containment import Sandbox, SandboxPaths

from .conftest import GIT, ask_git, needs_bubblewrap

pytestmark = needs_bubblewrap

# --- a further work tree of git -----------------------------------------------------------------------

FSMONITOR = "core.fsmonitor '{run};false'"
ADMINISTRATION = {
    "a bare repository in its place": (
        "cd .git/worktrees; mv tree away; git init -q --bare tree; cd tree; git config core.bare false; "
        f"git config core.worktree {{work}}/tree; git config {FSMONITOR}"
    ),
    "hooks in its place": (
        "cd .git/worktrees; mv tree away; git init -q --bare tree; cd tree; git config core.bare false; "
        "mkdir -p hooks; printf '#!/bin/sh\\n{run}\\n' > hooks/pre-commit; chmod +x hooks/pre-commit"
    ),
    "a configuration of its own": (
        f"git config -f .git/worktrees/tree/config.worktree {FSMONITOR}"
    ),
    "another directory that it shares": (
        "cd .git; mkdir e; mv worktrees e/; ln -s e/worktrees worktrees; cp -r objects refs e/; "
        f"git config -f e/config {FSMONITOR}"
    ),
    "hooks in another directory that it shares": (
        "cd .git; mkdir -p e/hooks; mv worktrees e/; ln -s e/worktrees worktrees; cp -r objects refs e/; "
        "printf '#!/bin/sh\\n{run}\\n' > e/hooks/pre-commit; chmod +x e/hooks/pre-commit"
    ),
    "another directory above it": (
        "mv .git/worktrees .git/away; git init -q --bare .git/worktrees/tree; cd .git/worktrees/tree; "
        f"git config core.bare false; git config core.worktree {{work}}/tree; git config {FSMONITOR}"
    ),
}


@pytest.fixture
def linked(work: Path) -> Path:
    """A repository with a further work tree, and a configuration for each of them."""
    subprocess.run([*GIT, "-C", work, "worktree", "add", "-q", "tree"], check=True)
    subprocess.run(["git", "-C", work, "config", "extensions.worktreeConfig", "true"], check=True)
    return work


def test_the_administration_of_a_work_tree_stays_where_git_looks_for_it(linked: Path) -> None:
    """Also if commands in the further work tree may write in the git directory itself."""
    git = linked / ".git"
    sandbox = Sandbox(linked / "tree", "required", paths=SandboxPaths(write=(str(git),)))
    ran = sandbox.run_sync(f"cd {git} && mv worktrees away")
    assert "Device or resource busy" in ran.text
    assert (git / "worktrees" / "tree").is_dir()


@pytest.mark.parametrize("way", ADMINISTRATION)
def test_what_replaces_the_administration_of_a_work_tree_runs_nothing(
    linked: Path, marker: Path, way: str
) -> None:
    """Its directory below .git/worktrees is a git directory too, whatever a command makes of it."""
    command = ADMINISTRATION[way].format(run=f"touch {marker}", work=linked)
    ran = Sandbox(linked, "required").run_sync(command)
    # A git directory that exists cannot be moved; what is made in another place is moved aside.
    moved = [path for path in ran.set_aside if path.startswith(".git/worktrees/tree/")]
    assert moved or "Device or resource busy" in ran.text, ran.text
    ask_git(linked)
    assert not marker.exists()


@pytest.mark.parametrize("way", ADMINISTRATION)
def test_these_ways_are_real(linked: Path, marker: Path, way: str) -> None:
    """On the host each of them makes git run a program."""
    command = ADMINISTRATION[way].format(run=f"touch {marker}", work=linked)
    subprocess.run(["bash", "-c", command], cwd=linked, capture_output=True)
    ask_git(linked)
    assert marker.exists()


# --- Mercurial ----------------------------------------------------------------------------------------

needs_hg = pytest.mark.skipif(shutil.which("hg") is None, reason="mercurial is not installed")


def ask_hg(work: Path) -> None:
    """What people and their prompts ask Mercurial."""
    for words in (["status"], ["log"], ["summary"]):
        subprocess.run(["hg", *words], cwd=work, capture_output=True, timeout=60)


@needs_hg
def test_files_that_an_hgrc_names_are_kept(tmp_path: Path, marker: Path) -> None:
    """What it includes, also what an included file includes and what is missing, and a file that is an extension."""
    work = tmp_path / "work"
    subprocess.run(["hg", "init", work], check=True)
    (work / ".hg" / "hgrc").write_text(
        "%include ../shared.rc\n%include  ../missing.rc \n[extensions]\nx = ext/file.py\n"
    )
    (work / "ext").mkdir()
    (work / "shared.rc").write_text("%include ext/more.rc\n")
    (work / "ext" / "file.py").touch()
    plant = (
        f"for f in shared.rc missing.rc ext/more.rc; do printf '[hooks]\\npre-status = touch {marker}\\n' > $f; "
        f'done; echo \'open("{marker}", "w")\' > ext/file.py; mv ext away'
    )
    ran = Sandbox(work, "required").run_sync(plant)
    assert ran.set_aside == ("ext/more.rc.from-command", "missing.rc.from-command")
    ask_hg(work)
    assert not marker.exists()
    for name in ("missing.rc", "ext/more.rc"):
        (work / name).write_text(f"[hooks]\npre-status = touch {marker}\n")
        ask_hg(work)
        assert marker.exists(), "the way is real"
        marker.unlink()
        (work / name).unlink()


@needs_hg
def test_mercurial_reads_no_pickle_that_a_command_left(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of histedit was one in old versions, and is still read as one: `hg summary` would run what is in it."""
    work, settings = tmp_path / "work", tmp_path / "hgrc"
    subprocess.run(["hg", "init", work], check=True)
    settings.write_text("[extensions]\nhistedit=\n")
    monkeypatch.setenv("HGRCPATH", str(settings))
    plant = f"printf \"cposix\\nsystem\\n(S'touch {marker}'\\ntR.\" > .hg/histedit-state"
    ran = Sandbox(work, "required").run_sync(plant)
    assert ran.set_aside == (".hg/histedit-state.from-command",)
    ask_hg(work)
    assert not marker.exists()
    (work / ".hg/histedit-state.from-command").rename(work / ".hg/histedit-state")
    ask_hg(work)
    assert marker.exists(), "the way is real"


@needs_hg
def test_mercurial_loads_no_extension_that_a_command_asked_for(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That for large files, named in `requires`, would copy a file to where another one says: to `hgrc`."""
    work, settings = tmp_path / "work", tmp_path / "hgrc"
    settings.write_text("[ui]\nusername = x\n")
    monkeypatch.setenv("HGRCPATH", str(settings))
    subprocess.run(["hg", "init", work], check=True)
    plant = (
        f"printf '[hooks]\\npre-status = touch {marker}\\n' > payload; "
        "(cat .hg/requires; echo largefiles) > new; mv new .hg/requires; "
        "hg --config extensions.largefiles= add --large payload; "
        "hg --config extensions.largefiles= commit -qm x -u x; sleep 2; hg status; echo ../hgrc > .hglf/payload"
    )
    ran = Sandbox(work, "required").run_sync(plant)
    assert ".hglf.from-command" in ran.set_aside

    def ask() -> None:
        for words in (["status"], ["commit", "-m", "x"], ["status"]):
            subprocess.run(["hg", *words], cwd=work, capture_output=True, timeout=60)

    ask()
    assert not marker.exists()
    assert "largefiles" not in (work / ".hg/requires").read_text()
    ran = Sandbox(work, "required").run_sync("hg init in; cd in; echo largefiles >> .hg/requires")
    assert "in/.hg/requires.from-command" in ran.set_aside
    assert not Sandbox(work, "required").run_sync("hg init plain").set_aside


@needs_hg
@pytest.mark.parametrize(
    "plant",
    [
        "cp plan .hgsub; mkdir sub; hg add .hgsub",
        "cp plan .hgsub; mkdir sub; hg add .hgsub; hg commit -qm sub -u x; rm -rf sub",
        "echo '%include plan' > .hgsub; mkdir sub; hg add .hgsub plan",
        "hg init in; cd in; cp ../plan .hgsub; mkdir sub; hg add .hgsub; cd ..; echo in = in > .hgsub; hg add .hgsub",
    ],
)
def test_mercurial_writes_no_settings_that_a_command_left_for_a_subrepository(
    tmp_path: Path, marker: Path, plant: str
) -> None:
    """The source of one is written into its `hgrc` at a commit or a question, with all lines that continue it."""
    work = tmp_path / "work"
    subprocess.run(["hg", "init", work], check=True)
    (work / "extension").write_text(f"open({str(marker)!r}, 'w')\n")
    (work / "plan").write_text(f"sub = /x\n  [extensions]\n  x = {work}/extension\n")
    ran = Sandbox(work, "required").run_sync(plant)
    assert ".hgsub.from-command" in ran.set_aside

    def ask() -> None:
        for words in (["id"], ["status", "-S"], ["commit", "-m", "x", "-u", "x"]):
            for place in (work, *work.glob("in")):
                subprocess.run(["hg", *words], cwd=place, capture_output=True, timeout=60)

    ask()
    assert not marker.exists()
    for path in [*work.rglob(".hgsub*.from-command")]:
        path.rename(path.with_name(path.name.removesuffix(".from-command")))
    ask()
    assert marker.exists(), "the way is real"


@needs_hg
def test_the_list_of_subrepositories_is_kept(tmp_path: Path) -> None:
    """So is what it includes."""
    work = tmp_path / "work"
    subprocess.run(["hg", "init", work], check=True)
    before = {".hgsub": "%include more\n", ".hgsubstate": "", "more": "a = a\n"}
    for name, text in before.items():
        (work / name).write_text(text)
    Sandbox(work, "required").run_sync(
        "for f in .hgsub .hgsubstate more; do echo b = b >> $f; done"
    )
    assert {name: (work / name).read_text() for name in before} == before


@needs_hg
def test_mercurial_can_edit_history_inside(tmp_path: Path) -> None:
    """The state that it writes today is text, and stays."""
    work = tmp_path / "work"
    subprocess.run(["hg", "init", work], check=True)
    hg = "HGEDITOR=true hg --config extensions.histedit= --config ui.username=x"
    sandbox = Sandbox(work, "required")
    ran = sandbox.run_sync(
        f"for i in 1 2; do echo $i >> f; {hg} commit -qAm $i; done; echo edit $({hg} id -i) > plan; "
        f"{hg} histedit -q . --commands plan"
    )
    assert (work / ".hg/histedit-state").exists(), ran.text
    ran = sandbox.run_sync(f"{hg} histedit -q --continue")
    assert (ran.exit_code, (work / ".hg/histedit-state").exists()) == (0, False), ran.text


# --- mise ---------------------------------------------------------------------------------------------


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a mise.toml that the user trusts, and a profile that is in use."""
    if shutil.which("mise") is None:
        pytest.skip("mise is not installed")
    for name in ("MISE_DATA_DIR", "MISE_CONFIG_DIR", "MISE_STATE_DIR", "MISE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("MISE_OFFLINE", "1")
    monkeypatch.setenv("MISE_ENV", "dev")
    work = tmp_path / "work"
    work.mkdir()
    (work / "mise.toml").write_text("[env]\nA = 'b'\n")
    subprocess.run(["mise", "trust", work / "mise.toml"], check=True, capture_output=True)
    return work


def enter_with_mise(work: Path) -> None:
    """What a shell does that enters a directory."""
    subprocess.run(["mise", "env", "-s", "bash"], cwd=work, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "setting",
    ['_.source = ["./one.sh", "sub/two.sh"]', '_.source = [\n  "one.sh",\n  "sub/two.sh",\n]'],
)
@pytest.mark.parametrize("name", ["mise.toml", "mise/config.toml", ".config/mise/conf.d/x.toml"])
def test_existing_files_that_mise_sources_are_kept(
    trusted: Path, marker: Path, setting: str, name: str
) -> None:
    """Also in a list of several."""
    (trusted / "sub").mkdir()
    (trusted / "one.sh").write_text("")
    (trusted / "sub" / "two.sh").write_text("")
    (trusted / name).parent.mkdir(parents=True, exist_ok=True)
    (trusted / name).write_text(f"[env]\n{setting}\n")
    Sandbox(trusted, "required").run_sync(
        f"for f in one.sh sub/two.sh; do echo 'touch {marker}' > $f; done"
    )
    enter_with_mise(trusted)
    assert not marker.exists()
    for path in ("one.sh", "sub/two.sh"):
        (trusted / path).write_text(f"touch {marker}\n")
    enter_with_mise(trusted)
    assert marker.exists(), "the way is real"


@pytest.mark.parametrize(
    "name",
    """
    mise.dev.toml .mise.dev.local.toml mise.local.toml mise/config.toml mise/config.dev.toml mise/conf.d/x.toml
    .mise/config.toml .mise/conf.d/x.toml .config/mise.toml .config/mise.dev.toml .config/mise/config.dev.toml
    .config/mise/conf.d/x.toml .tool-versions
    """.split(),
)
def test_mise_runs_nothing_under_any_of_its_names(trusted: Path, marker: Path, name: str) -> None:
    """Whoever trusts one file of a directory trusts every other name there, of a profile too."""
    text = f"{{{{ exec(command='touch {marker}') }}}}"
    plant = f"node {text}\n" if name == ".tool-versions" else f'[env]\nA = "{text}"\n'
    (trusted / "plant").write_text(plant)
    ran = Sandbox(trusted, "required").run_sync(f"mkdir -p $(dirname {name}); cp plant {name}")
    assert len(ran.set_aside) == 1
    enter_with_mise(trusted)
    assert not marker.exists()
    (trusted / os.path.dirname(name)).mkdir(parents=True, exist_ok=True)
    (trusted / name).write_text(plant)
    enter_with_mise(trusted)
    assert marker.exists(), "the way is real"


@pytest.mark.parametrize(
    "links",
    [
        {"mise": "m/config.toml"},
        {".config": "m/mise.toml"},
        {".config": "c/mise/config.toml"},
        {".config/mise": "m/config.toml"},
    ],
)
def test_mise_runs_nothing_that_a_link_leads_to(
    trusted: Path, marker: Path, links: dict[str, str]
) -> None:
    """A link in the place of a directory gives other files the names that mise knows."""
    ((link, file),) = links.items()
    (trusted / file).parent.mkdir(parents=True)
    (trusted / file).write_text(f"[env]\nA = \"{{{{ exec(command='touch {marker}') }}}}\"\n")
    plant = f"mkdir -p $(dirname {link}); ln -s $PWD/{file.partition('/')[0]} {link}"
    ran = Sandbox(trusted, "required").run_sync(plant)
    assert f"{link}.from-command" in ran.set_aside
    enter_with_mise(trusted)
    assert not marker.exists()
    subprocess.run(["bash", "-c", plant], cwd=trusted, check=True)
    enter_with_mise(trusted)
    assert marker.exists(), "the way is real"


@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "packed-refs", "logs/HEAD", "ORIG_HEAD"])
def test_a_link_inside_of_git_is_moved_aside(work: Path, tmp_path: Path, name: str) -> None:
    """The user's next commit would write through it: over a hook, or over a file of the home."""
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    ran = Sandbox(work, "required").run_sync(f"rm -f .git/{name}; ln -s {victim} .git/{name}")
    assert f".git/{name}.from-command" in ran.set_aside
    subprocess.run([*GIT, "-C", work, "commit", "-q", "--allow-empty", "-m", "more"], check=True)
    subprocess.run(["git", "-C", work, "pack-refs", "--all"], check=True)
    assert victim.read_text() == "mine\n"


LAYOUTS = {
    "a git directory beside its work tree": (
        "git init -q --separate-git-dir store tree && cd tree && git commit -q --allow-empty -m one",
        ["store", "tree"],
        "store",
    ),
    "a bare repository with work trees": (
        "git init -q first && git -C first commit -q --allow-empty -m one && git clone -q --bare first .bare && "
        "git -C .bare worktree add -q ../tree",
        [".bare", "tree"],
        ".bare/worktrees/tree",
    ),
    "a bare repository with work trees in it": (
        "git init -q first && git -C first commit -q --allow-empty -m one && git clone -q --bare first bare && "
        "git -C bare worktree add -q ../tree && mkdir bare/in && git -C bare worktree add -q in/tree2",
        ["bare", "tree"],
        "bare/worktrees/tree",
    ),
}
"""How it is made, the directories in which commands write (or the one that holds them), and the git directory."""


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "logs/HEAD"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_link_inside_of_a_git_directory_of_another_name_is_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, name: str, is_apart: bool
) -> None:
    """The commit writes through it there too. A link in a work tree stays, wherever that lies."""
    make, roots, git = LAYOUTS[layout]
    for variable in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{variable}_NAME", "x")
        monkeypatch.setenv(f"{variable}_EMAIL", "x@x")
    top, victim = tmp_path / "work", tmp_path / "victim"
    top.mkdir()
    victim.write_text("mine\n")
    subprocess.run(["bash", "-c", make], cwd=top, check=True, capture_output=True)
    further, tree = (top / each for each in roots)
    paths = SandboxPaths(write=(further,)) if is_apart else None
    ran = Sandbox(tree if is_apart else top, "required", paths=paths).run_sync(
        f"cd {top}; mkdir -p {git}/logs; rm -f {git}/{name}; ln -s {victim} {git}/{name}; ln -s x tree/link; "
        "if test -d bare/in; then ln -s x bare/in/tree2/link; fi"
    )
    assert len(ran.set_aside) == 1
    assert ran.set_aside[0].endswith(f"{name}.from-command")
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "more"], cwd=tree, check=True)
    assert victim.read_text() == "mine\n"


def test_a_stash_that_the_next_commit_applies_is_moved_aside(work: Path) -> None:
    """It would put files into the work tree: hooks, settings of editors and agents."""
    ran = Sandbox(work, "required").run_sync(
        "export GIT_INDEX_FILE=/tmp/index; git read-tree HEAD; B=$(echo x | git hash-object -w --stdin); "
        "git update-index --add --cacheinfo 100755,$B,.vscode/tasks.json; H=$(git rev-parse HEAD); "
        "I=$(git commit-tree -p $H -m i HEAD^{tree}); "
        "git commit-tree -p $H -p $I -m w $(git write-tree) > .git/MERGE_AUTOSTASH"
    )
    assert ran.set_aside == (".git/MERGE_AUTOSTASH.from-command",)
    subprocess.run([*GIT, "-C", work, "commit", "-q", "--allow-empty", "-m", "more"], check=True)
    assert not (work / ".vscode").exists()


MERGE = (
    "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x; "
    "H=$(git rev-parse HEAD); G=$(git rev-parse --git-dir); C=$(git rev-parse --git-common-dir); "
    "B=$(git symbolic-ref HEAD); S=$(echo x | git hash-object -w --stdin); "
    "T=$(printf '100644 blob %s\\t.envrc\\n' $S | git mktree); "
    "I=$(git commit-tree -p $H -m index $H^{tree}); U=$(git commit-tree -m untracked $T); "
    "printf '%s\\n' $I $U > $G/MERGE_HEAD; echo merge > $G/MERGE_MSG; printf no-ff > $G/MERGE_MODE; "
)
"""The next commit looks like a stash with a new file. It is applied if a ref leads that commit to `MERGE_AUTOSTASH`."""
SYMBOLIC = {
    "the branch": "echo $H MERGE_AUTOSTASH > $C/packed-refs; echo ref: MERGE_AUTOSTASH > $C/$B",
    "a new branch": (
        "echo $H MERGE_AUTOSTASH > $C/packed-refs; echo ref: refs/heads/evil > $G/HEAD; "
        "echo ref:MERGE_AUTOSTASH > $C/refs/heads/evil"
    ),
    "a branch behind another": (
        "echo $H MERGE_AUTOSTASH > $C/packed-refs; printf 'ref: \\t refs/heads/evil' > $C/$B; "
        "echo ref: MERGE_AUTOSTASH > $C/refs/heads/evil"
    ),
}


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("way", SYMBOLIC)
def test_a_branch_that_leads_to_the_stash_of_the_next_commit_is_moved_aside(
    work: Path, way: str, is_linked: bool
) -> None:
    """The user's commit would be applied like a stash: it puts files of the command's choice into the work tree."""
    tree = work / "tree" if is_linked else work
    if is_linked:
        subprocess.run(["git", "-C", work, "worktree", "add", "-q", tree], check=True)
    plant = f"cd {tree}; {MERGE}{SYMBOLIC[way]}"
    ran = Sandbox(work, "required").run_sync(plant)
    assert ".git/packed-refs.from-command" in ran.set_aside
    assert any(path.startswith(".git/refs/heads/") for path in ran.set_aside)
    subprocess.run([*GIT, "-C", tree, "commit", "-qm", "more"], check=True)
    assert not (tree / ".envrc").exists()


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("way", SYMBOLIC)
def test_a_branch_that_leads_to_the_stash_is_a_real_way(
    work: Path, way: str, is_linked: bool
) -> None:
    """On the host, the commit makes the file."""
    tree = work / "tree" if is_linked else work
    if is_linked:
        subprocess.run(["git", "-C", work, "worktree", "add", "-q", tree], check=True)
    subprocess.run(["sh", "-c", f"{MERGE}{SYMBOLIC[way]}"], cwd=tree, check=True)
    subprocess.run([*GIT, "-C", tree, "commit", "-qm", "more"], check=True)
    assert (tree / ".envrc").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("HEAD", "ref: refs/stash"),
        ("HEAD", "ref: refs/heads/../../MERGE_AUTOSTASH"),
        ("HEAD", "ref: MERGE_AUTOSTASH"),
        ("HEAD", "ref: worktrees/x/MERGE_AUTOSTASH"),
        ("ORIG_HEAD", "ref: MERGE_AUTOSTASH"),
        ("HEAD", "ref: %5000s"),
        ("packed-refs", f"{'0' * 40}\tMERGE_AUTOSTASH"),
    ],
)
def test_a_ref_that_leads_to_no_branch_is_moved_aside(work: Path, name: str, content: str) -> None:
    """Whatever git writes through it lands beside its own files. Newer versions of git find any name in packed refs."""
    ran = Sandbox(work, "required").run_sync(f"printf '{content}\\n' refs/heads/long > .git/{name}")
    assert ran.set_aside == (f".git/{name}.from-command",)


def test_what_git_itself_does_with_refs_stays(work: Path) -> None:
    """Branches, detached heads, branches without a commit, packed refs and the head of a remote."""
    git = " ".join(GIT)
    ran = Sandbox(work, "required").run_sync(
        f"set -e; {git} switch -qc one; {git} commit -q --allow-empty -m a; {git} checkout -q --detach; "
        f"{git} commit -q --allow-empty -m b; {git} switch -q one; {git} merge -q --no-ff -m m HEAD@{{1}}; "
        f"{git} symbolic-ref refs/heads/alias refs/heads/one; {git} switch -q alias; echo y > file; "
        f"{git} stash -q; {git} stash pop -q; {git} commit -qam c; {git} tag -am t t; {git} reset -q --soft HEAD~1; "
        f"{git} commit -qm d; {git} update-ref refs/remotes/o/main HEAD; "
        f"{git} symbolic-ref refs/remotes/o/HEAD refs/remotes/o/main; {git} rebase -q HEAD~1; {git} gc -q; "
        f"{git} branch packed-refs; {git} switch -q packed-refs; {git} commit -q --allow-empty -m e; "
        f"{git} symbolic-ref HEAD refs/heads/unborn"
    )
    assert (ran.exit_code, ran.set_aside) == (0, ()), ran.text


def test_a_head_of_the_users_that_leads_elsewhere_is_read_only(work: Path) -> None:
    """It is theirs, so it stays, and no command can change it."""
    head = work / ".git" / "HEAD"
    head.write_text("ref: refs/wip/mine\n")
    ran = Sandbox(work, "required").run_sync("echo ref: refs/wip/other > .git/HEAD")
    assert (ran.exit_code, ran.set_aside, head.read_text()) == (1, (), "ref: refs/wip/mine\n")


def test_a_new_repository_with_refs_in_a_table_does_not_stay(work: Path) -> None:
    """Nobody looks into the table."""
    ran = Sandbox(work, "required").run_sync(
        "git init -q sub; git -C sub config extensions.refStorage reftable"
    )
    assert ran.set_aside == ("sub/.git/config.from-command",)


def test_a_resolution_that_the_next_commit_records_is_moved_aside(
    work: Path, tmp_path: Path
) -> None:
    """It would copy a file that the command cannot see, such as a key, to where the next command reads it."""
    secret = tmp_path / "secret"
    secret.write_text("TOPSECRET\n")
    ran = Sandbox(work, "required").run_sync(
        "k=$(printf %040d 1); mkdir -p .git/rr-cache/$k; echo x > .git/rr-cache/$k/preimage; "
        f"printf '%s\\t%s\\0' $k {secret} > .git/MERGE_RR"
    )
    assert ran.set_aside == (".git/MERGE_RR.from-command",)
    subprocess.run([*GIT, "-C", work, "commit", "-q", "--allow-empty", "-m", "more"], check=True)
    copies = [path for path in (work / ".git/rr-cache").rglob("*") if path.is_file()]
    assert not any("TOPSECRET" in path.read_text() for path in copies)


def test_a_link_inside_of_hg_is_moved_aside(work: Path, tmp_path: Path) -> None:
    """Mercurial appends to its caches."""
    ran = Sandbox(work, "required").run_sync(
        f"mkdir -p sub/.hg/cache; ln -s {tmp_path}/victim sub/.hg/cache/rbc-names-v2"
    )
    assert ran.set_aside == ("sub/.hg/cache/rbc-names-v2.from-command",)
