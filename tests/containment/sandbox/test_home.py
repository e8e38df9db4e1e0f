"""Home directories as commands see them: nothing that begins with a dot, but for what programs are started from."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from own_mounts import BOUND, in_mounts_of_its_own

from hookline.containment import Sandbox, SandboxGrant, SandboxPaths
from hookline.containment.sandbox import home as home_module
from hookline.containment.sandbox.home import hidden_programs, homes, needed_paths
from hookline.errors import SandboxError

from .conftest import Place, needs_bubblewrap

pytestmark = needs_bubblewrap

SECRETS = """
    .claude.json .cursor/mcp.json .config/foo/keys.json .ssh/id_rsa .aws/credentials .netrc .npmrc .config/gh/hosts.yml
    .bash_history .mozilla/firefox/logins.json .config/anything/else .local/share/keyrings/login .kube/config .pgpass
    .cargo/credentials.toml .config/uv/uv.toml .local/state/tool/token .unheard-of .gitconfig
    """.split()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with secrets under names that begin with a dot."""
    home = tmp_path / "home"
    for name in SECRETS:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a secret\n")
    (home / "Documents").mkdir()
    (home / "Documents" / "letter").write_text("a letter\n")
    (home / "link").symlink_to("Documents/letter")
    (home / ".gitconfig").write_text(
        '[user]\n\tname = A \\"B\\" C\n\temail = a@b\n[credential]\n\thelper = a secret\n[core]\n\tpager = a secret\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CARGO_HOME", raising=False)
    return home


def sandbox_of(home: Path, **options: object) -> Sandbox:
    """A sandbox beside the home, in which both would be seen although they are in /tmp."""
    work = home.parent / "work"
    work.mkdir(exist_ok=True)
    show = (home.parent, *options.pop("show", ()))  # type: ignore[misc]
    paths = SandboxPaths(show=show, **options)  # type: ignore[arg-type]
    return Sandbox(work, "required", paths=paths)


@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_what_begins_with_a_dot_is_not_there(home: Path, place: str) -> None:
    """In either place, whatever its name; it is missing, which is not the same as forbidden."""
    sandbox = sandbox_of(home)
    ran = sandbox.run_sync(f"cat {' '.join(f'~/{name}' for name in SECRETS)}", place=place)  # type: ignore[arg-type]
    assert "a secret" not in ran.text
    assert "Permission denied" not in ran.text
    own = f"a secret of {os.getpid()}"  # files of the machine may have the words of the others
    (home / ".ssh" / "own").write_text(own)
    assert sandbox.run_sync(f"grep -rl 'a secret' ~ {home.parent}", place=place).text == ""  # type: ignore[arg-type]
    assert sandbox.run_sync(f"grep -rl '{own}' /home", place=place).text == ""  # type: ignore[arg-type]
    assert sandbox.run_sync("cat ~/Documents/letter ~/link", place=place).text == "a letter\n" * 2  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a home where none is expected")
@pytest.mark.parametrize("place", ["workspace", "read-only"])
@pytest.mark.parametrize("inner", ["snap/app/1", ".var/app/1"])
def test_a_home_inside_another_home_hides_its_entries(
    monkeypatch: pytest.MonkeyPatch, place: str, inner: str
) -> None:
    """`HOME` is inside the home that the system names: nothing of the outer one is put over the inner one."""
    # Not in /home, /etc or /var: every sandbox of root looks there, and tests at the same time would see this one.
    with tempfile.TemporaryDirectory(dir="/srv") as directory:
        outer = Path(directory)
        home = outer / inner
        for path in (home / ".ssh" / "key", home / ".netrc", outer / ".aws" / "credentials"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a secret\n")
        (home / "letter").write_text("a letter\n")
        (outer / "work").mkdir()
        monkeypatch.setenv("HOME", str(home))
        user = pwd.struct_passwd(("x", "x", os.geteuid(), os.getegid(), "", directory, "/bin/sh"))
        monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
        sandbox = Sandbox(outer / "work", "required")
        ran = sandbox.run_sync(f"grep -rs 'a secret' {outer} ~; cat ~/letter", place=place)  # type: ignore[arg-type]
        is_hidden = inner.startswith(".")
        assert "a secret" not in ran.text
        assert ("a letter" in ran.text) is not is_hidden
        assert sandbox.run_sync("touch ~/.new && git config --global --list").exit_code == 0


@pytest.mark.parametrize("crowd", ["files at the top", "files of another project"])
def test_a_crowded_home_is_no_reason_for_the_host(home: Path, crowd: str) -> None:
    """A command could fill its directory so that nothing else of the home can be covered one by one."""
    other = home / "other"
    other.mkdir()
    for number in range(3_500):
        (home / str(number) if crowd == "files at the top" else other / f"{number}.env").touch()
    (other / ".env").write_text("a secret\n")
    work = home / "work"
    work.mkdir()
    sandbox = Sandbox(work, paths=SandboxPaths(show=(home.parent,)))
    ran = sandbox.run_sync(
        "cat ~/.netrc ../other/.env; touch here ../outside; cat ~/Documents/letter"
    )
    assert ran.contained
    assert "a secret" not in ran.text
    assert "a letter" in ran.text
    assert (work / "here").exists()
    assert not (home / "outside").exists()


def test_too_many_environment_files_of_the_work_directory_are_an_error(home: Path) -> None:
    """Nothing runs, neither in the sandbox nor on the host."""
    sandbox = sandbox_of(home)
    ran = sandbox.run_sync("for i in $(seq 4000); do : > $i.env; done")
    assert ran.contained
    with pytest.raises(SandboxError, match="too many environment files"):
        Sandbox(sandbox.root, paths=SandboxPaths(show=(home.parent,))).run_sync("touch ran")
    assert not (sandbox.root / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks at the homes of others")
def test_private_homes_of_others_are_hidden_from_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a sandbox root has no rights to the files of others, so nothing can be mounted there, nor read."""
    nobody = 65534
    private, open_home = tmp_path / "private", tmp_path / "open"
    for path in (
        private / "x/.env",
        private / ".ssh/key",
        open_home / "priv/.env",
        open_home / "dot/aws",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a secret\n")
    (open_home / ".aws").symlink_to("dot/aws")
    for path in (private, open_home / "priv", open_home / "dot"):
        path.chmod(0o700)
    for path in tmp_path.rglob("*"):
        os.chown(path, nobody, nobody, follow_symlinks=False)
    found = homes()
    monkeypatch.setattr(
        "hookline.containment.sandbox.home.homes", lambda: [*found, str(private), str(open_home)]
    )
    work = tmp_path / "work"
    work.mkdir()
    ran = Sandbox(work, "required", paths=SandboxPaths(show=(tmp_path,))).run_sync(
        f"touch done; cat {private}/x/.env {private}/.ssh/key {open_home}/priv/.env {open_home}/.aws"
    )
    assert "a secret" not in ran.text
    assert (work / "done").exists()


def test_a_second_mount_of_the_work_directory_shows_nothing(tmp_path: Path) -> None:
    """Its environment files are hidden where it is the work directory only, so it is empty elsewhere."""
    work, second = tmp_path / "work", tmp_path / "second"
    for path in (work, second):
        path.mkdir()
    (work / ".env").write_text("a secret\n")
    look = f"""
from hookline.containment import Sandbox, SandboxPaths
sandbox = Sandbox({str(work)!r}, "required", paths=SandboxPaths(show=({str(tmp_path)!r},)))
for place in ("workspace", "read-only"):
    print(sandbox.run_sync("cat {second}/.env; echo ran", place=place).text)
print(sandbox.can_reach({str(second / "runs.db")!r}))
"""
    printed = in_mounts_of_its_own(BOUND, work, second, sys.executable, look)
    assert (printed.count("ran\n"), "a secret" in printed) == (2, False)
    assert printed.endswith("True\n")


def test_a_second_mount_of_a_home_hides_what_has_no_dot_too(home: Path, tmp_path: Path) -> None:
    """`_netrc` and its like, and what links with whole paths lead to."""
    second = tmp_path / "second"
    for path in (second, home / "snap" / "firefox", home / "dotfiles", tmp_path / "work"):
        path.mkdir(parents=True)
    for name in ("_netrc", "snap/firefox/x", "dotfiles/aws"):
        (home / name).write_text("a secret\n")
    (home / ".awsl").symlink_to(home / "dotfiles" / "aws")
    look = f"""
from hookline.containment import Sandbox, SandboxPaths
paths = SandboxPaths(show=({str(tmp_path)!r},))
print(Sandbox({str(tmp_path / "work")!r}, "required", paths=paths).run_sync(
    "cd {second}; cat _netrc snap/firefox/x dotfiles/aws .netrc; cat Documents/letter").text)
"""
    printed = in_mounts_of_its_own(BOUND, home, second, sys.executable, look)
    assert ("a letter" in printed, "a secret" in printed) == (True, False)


def test_a_journal_behind_a_mount_of_a_part_of_the_work_directory_is_reached(
    tmp_path: Path,
) -> None:
    """Whatever path leads there."""
    (tmp_path / "work/data").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    look = f"""
from hookline.containment import Sandbox
sandbox = Sandbox({str(tmp_path / "work")!r})
print(sandbox.can_reach({str(tmp_path / "other/runs.db")!r}))
print(sandbox.can_reach({str(tmp_path / "third/runs.db")!r}))
"""
    mounted = (tmp_path / "work/data", tmp_path / "other")
    assert in_mounts_of_its_own(BOUND, *mounted, sys.executable, look) == "True\nFalse\n"


@pytest.mark.parametrize(
    ("variable", "value", "plant"),
    [
        (
            "XDG_STATE_HOME",
            "st",
            "mkdir -p st/hookline/sandbox; echo x > st/hookline/sandbox/a-b.json",
        ),
        ("XDG_STATE_HOME", "st", "mv st old; mkdir -p st/hookline; echo x > st/hookline/record"),
        ("XDG_CONFIG_HOME", "xdg", "mkdir -p xdg/git; echo x > xdg/git/config"),
        ("XDG_CONFIG_HOME", "xdg", "mkdir -p xdg/hookline; echo x > xdg/hookline/config.toml"),
        ("GIT_CONFIG_GLOBAL", "settings", "echo x > settings"),
    ],
)
def test_settings_of_the_user_in_the_work_directory_are_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, plant: str
) -> None:
    """State, trust and configuration of Hookline and git, wherever variables put them, also while they are missing."""
    work = home.parent / "work"
    work.mkdir()
    monkeypatch.setenv(variable, str(work / value))
    ran = sandbox_of(home).run_sync(f"{plant} && echo planted")
    assert "planted" not in ran.text
    left = [path for path in work.rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "HOOKLINE_CONFIG_DIR"])
def test_settings_of_the_user_behind_a_link_in_the_work_directory_are_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A command could put a directory with hooks in the place of the link."""
    work = home.parent / "work"
    (work / "real").mkdir(parents=True)
    (work / "settings").symlink_to("real")
    monkeypatch.setenv(variable, str(work / "settings"))
    with pytest.raises(SandboxError, match=r"by '.*/work/settings', which commands could replace"):
        sandbox_of(home).run_sync("rm settings; mkdir settings; touch settings/config.toml")
    assert (work / "settings").is_symlink()


def test_writes_to_the_home_are_gone_with_the_command(home: Path) -> None:
    """Programs write there all the time; nothing of it lasts, and what is there cannot be changed."""
    sandbox = sandbox_of(home)
    before = sorted(path for path in home.rglob("*"))
    ran = sandbox.run_sync(
        "mkdir -p ~/.cache/x && echo y > ~/.cache/x/y && echo z > ~/.bashrc && cat ~/.bashrc"
    )
    assert (ran.exit_code, ran.text) == (0, "z\n")
    assert sandbox.run_sync("echo x > ~/Documents/letter").exit_code != 0
    assert sorted(path for path in home.rglob("*")) == before
    assert sandbox.run_sync("test -e ~/.bashrc").exit_code != 0


def test_git_knows_who_commits_and_nothing_else_of_the_users_file(home: Path) -> None:
    """Name, address, and the list of ignored files; no helper, no pager."""
    (home / "ignored").write_text("*.log\n")
    with (home / ".gitconfig").open("a") as file:
        file.write("[core]\n\texcludesFile = ~/ignored\n[init]\n\tdefaultBranch = trunk\n")
    ran = sandbox_of(home).run_sync(
        "git config --global --list; git init -q .; touch a.log b; git status -sb"
    )
    lines = ran.text.splitlines()
    assert 'user.name=A "B" C' in lines
    assert "user.email=a@b" in lines
    assert "## No commits yet on trunk" in lines
    assert "?? b" in lines
    assert not any("a.log" in line or "secret" in line for line in lines)


def test_directories_of_the_search_path_and_what_their_links_lead_to(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in a hidden place works, its environment with it; credentials beside it stay hidden."""
    bin_, venv = home / ".local" / "bin", home / ".local" / "share" / "tools" / "x"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (venv / "data").write_text("data\n")
    program = venv / "bin" / "x"
    program.write_text(f"#!/bin/sh\ncat {venv}/data\n")
    program.chmod(0o755)
    bin_.mkdir(parents=True)
    (bin_ / "x").symlink_to(program)
    package = home / ".prefix" / "lib" / "node_modules"
    (package / "tool" / "bin").mkdir(parents=True)
    (package / "tool" / "bin" / "t").write_text(f"#!/bin/sh\ncat {package}/other\n")
    (package / "tool" / "bin" / "t").chmod(0o755)
    (package / "other").write_text("other\n")
    (home / ".prefix" / "secret").write_text("a secret\n")
    (bin_ / "t").symlink_to("../../.prefix/lib/node_modules/tool/bin/t")
    (bin_ / "credentials.json").write_text("a secret\n")
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    ran = sandbox_of(home).run_sync(
        "x; t; cat ~/.prefix/secret ~/.local/bin/credentials.json ~/.local/state/tool/token 2>/dev/null"
    )
    assert ran.text == "data\nother\n"


def test_nothing_in_the_work_directory_widens_the_view(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a link where an interpreter would be, nor one in a search path below it, nor a variable of a command."""
    sandbox = sandbox_of(home)
    work = sandbox.root
    monkeypatch.setenv("PATH", f"{work}/node_modules/.bin:{os.environ['PATH']}")
    sandbox.run_sync(
        "mkdir -p venv/bin .venv/bin node_modules/.bin; ln -s ~/.config venv/bin/python; "
        "ln -s ~/.ssh/id_rsa .venv/bin/python; ln -s ~/.config/foo/keys.json node_modules/.bin/x"
    )
    env = {"GOPATH": f"{home}/.config", "PATH": f"{home}/.ssh:/usr/bin:/bin"}
    ran = sandbox.run_sync("cat ~/.config/foo/keys.json ~/.ssh/id_rsa", env=env)
    assert "a secret" not in ran.text


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "GOPATH", "PATH"])
def test_a_link_in_the_work_directory_shows_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A place of tools there is usual. A command can put a link in its place, and where that leads stays hidden."""
    sandbox = sandbox_of(home)
    tools = sandbox.root / "tools"
    (tools / "bin").mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin" / "tool").symlink_to(tools / "bin" / "tool")
    named = f"{home}/bin:{tools}/bin:{os.environ['PATH']}" if variable == "PATH" else str(tools)
    monkeypatch.setenv(variable, named)
    for target in ("~/.config", "~/.config/gh", "~"):
        sandbox.run_sync(f"rm -rf tools; ln -s {target} tools")
        assert sandbox.run_sync("grep -rhs secret ~ tools/").text == ""
    sandbox.run_sync("rm tools; mkdir -p tools/bin; ln -s ~/.claude.json tools/bin/tool")
    assert sandbox.run_sync("cat ~/.claude.json tools/bin/tool; ls -A ~").text.count("secret") == 0


PLANTED = {
    "PATH": "mkdir -p tools/bin; ln -s ~/.ssh/id_rsa tools/bin/x; ln -s ~/.config/run tools/bin/y",
    "PATH, the directory": "mkdir tools; ln -s ~/.config tools/bin",
    "VIRTUAL_ENV": "ln -s ~/.config tools",
    "VIRTUAL_ENV, its parent": "ln -s ~ tools",
    "SHOW": "ln -s ~/.ssh tools",
}


@pytest.mark.parametrize("way", PLANTED)
@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_a_link_that_a_command_left_in_another_project_shows_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, way: str, place: str
) -> None:
    """`node_modules/.bin` of one project on the search path, or its environment, and a command in another one."""
    program = home / ".config" / "run"
    program.write_text("echo a secret\n")
    program.chmod(0o755)
    first, second = home / "projects" / "first", home / "projects" / "second"
    for path in (first, second):
        path.mkdir(parents=True)
    named = first / "tools" / ".config" if way.endswith("parent") else first / "tools"
    if way.startswith("PATH"):
        monkeypatch.setenv("PATH", f"{named}/bin:{os.environ['PATH']}")
    elif way.startswith("VIRTUAL_ENV"):
        monkeypatch.setenv("VIRTUAL_ENV", str(named))
    shown = (home.parent, *((named,) if way == "SHOW" else ()))
    paths = SandboxPaths(show=shown)
    Sandbox(first, "required", paths=paths).run_sync(PLANTED[way])
    assert list(first.iterdir())
    ran = Sandbox(second, "required", paths=paths).run_sync(
        "grep -rhs 'a secret' ~; ls -A ~/.ssh ~/.config",
        place=place,  # type: ignore[arg-type]
    )
    assert "secret" not in ran.text
    assert "id_rsa" not in ran.text


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "PATH"])
def test_a_link_that_a_command_left_in_the_home_shows_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Where the home is the work directory, commands can write `.venv` there, as in a project."""
    (home / ".ssh" / "bin").mkdir(parents=True, exist_ok=True)
    (home / ".ssh" / "work").write_text("a secret\n")
    (home / ".venv" / "bin").mkdir(parents=True)
    second = home / "projects" / "second"
    second.mkdir(parents=True)
    value = {"VIRTUAL_ENV": f"{home}/.venv", "PATH": f"{home}/.venv/bin:{os.environ['PATH']}"}
    monkeypatch.setenv(variable, value[variable])
    paths = SandboxPaths(show=(home.parent,))
    Sandbox(home, "required", paths=paths).run_sync("mv .venv v; ln -s .ssh .venv")
    assert (home / ".venv").is_symlink()
    ran = Sandbox(second, "required", paths=paths).run_sync("grep -rhs 'a secret' ~ ~/.ssh")
    assert "secret" not in ran.text


def test_a_link_of_the_users_to_a_file_that_is_no_program_shows_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what can be executed is a program; a file with keys is not."""
    bin_ = home / ".local" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "key").symlink_to(home / ".ssh" / "id_rsa")
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    assert "a secret" not in sandbox_of(home).run_sync("cat ~/.local/bin/key ~/.ssh/id_rsa").text


@pytest.fixture
def profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of programs of a profile, as Nix and Guix make one: by links in a directory of the user's."""
    installed, profiles = home.parent / "store" / "tool-1", home.parent / "profiles"
    (installed / "bin").mkdir(parents=True)
    (installed / "bin" / "tool").write_text("#!/bin/sh\necho ran\n")
    (installed / "bin" / "tool").chmod(0o755)
    profiles.mkdir()
    (profiles / "profile").symlink_to("profile-1-link")
    (profiles / "profile-1-link").symlink_to(installed)
    (home / ".nix-profile").symlink_to(profiles / "profile")
    monkeypatch.setenv("PATH", f"{home}/.nix-profile/bin:{os.environ['PATH']}")
    return home / ".nix-profile" / "bin"


def test_programs_of_a_store_are_shown_by_the_links_of_the_user(
    home: Path, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever made the links: everybody can read what is in there."""
    monkeypatch.setattr(home_module, "STORES", (str(home.parent / "store"),))
    assert sandbox_of(home).run_sync("tool").text == "ran\n"
    known = homes()
    assert hidden_programs(known, needed_paths(("/elsewhere",), known, os.environ)) == []


def test_a_directory_of_the_search_path_may_lie_behind_links(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links in hidden entries are there for commands too, one behind the other."""
    (home / ".opt" / "bin").mkdir(parents=True)
    (home / ".opt" / "bin" / "tool").write_text("#!/bin/sh\necho ran\n")
    (home / ".opt" / "bin" / "tool").chmod(0o755)
    (home / ".local" / "state" / "tools").symlink_to(home / ".opt")
    (home / ".tools").symlink_to(".local/state/tools")
    (home / ".config" / "tools").symlink_to("../.tools")
    for link in (".tools", ".config/tools"):
        monkeypatch.setenv("PATH", f"{home}/{link}/bin:{os.environ['PATH']}")
    ran = sandbox_of(home).run_sync("~/.tools/bin/tool; ~/.config/tools/bin/tool")
    assert ran.text == "ran\nran\n"


def test_programs_of_a_directory_that_is_hidden_are_listed(home: Path, profile: Path) -> None:
    """Also if the programs are links to places that are not hidden."""
    assert sandbox_of(home).run_sync("tool").exit_code == 127
    known = homes()
    found = hidden_programs(known, needed_paths(("/elsewhere",), known, os.environ))
    assert str(profile / "tool") in found


def test_an_environment_of_a_project_finds_its_interpreter(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a link that a command could have made, to a place that is seen anyway: where uv and pyenv put them."""
    for place in (".local/share/uv/python/cpython-3", ".pyenv/versions/3"):
        python = home / place / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho ran\n")
        python.chmod(0o755)
        venv = home / "project" / ".venv"
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").symlink_to(python)
        monkeypatch.setenv("VIRTUAL_ENV", str(venv))
        monkeypatch.setenv("PATH", f"{venv}/bin:{os.environ['PATH']}")
        paths = SandboxPaths(show=(home.parent,))
        assert Sandbox(venv.parent, "required", paths=paths).run_sync("python").text == "ran\n"
        assert sandbox_of(home).run_sync("python").text == "ran\n"
        shutil.rmtree(venv)


@pytest.mark.parametrize("is_work", [False, True], ids=["beside the work directory", "as it"])
def test_a_hidden_entry_that_leads_into_the_home_is_hidden_there(home: Path, is_work: bool) -> None:
    """People keep their files in a directory of their own, and link them."""
    dotfiles = home / "dotfiles"
    shutil.rmtree(home / ".aws")
    (dotfiles / "aws").mkdir(parents=True)
    (dotfiles / "aws" / "credentials").write_text("a secret")
    (dotfiles / "netrc").write_text("a secret")
    (home / ".netrc").unlink()
    (home / ".aws").symlink_to("dotfiles/aws")
    (home / ".netrc").symlink_to("dotfiles/netrc")
    sandbox = Sandbox(home, "required") if is_work else sandbox_of(home)
    for place in ("read-only",) if is_work else ("workspace", "read-only"):
        ran = sandbox.run_sync("grep -rhs secret ~/dotfiles ~/.aws/ ~/.netrc", place=place)  # type: ignore[arg-type]
        assert ran.text == ""


def test_a_home_of_tools_may_be_a_link(home: Path) -> None:
    """Its credentials are hidden where it leads, and the sandbox works."""
    (home / ".data").mkdir()
    (home / ".cargo").rename(home / ".data" / "cargo")
    (home / ".cargo").symlink_to(home / ".data" / "cargo")
    ran = sandbox_of(home).run_sync(
        "cat ~/.cargo/credentials.toml ~/.data/cargo/credentials.toml; echo ran"
    )
    assert ran.text.endswith("ran\n")
    assert "a secret" not in ran.text


def test_what_variables_name_is_shown_and_credentials_in_it_are_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CARGO_HOME and its like, by their defaults too."""
    (home / ".cargo" / "registry").mkdir()
    (home / ".cargo" / "registry" / "index").write_text("index\n")
    command = "cat ~/.cargo/registry/index; cat ~/.cargo/credentials.toml"
    assert sandbox_of(home).run_sync(command).text == "index\n"
    moved = home / ".tools" / "cargo"
    moved.parent.mkdir()
    (home / ".cargo").rename(moved)
    monkeypatch.setenv("CARGO_HOME", str(moved))
    assert sandbox_of(home).run_sync(command.replace("~/.cargo", str(moved))).text == "index\n"


def test_the_interpreter_that_runs_us_is_there(home: Path) -> None:
    """Wherever it is installed."""
    ran = sandbox_of(home).run_sync([sys.executable, "-c", "import json; print(json.dumps(1))"])
    assert ran.text == "1\n"


def test_paths_can_be_shown(home: Path) -> None:
    """By name, read-only; what is beside them stays hidden. One command can be given more."""
    sandbox = sandbox_of(home, show=("~/.config/foo",))
    assert sandbox.run_sync(
        "cat ~/.config/foo/keys.json; cat ~/.config/anything/else"
    ).text.startswith("a secret")
    assert sandbox.run_sync("echo x > ~/.config/foo/keys.json").exit_code != 0
    plain = sandbox_of(home)
    shown = plain.run_sync(
        "cat ~/.ssh/id_rsa; ls -A ~", grant=SandboxGrant(reveal=("~/.ssh",))
    ).text
    assert shown.startswith("a secret\n")
    assert ".aws" not in shown


def test_a_work_directory_inside_a_hidden_entry_is_usable(home: Path) -> None:
    """It is seen and written; its neighbours are not seen."""
    work = home / ".config" / "project"
    work.mkdir()
    sandbox = Sandbox(work, "required", paths=SandboxPaths(show=(home.parent,)))
    ran = sandbox.run_sync("echo x > new; cat new; cat ../foo/keys.json ../anything/else")
    assert ran.text.startswith("x\n")
    assert "a secret" not in ran.text
    assert (work / "new").read_text() == "x\n"


def test_a_home_that_is_the_work_directory_hides_its_entries(home: Path) -> None:
    """All but those of projects, such as .git and .gitignore."""
    (home / ".gitignore").write_text("shown\n")
    sandbox = Sandbox(home, "required")
    ran = sandbox.run_sync("grep -rl 'a secret' .; cat .gitignore; cat Documents/letter")
    assert ran.text == "shown\na letter\n"
    assert (home / ".ssh" / "id_rsa").read_text() == "a secret\n"


@pytest.mark.parametrize("where", ["/usr/sbin", "/var", "/dev"])
def test_a_home_that_is_of_the_system_hides_nothing_of_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users who are services have such homes; what is emptied there stays empty."""
    monkeypatch.setenv("HOME", where)
    (tmp_path / "work").mkdir()
    sandbox = Sandbox(tmp_path / "work", "required", paths=SandboxPaths(show=(tmp_path,)))
    ran = sandbox.run_sync("ls /usr/sbin; ls -d /dev/null /var/lib; ls -A /var/tmp")
    names = sorted(os.listdir("/usr/sbin"))
    assert ran.exit_code == 0
    assert sorted(ran.text.split()) == sorted([*names, "/dev/null", "/var/lib"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write in /srv")
@pytest.mark.parametrize("home_is", ["in the work directory", "of many entries"])
def test_a_file_that_a_hidden_link_leads_to_is_hidden_where_entries_are_hidden_one_by_one(
    home: Path, home_is: str
) -> None:
    """The link itself cannot be hidden. A program of the system that one leads to runs all the same."""
    with tempfile.TemporaryDirectory(dir="/srv") as vault:
        (Path(vault) / "netrc").write_text("a secret\n")
        (home / ".netrc").unlink()
        (home / ".netrc").symlink_to(Path(vault) / "netrc")
        (home / ".shell").symlink_to("/bin/bash")
        if home_is == "of many entries":
            for number in range(1001):
                (home / str(number)).touch()
            sandbox = sandbox_of(home)
        else:
            sandbox = Sandbox(home.parent, "required")
        assert sandbox.run_sync("cat ~/.netrc; echo done").text == "done\n"
        assert (Path(vault) / "netrc").read_text() == "a secret\n"


IN_NEW_ROOT = """
    set -e; mount -t tmpfs none "$1"; cd "$1"
    for each in /*; do
        name=${each#/}
        if [ -L "$each" ]; then cp -P "$each" "$name"
        elif [ -d "$each" ]; then mkdir "$name"; mount --rbind "$each" "$name"; fi
    done
    mkdir -p .ssh .tools/bin .work old; echo 'a secret' | tee .ssh/key > .netrc
    echo 'echo a tool' > .tools/bin/tool; chmod +x .tools/bin/tool
    pivot_root . old; cd /; umount -l old; exec "$2" -c "$3"
"""
LOOK = """
import os
from hookline.containment import Sandbox
os.environ.update(HOME="/", PATH="/.tools/bin:/usr/bin:/bin")
ran = Sandbox("/.work", "required").run_sync(
    "tool; ls -A /.ssh; cat /.netrc; echo x > file; cat file; ls -d /usr /etc"
)
print(ran.text, end="")
"""


def test_a_home_that_is_the_root_hides_its_entries(tmp_path: Path) -> None:
    """Some containers and services have `HOME=/`; its hidden entries are covered one by one, and nothing else."""
    printed = in_mounts_of_its_own(IN_NEW_ROOT, tmp_path, sys.executable, LOOK)
    assert printed == "a tool\nx\n/etc\n/usr\n"


def test_a_home_that_is_mounted_in_a_second_place_is_hidden_there(home: Path) -> None:
    """Whether it was mounted itself or with a directory that holds it; the rest is seen in both places."""
    (home.parent / "again").mkdir()
    (home.parent / "all of it").mkdir()
    look = f"""
from hookline.containment import Sandbox, SandboxPaths
paths = SandboxPaths(show=({str(home.parent)!r},))
ran = Sandbox({str(home.parent / "work")!r}, "required", paths=paths).run_sync(
    "cd ..; cat again/Documents/letter all*/home/Documents/letter; cat again/.netrc all*/home/.netrc"
)
print(ran.text, end="")
"""
    (home.parent / "work").mkdir()
    script = """
        cd "$1"; mount --bind . "all of it" && mount --bind home again && exec "$2" -c "$3"
    """
    printed = in_mounts_of_its_own(script, home.parent, sys.executable, look)
    assert printed.count("a letter\n") == 2
    assert "a secret" not in printed


def test_programs_whose_place_is_hidden_are_listed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a link to nowhere that is shown, or by an interpreter that is not."""
    bin_ = home / ".local" / "bin"
    bin_.mkdir(parents=True)
    hidden = home / ".hidden" / "python"
    hidden.parent.mkdir()
    hidden.write_text("")
    (bin_ / "script").write_text(f"#!{hidden}\n")
    (bin_ / "plain").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(bin_))
    known = homes()
    found = hidden_programs(known, needed_paths(("/elsewhere",), known, os.environ))
    assert found == [str(bin_ / "script")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can put another password file in place")
def test_homes_of_the_password_file_are_hidden(home: Path, tmp_path: Path) -> None:
    """Those of people, whose files root can read wherever they are; and our own, whatever HOME says."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for directory in (ours, theirs):
        (directory / ".config").mkdir(parents=True)
        (directory / ".config" / "token").write_text("a secret\n")
        (directory / "letter").write_text("a letter\n")
    passwords = tmp_path / "passwd"
    passwords.write_text(
        f"root:x:0:0::{ours}:/bin/sh\nservice:x:999:999::/:/bin/sh\nann:x:1000:1000::{theirs}:/bin/sh\n"
    )
    (tmp_path / "work").mkdir()
    program = (
        "import sys; from hookline.containment import Sandbox, SandboxPaths; "
        f"box = Sandbox({str(tmp_path / 'work')!r}, 'required', paths=SandboxPaths(show=({str(tmp_path)!r},))); "
        f"print(box.run_sync('cat {ours}/.config/token {theirs}/.config/token ~/.netrc; cat {theirs}/letter').text)"
    )
    around = f'mount --bind {passwords} /etc/passwd && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", around, "sh", sys.executable, "-c", program]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if "unshare:" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip("mounting is not allowed here")
    assert ran.returncode == 0, ran.stderr
    assert "a letter" in ran.stdout
    assert "a secret" not in ran.stdout


# --- environment files --------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with environment files, ignored, tracked and deep."""
    work = tmp_path / "project"
    (work / "deploy").mkdir(parents=True)
    for name in (".env", ".env.local", "deploy/prod.env", "tracked.env"):
        (work / name).write_text("KEY=a-secret\n")
    (work / ".env.example").write_text("KEY=example\n")
    subprocess.run(["git", "init", "-q", work], check=True)
    subprocess.run(["git", "-C", work, "add", "tracked.env", ".env.example"], check=True)
    identity = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "-C", work, *identity, "commit", "-qm", "x"], check=True)
    return work


@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_environment_files_are_invisible(project: Path, place: str) -> None:
    """Whatever program looks, at any depth; they read as empty. A sample is seen."""
    sandbox = Sandbox(project, "required")
    ran = sandbox.run_sync(
        "cat .env .env.local deploy/prod.env tracked.env; grep -rn a-secret --exclude-dir=.git .; cat .env.example",
        place=place,  # type: ignore[arg-type]
    )
    assert ran.text == "KEY=example\n"


def test_environment_files_cannot_be_changed_or_committed_empty(project: Path) -> None:
    """An empty file in the place of a tracked one must not get into a commit."""
    ran = Sandbox(project, "required").run_sync(
        "echo x > .env; rm -f .env .env.local; mv deploy/prod.env x; git -c user.name=x -c user.email=x@x commit -qam y"
    )
    assert ran.exit_code != 0
    assert (project / ".env").read_text() == "KEY=a-secret\n"
    assert (project / "tracked.env").read_text() == "KEY=a-secret\n"
    shown = subprocess.run(
        ["git", "-C", project, "show", "HEAD:tracked.env"], capture_output=True, text=True
    )
    assert shown.stdout == "KEY=a-secret\n"


def test_environment_files_of_other_projects_are_hidden(home: Path) -> None:
    """Up to three directories deep below a home; a sample is seen."""
    for name in ("one/.env", "code/two/.env.local", "code/group/three/prod.env"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("KEY=a-secret\n")
    (home / "one" / ".env.example").write_text("KEY=example\n")
    sandbox = sandbox_of(home)
    assert sandbox.run_sync("grep -rh KEY ~").text == "KEY=example\n"
    (home / "code" / "four").mkdir()
    (home / "code" / "four" / ".env").write_text("KEY=a-secret\n")
    assert sandbox.run_sync("grep -rh KEY ~").text == "KEY=example\n"


def test_environment_files_are_found_everywhere(project: Path) -> None:
    """Below directories of configuration, and where one is a link to a file with another name."""
    (project / ".devcontainer").mkdir()
    (project / ".devcontainer" / ".env").write_text("KEY=a-secret\n")
    (project / "settings").write_text("KEY=a-secret\n")
    (project / ".env.linked").symlink_to("settings")
    ran = Sandbox(project, "required").run_sync("cat .devcontainer/.env .env.linked settings")
    assert ran.text == ""


@pytest.mark.parametrize("where", ["workspace", "read-only"])
@pytest.mark.parametrize("mode", [0, 0o100, 0o311])
def test_environment_files_are_hidden_where_nobody_can_list_them(
    place: Place, mode: int, where: str
) -> None:
    """Who knows the name reads a file in a directory that cannot be listed, or gives itself the right to."""
    closed = place.work / "closed"
    closed.mkdir()
    for path in (closed / ".env", place.work / ".env"):
        path.write_text("KEY=a-secret\n")
    place.own()
    closed.chmod(mode)
    ran = place.run(
        "cat closed/.env .env; chmod 0755 closed; cat closed/.env .env; cp -r closed copied; cat copied/.env",
        where=where,
    )
    assert "a-secret" not in ran.text


def test_environment_files_can_be_shown(project: Path) -> None:
    """For all commands by a name or a path, or to one command."""
    command = "cat .env deploy/prod.env"
    by_name = Sandbox(project, "required", paths=SandboxPaths(show=(".env",)))
    assert by_name.run_sync(command).text == "KEY=a-secret\n"
    by_path = Sandbox(project, "required", paths=SandboxPaths(show=("deploy/prod.env",)))
    assert by_path.run_sync(command).text == "KEY=a-secret\n"
    plain = Sandbox(project, "required")
    granted = plain.run_sync(command, grant=SandboxGrant(reveal=(str(project / ".env"),)))
    assert granted.text == "KEY=a-secret\n"
    assert plain.run_sync(command).text == ""


@dataclass(frozen=True)
class Hidden:
    """What hides `conf/deep/settings` of a work directory, and a command that tries to end that."""

    first: str
    links: Mapping[str, str] = field(default_factory=dict)
    hide: str = ""
    variable: str = ""
    refuses: bool = True
    """Whether the command fails; else what it did is undone."""


MOVED = {
    "a link": Hidden("mv conf c2", {".env": "conf/deep/settings"}),
    "a link that is removed": Hidden("rm .env", {".env": "conf/deep/settings"}, refuses=False),
    "a link that is replaced": Hidden(
        "rm .env; echo x > .env", {".env": "conf/deep/settings"}, refuses=False
    ),
    "a link in a directory": Hidden(
        "mkdir -p a/b; mv sub a/b/", {"sub/.env": "../conf/deep/settings"}
    ),
    "a link by another one": Hidden(
        "rm now; mkdir now", {".env": "now/settings", "now": "conf/deep"}, refuses=False
    ),
    "a link by a directory that it leaves": Hidden(
        "mv conf/way c2", {".env": "conf/way/../deep/settings"}
    ),
    "a link in another directory": Hidden(
        "mv conf c2", {"../other/.env": "../work/conf/deep/settings"}
    ),
    "a link of another project": Hidden(
        "mv conf c2", {"../home/p/.env": "../../work/conf/deep/settings"}
    ),
    "hide=": Hidden("mv conf c2", hide="conf/deep/settings"),
    "hide= of a directory": Hidden("mv conf c2", hide="conf/deep"),
    "hide= by a pattern": Hidden("mv conf c2", hide="c*/de*/set*"),
    "hide= by a link": Hidden("rm now", {"now": "conf/deep"}, hide="now/settings", refuses=False),
    "a variable": Hidden("mv conf c2", variable="conf/deep/settings"),
    "a variable by a link": Hidden(
        "rm now", {"now": "conf/deep"}, variable="now/settings", refuses=False
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_is_hidden_stays_so_whatever_the_command_before_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By its path, which a command would change by a directory above, or by a link."""
    case, work = MOVED[name], tmp_path / "work"
    for path in (
        work / "conf" / "deep",
        work / "conf" / "way",
        tmp_path / "other",
        tmp_path / "home" / "p",
    ):
        path.mkdir(parents=True)
    (work / "conf" / "deep" / "settings").write_text("a-secret\n")
    for link, target in case.links.items():
        (work / link).parent.mkdir(exist_ok=True)
        (work / link).symlink_to(target)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if case.variable:
        monkeypatch.setenv("KUBECONFIG", str(work / case.variable))
    paths = SandboxPaths(
        show=(tmp_path,), write=(tmp_path / "other",), hide=(work / case.hide,) if case.hide else ()
    )
    sandbox = Sandbox(work, "required", paths=paths)
    look = "grep -rhs a-secret . ../other; true"
    assert sandbox.run_sync(look).text == ""
    assert bool(sandbox.run_sync(case.first).exit_code) is case.refuses
    assert sandbox.run_sync(look).text == ""
    assert {link: os.readlink(work / link) for link in case.links} == case.links
    assert (work / "conf" / "deep" / "settings").read_text() == "a-secret\n"


@pytest.mark.parametrize("place", ["workspace", "read-only"])
async def test_a_link_that_a_running_command_removed_is_back_before_the_next(
    project: Path, place: str
) -> None:
    """What it leads to is hidden from the one that starts now."""
    (project / "settings").write_text("a-secret\n")
    (project / "x.env").symlink_to("settings")
    sandbox, gone = Sandbox(project, "required"), asyncio.Event()
    running = await sandbox.start("rm x.env; echo gone; sleep 60", on_output=lambda _: gone.set())
    await gone.wait()
    assert (await sandbox.run("cat settings x.env", place=place)).text == ""  # type: ignore[arg-type]
    running.kill()
    await running.wait()


def test_a_link_that_is_shown_can_be_removed(project: Path) -> None:
    """It hides nothing, so nobody makes it again."""
    (project / "settings").write_text("a-setting\n")
    (project / "x.env").symlink_to("settings")
    sandbox = Sandbox(project, "required", paths=SandboxPaths(show=("x.env",)))
    assert sandbox.run_sync("cat settings; rm x.env").text == "a-setting\n"
    assert not (project / "x.env").is_symlink()


def test_a_tracked_file_that_is_hidden_is_not_committed_empty(project: Path) -> None:
    """Whatever hides it."""
    (project / "keys").write_text("a-secret\n")
    subprocess.run(["git", "-C", project, "add", "keys"], check=True)
    sandbox = Sandbox(project, "required", paths=SandboxPaths(hide=(project / "keys",)))
    assert sandbox.run_sync("cat keys; git add keys").exit_code != 0
    staged = ["git", "-C", project, "diff", "--quiet", "keys"]
    assert subprocess.run(staged, check=False).returncode == 0


def test_directories_of_browsers_cannot_be_moved_in_a_home_that_is_the_work_directory(
    home: Path,
) -> None:
    """They are hidden by their path, which does not begin with a dot."""
    (home / "snap" / "firefox" / "p").mkdir(parents=True)
    (home / "snap" / "firefox" / "p" / "logins.json").write_text("a secret\n")
    sandbox = Sandbox(home, "required")
    assert sandbox.run_sync("mv snap s2").exit_code != 0
    assert sandbox.run_sync("grep -rhs 'a secret' s*").text == ""


@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_credentials_that_links_of_the_home_lead_to_are_hidden_in_the_work_directory(
    home: Path, place: str
) -> None:
    """By the name of the link, or their own; the rest is what commands work on."""
    dotfiles = home / "dotfiles"
    for name in ("aws/any", "gh/credentials.json", "netrc", "vimrc", "x/aws/credentials"):
        (dotfiles / name).parent.mkdir(parents=True, exist_ok=True)
        (dotfiles / name).write_text("a secret\n")
    for name, target in {
        ".aws": "aws",
        ".config/gh": "gh",
        ".netrc": "netrc",
        ".vimrc": "vimrc",
    }.items():
        if (home / name).is_dir():
            shutil.rmtree(home / name)
        (home / name).unlink(missing_ok=True)
        (home / name).symlink_to(dotfiles / target)
    sandbox = Sandbox(dotfiles, "required", paths=SandboxPaths(show=(home.parent,)))
    for _ in range(2):
        ran = sandbox.run_sync("grep -rls 'a secret' .; mv gh g2; mv netrc n2", place=place)  # type: ignore[arg-type]
        assert ran.exit_code != 0
        assert sorted(line for line in ran.text.splitlines() if line[0] == ".") == [
            "./vimrc",
            "./x/aws/credentials",
        ]
    shown = SandboxPaths(show=(home.parent, "~/dotfiles/aws"))
    assert Sandbox(dotfiles, "required", paths=shown).run_sync("cat aws/any").text == "a secret\n"


@pytest.mark.parametrize("place", ["workspace", "read-only"])
def test_environment_files_that_are_too_deep_or_no_files_are_hidden(
    project: Path, place: str
) -> None:
    """A directory that is too deep is empty, and a pipe of that name cannot be read."""
    deep = project.joinpath(*["d"] * 105)
    deep.mkdir(parents=True)
    (deep / ".env").write_text("TOKEN=secret")
    (project / "pipes").mkdir()
    os.mkfifo(project / "pipes" / "prod.env")
    sandbox = Sandbox(project, "required")
    ran = sandbox.run_sync("grep -rs TOKEN .; cat pipes/prod.env; echo done", place=place)  # type: ignore[arg-type]
    assert ran.text == "done\n"


def test_a_link_with_such_a_name_hides_no_program_of_the_system(project: Path) -> None:
    """A command could make one, and nothing would start any more."""
    sandbox = Sandbox(project, "required")
    sandbox.run_sync("ln -s /bin/bash x.env; ln -s /usr/bin/env y.env")
    assert sandbox.run_sync("env true && echo done").text == "done\n"


def test_what_is_to_be_hidden_is_hidden_in_a_work_directory_below_an_emptied_one() -> None:
    """As below /tmp, which commands see empty but for the work directory; also in a directory that is kept."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        for name in ("data", ".hookline/journal"):
            (Path(made) / name).mkdir(parents=True)
            (Path(made) / name / "file").write_text("a-secret\n")
        hide = (f"{made}/data", f"{made}/.hookline/journal")
        sandbox = Sandbox(made, "required", paths=SandboxPaths(hide=hide))
        ran = sandbox.run_sync("cat data/file .hookline/journal/file; ls -A data .hookline/journal")
    assert "a-secret" not in ran.text
    assert ran.text.endswith(".hookline/journal:\n\ndata:\n")


AS_NOBODY = """
import os, sys
from hookline.containment.sandbox.mounts import is_open_to_us
os.setgroups([])
os.setegid(65534)
os.seteuid(65534)
print([is_open_to_us(path) for path in sys.argv[1:]])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_what_is_closed_to_us_need_not_be_hidden() -> None:
    """Neither a file that we cannot read nor a directory that we cannot enter; but what is ours we can open."""
    modes = {
        "closed": 0o640,
        "open": 0o644,
        "own": 0o000,
        "closed-dir": 0o700,
        "entered-dir": 0o711,
    }
    with tempfile.TemporaryDirectory() as made:  # not below a directory that others cannot enter
        place = Path(made)
        place.chmod(0o755)
        for name, mode in modes.items():
            path = place / name
            path.mkdir() if name.endswith("-dir") else path.touch()
            path.chmod(mode)
        os.chown(place / "own", 65534, 65534)
        paths = [str(place / name) for name in modes]
        said = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, *paths], capture_output=True, text=True, check=True
        )
    assert said.stdout == "[False, True, True, False, True]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read files of others")
def test_private_files_of_root_in_the_homes_of_others_are_hidden(tmp_path: Path) -> None:
    """The home of a service below /var holds a file of root's."""
    work, app = tmp_path / "work", tmp_path / "opt/app"
    for each in (work, app):
        each.mkdir(parents=True)
    for each in (tmp_path, *tmp_path.parents[:2], app.parent, app):
        each.chmod(0o755)
    (app / "server.conf").write_text("a secret\n")
    (app / "server.conf").chmod(0o600)
    look = f"""
from hookline.containment.sandbox import Sandbox, home
usual = home.homes
home.homes = lambda: [*usual(), "/var/opt/app"]
print(Sandbox({str(work)!r}, "required").run_sync("ls /var/opt/app; cat /var/opt/app/*").text)
"""
    printed = in_mounts_of_its_own(BOUND, app.parent, "/var/opt", sys.executable, look)
    assert printed.strip() == "server.conf"
