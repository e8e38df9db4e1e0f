"""Words are judged as what they become where they stand, and files as where they lead."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_mounts import BOUND, in_mounts_of_its_own

from hookline.containment import ShellPolicy
from hookline.containment.shell.places import expand
from hookline.containment.shell.secrets import is_secret
from hookline.containment.shell.words import Word

POLICY = ShellPolicy.default()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key in it."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("key")
    (home / ".tool").mkdir()
    (home / ".tool" / "token.yml").write_text("token")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A work directory with plain files in it."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "plain.txt").write_text("x")
    (project / "src" / "a.py").write_text("x")
    return project


def decide(command: str, project: Path, cwd: str = "") -> str:
    """What the policy says of a command in the project."""
    return POLICY.judge(command, root=str(project), cwd=cwd).decision


READERS = (
    "cat {}", "head -5 {}", "grep x {}", "grep -r x {}", "grep -f {} plain.txt", "sed -n 1p {}", "awk 1 {}",
    "wc -l < {}",
    "cat plain.txt {}", "jq . {}", "sort {}", "diff plain.txt {}", "cd src && cat ../{}", "timeout 5 cat ./{}",
    "cat n*", "cat *.txt", "(cd src; tail ../{})", "strings {}",
    "bash -c 'cat {}'", "base64 {}", "rg x {}", "od -c {}",
)  # fmt: skip


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("target", [".ssh/id_rsa", ".tool/token.yml", ".ssh", ".tool"])
def test_a_link_to_a_secret_asks(command: str, target: str, home: Path, project: Path) -> None:
    """`notes.txt -> ~/.ssh/id_rsa` is that key, whatever program shows it and however it is written."""
    text = command.format("notes.txt")
    (project / "notes.txt").write_text("x")
    assert decide(text, project) == "allow"
    (project / "notes.txt").unlink()
    (project / "notes.txt").symlink_to(home / target)
    assert decide(text, project) == "ask"


STEPS = st.lists(
    st.sampled_from(["src/..", ".", "src/../src/..", "loop", "up/project"]), max_size=3
)


@given(
    steps=STEPS,
    command=st.sampled_from(["cat {}", "head {}", "grep -c x {}"]),
    links=st.integers(1, 4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_way_to_a_secret_asks(
    steps: list[str], command: str, links: int, home: Path, project: Path
) -> None:
    """Over several links, and by detours through directories that are links themselves."""
    for name, target in (("loop", "."), ("up", "..")):
        if not (project / name).is_symlink():
            (project / name).symlink_to(target)
    target = home / ".ssh" / "id_rsa"
    for at in range(links):
        link = project / f"step{at}"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        target = link
    text = command.format("/".join([*steps, target.name]))
    assert decide(text, project) == "ask"
    assert decide(command.format("/".join([*steps, "plain.txt"])), project) == "allow"


def test_a_link_of_a_process_asks(project: Path) -> None:
    """`/proc/self/cwd` is another directory to every process, and so is a link that leads there."""
    (project / "here").symlink_to("/proc/self/cwd")
    (project / "three").symlink_to("/proc/self/fd/3")
    for name in ("here/plain.txt", "three", "/proc/net/../fd/3", "/proc/self/cwd/plain.txt"):
        assert decide(f"cat {name}", project) == "ask"


def test_only_four_devices_are_known(home: Path, project: Path) -> None:
    """Every other path below `/dev` may lead through the links of a process, as `/dev/fd/..` does."""
    (project / "fd").symlink_to(home / ".ssh" / "id_rsa")
    for path in ("null", "stdin", "stdout", "stderr"):
        assert decide(f"cat /dev/{path}", project) == "allow"
    for path in (
        "/dev/fd/../cwd/../fd",
        "//dev/stdin",
        "/dev/../dev/fd/3",
        "/dev/tty",
        "/dev/fd/0",
    ):
        assert decide(f"cat {path}", project) == "ask"
    assert decide("cd /dev && cat fd/../cwd/fd", project) == "ask"


@pytest.mark.parametrize("command", ["cat < -", "tac -", "hexdump -C -", "fold -", "cat -"])
def test_a_dash_is_a_file_where_there_is_one(command: str, home: Path, project: Path) -> None:
    """A redirect and some programs take `-` for the file of that name, which may be a link."""
    assert decide(command, project) == "allow"
    (project / "-").symlink_to(home / ".ssh" / "id_rsa")
    assert decide(command, project) == "ask"


@pytest.mark.parametrize("name", [".gitconfig", ".config/git/config"])
def test_the_settings_of_git_in_a_home_ask(name: str, home: Path, project: Path) -> None:
    """They may hold tokens: in headers and addresses."""
    assert decide(f"cat ~/{name}", project) == "ask"


def test_links_in_a_circle_ask(project: Path) -> None:
    """What leads nowhere is not known."""
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    assert decide("cat a", project) == "ask"


def test_a_file_that_is_called_like_an_option_is_one(project: Path) -> None:
    """A pattern is what it finds: `sort *` where a file is called `-oplain.txt` writes."""
    for command in ("sort *", "sort -u *", "uniq *t", "file *", "tree *", "sed 1p *"):
        assert decide(command, project) == "allow"
    (project / "-oplain.txt").write_text("")
    for command in ("sort *", "sed 1p *", "find *", "cat *", "echo *", "sort -- *", "cat -*"):
        assert decide(command, project) == "ask"
    assert decide("sort src/*", project) == "allow"
    assert decide("cat ./*", project) == "allow"


def test_no_program_takes_an_option_from_the_disk(project: Path) -> None:
    """`-R` follows links, and `--include=*.py` is itself unless a file is called so."""
    assert decide("grep '' *", project) == "allow"
    (project / "-R").touch()
    assert decide("grep '' *", project) == "ask"
    assert decide("grep -rn x --include=*.py", project) == "allow"
    (project / "--include=x.py").touch()
    assert decide("grep -rn x --include=*.py", project) == "ask"


def test_a_pattern_where_a_script_belongs_asks(project: Path) -> None:
    """The first file would be the script."""
    for command in ("sed *", "awk *", "grep *", "jq *", "printf *"):
        assert decide(command, project) == "ask"


def test_a_pattern_finds_what_it_must_not_show(home: Path, project: Path) -> None:
    """Files with the names of secrets ask when they are there; so does a pattern that finds nothing yet."""
    assert decide("cat *", project) == "allow"
    for command in ("cat *.pem", "cat *.nothing", "cat [a-z]*"):
        assert decide(command, project) == "ask"
    assert decide("ls *.nothing", project) == "allow"
    (project / "server.key").write_text("key")
    assert decide("cat *", project) == "ask"
    assert decide("cat s*/a.py", project) == "allow"
    (home / "plain").touch()
    assert decide("cat ~/pl*", project) == "allow"
    assert decide("cat ~/.*/*", project) == "ask"


NAMES = [
    "a",
    "ab",
    "b]",
    "[a",
    "[a]",
    "-",
    "é",
    "aé",
    "日本",
    b"\xe9",
    b"a\xe9b",
    b"\xc3\xc3\xa9",
    ".a",
    ".é",
    "=",
    ":a",
]
GLOBS = st.lists(
    st.sampled_from([*"?*[]!^-:=.aé", "[a]", "[[=a=]]", "[[.a.]b]", "[[:alpha:]]"]),
    min_size=1,
    max_size=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with names of all kinds, some of them in no encoding."""
    directory = tmp_path_factory.mktemp("named")
    for name in NAMES:
        (directory / os.fsdecode(name)).touch()
    return directory


@settings(max_examples=60, deadline=None)
@given(GLOBS)
def test_every_name_that_a_shell_finds_is_found(named: Path, pieces: list[str]) -> None:
    """Shells count characters or bytes in a name, by their kind and language."""
    pattern = "".join(pieces)
    found = {word.text for word in expand(Word(pattern, exact=False), str(named)) or ()}
    for shell, language in (("bash", "C"), ("bash", "C.UTF-8"), ("sh", "C.UTF-8")):
        ran = subprocess.run(
            [shell, "-c", f"printf '%s\\0' {pattern}"],
            cwd=named,
            env={"LC_ALL": language, "PATH": os.defpath},
            capture_output=True,
            check=True,
        )
        assert {os.fsdecode(each) for each in ran.stdout.split(b"\0") if each} - {pattern} <= found


@pytest.mark.parametrize("name", ["é", "日", b"\xe9\xe9"])
@pytest.mark.parametrize("command", ["cat ??", "sh -c 'cat ??'", "cat ???"])
def test_a_link_by_any_name_that_a_pattern_may_find_asks(
    home: Path, project: Path, name: str | bytes, command: str
) -> None:
    """`??` finds a name of two bytes, which may be one letter."""
    for plain in ("ab", "abc"):
        (project / plain).touch()
    assert decide(command, project) == "allow"
    (project / os.fsdecode(name)).symlink_to(home / ".ssh" / "id_rsa")
    assert decide(command, project) == "ask"


def test_a_pattern_with_many_stars_is_done_with(project: Path) -> None:
    """It takes no longer than its length times that of the name."""
    (project / ("a" * 200)).touch()
    assert decide(f"ls {'*a' * 30}*b", project) == "allow"


def test_too_many_files_ask(project: Path) -> None:
    """A pattern that finds more than can be looked at is not known."""
    for at in range(1_100):
        (project / f"f{at}").touch()
    assert decide("cat f*", project) == "ask"
    assert decide("cat f10*", project) == "allow"


def test_the_directory_is_no_known_value(tmp_path: Path) -> None:
    """Its name may be a program for awk."""
    odd = tmp_path / '1;BEGIN{system("touch P")}'
    odd.mkdir()
    assert POLICY.judge('awk "$PWD"', root=str(odd)).decision == "ask"
    assert POLICY.judge("awk $PWD", root=str(odd)).decision == "ask"


def test_every_place_where_a_line_may_stand_counts(home: Path, project: Path) -> None:
    """A `cd` may fail: what follows is judged from both directories; where it leads nowhere known, it asks."""
    assert decide("cd src; cat a.py", project) == "allow"
    assert decide("cd ~/.ssh; cat config", project) == "ask"
    assert decide("cat config", project, cwd="~/.ssh") == "ask"
    assert decide("cd ~/.ssh || cat config", project) == "ask"
    (project / "away").symlink_to(home / ".ssh")
    assert decide("cd away && cat config", project) == "ask"
    assert decide("cd away && cat ../plain.txt", project) == "allow"
    assert decide("cd - && cat x", project) == "ask"
    assert decide("command cd ~/.ssh; cat config", project) == "ask"
    assert decide("bash -c 'cd ~/.ssh'; cat config", project) == "ask"
    assert decide("cd s* && cat a.py", project) == "ask"
    assert decide("cd a; cd b; cd c; cd d; cat x", project) == "ask"


@pytest.mark.parametrize("state", [".local/state", ".kept"])
def test_long_output_may_be_read_where_it_is(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """In the directory of our state, wherever that is; the rest of it asks."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / state))
    is_secret.cache_clear()
    assert decide(f"tail ~/{state}/hookline/tmp/x/command-1.txt", project) == "allow"
    assert decide(f"tail ~/{state}/hookline/x", project) == "ask"


def test_a_search_through_a_home_asks(home: Path, project: Path) -> None:
    """What lies somewhere below is not known."""
    for command in ("grep -r KEY ~", "rg KEY ~", "cd && rg KEY", "grep -r KEY /", "rg KEY ../home"):
        assert decide(command, project) == "ask"
    for command in ("grep -rh . {}", "rg -N . {}", "find {} -type f -print0 | xargs -0 cat"):
        for place in ("~/.cargo", "~/.config/git", "~/.vim", "/root/.cargo", "/home/a/.cargo/x"):
            assert decide(command.format(place), project) == "ask"
    for place in ("~/..", "..", str(home.parent)):  # the home lies in it
        for command in ("grep -r KEY {}", "rg --hidden KEY {}", "cd {} && grep -r KEY ."):
            assert decide(command.format(place), project) == "ask"
        assert decide(f"find {place} -type f -print0 | xargs -0 cat", project) == "ask"
    assert decide("cat ~/.vim/vimrc", project) == "ask"
    assert decide("cat ~/.cargo/registry/x.rs", project) == "allow"
    assert decide("rg KEY", project) == "allow"
    assert decide("diff src .", project) == "ask"


def test_a_home_that_is_mounted_a_second_time_is_a_home_there(home: Path, project: Path) -> None:
    """What begins with a dot asks, and so does a search through it or through what holds it."""
    (home / "plain").touch()
    second = home.parent / "second" / "home"
    second.mkdir(parents=True)
    look = f"""
from hookline.containment import ShellPolicy
for command in ("cat X/.tool/token.yml", "grep -r KEY X", "grep -r KEY X/..", "cat X/plain"):
    text = command.replace("X", {str(second)!r})
    print(ShellPolicy.default().judge(text, root={str(project)!r}).decision)
"""
    printed = in_mounts_of_its_own(BOUND, home, second, sys.executable, look)
    assert printed.split() == ["ask", "ask", "ask", "allow"]


def test_a_work_directory_inside_a_dot_entry_stays_usable(home: Path) -> None:
    """What is below the work directory is judged from there."""
    inside = home / ".local" / "share" / "project"
    inside.mkdir(parents=True)
    (inside / "x").touch()
    assert decide("cat x", inside) == "allow"
    assert decide("cat ../y", inside) == "ask"


def test_a_home_as_work_directory_is_still_a_home(home: Path) -> None:
    """Its hidden files stay secrets."""
    assert decide("cat .tool/token.yml", home) == "ask"
    assert decide("rg KEY", home) == "ask"


def test_other_homes_are_homes(
    home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system calls our home is one too if `HOME` says something else, as in the sandbox."""
    ours = list(pwd.getpwuid(os.geteuid()))
    ours[5] = str(tmp_path / "data" / "jane")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(ours))
    jane = tmp_path / "data" / "jane"
    (jane / "src").mkdir(parents=True)
    for name in (".claude.json", "src/a.py"):
        (jane / name).write_text("KEY")
    for command in (
        "cat {}/.claude.json",
        "grep -r KEY {}",
        "grep -r KEY {}/.m2",
        "grep -r KEY {}/..",
    ):
        assert decide(command.format(jane), project) == "ask"
    assert decide(f"cat {jane}/src/a.py", project) == "allow"
    assert decide("cat .claude.json", jane) == "ask"
    assert decide("cat src/a.py", jane) == "allow"
    (jane / "src" / "n").symlink_to(jane / ".claude.json")
    reason = POLICY.judge("cat n", root=str(project), cwd=str(jane / "src")).reason
    assert "which leads to ~jane/.claude.json" in reason


@pytest.mark.parametrize(
    ("root", "command"),
    [
        ("/home/a", "cat .claude.json"),
        ("/home/a", "cat .cursor/mcp.json"),
        ("/home", "cat a/.claude.json"),
        ("/home", "grep -r KEY a"),
        ("/root", "cat .claude.json"),
        ("/srv/x", "cat /home/a/snap/firefox/x"),
        ("/srv/x", "cat ~/snap/firefox/x"),
        ("/srv/x", "grep -r KEY ~/snap/chromium/y"),
    ],
)
def test_where_homes_usually_are_the_work_directory_changes_nothing(
    root: str, command: str, home: Path
) -> None:
    """A work directory that is such a home, or has it in it, makes no secret of it plain."""
    assert POLICY.judge(command, root=root).decision == "ask"


def test_xargs_with_a_program_that_takes_any_word(project: Path) -> None:
    """Behind whatever is allowed itself: these show nothing that is in files, and no option of theirs does harm."""
    allowed = (
        "find . -print0 | xargs -0 ls -l",
        "find . -name '*.py' | xargs -d '\\n' ls -ld",
        "find . | xargs -r -d $'\\n' -n 1 basename",
        "rg -l0 x src | xargs -0 stat -c '%s %n'",
        "printf 'a' | xargs -0 echo",
        "cat list | xargs -0 realpath --",
        "xargs -0 dirname < list",
    )
    assert [text for text in allowed if decide(text, project) != "allow"] == []


@pytest.mark.parametrize(
    "command",
    [
        "find . -type f | xargs -d '\\n' cat",
        "ls -A | xargs -d '\\n' cat",
        "printf '%s\\0' ~/.ssh/id_rsa | xargs -0 cat",
        "find . -name notes.txt -print0 | xargs -0 cat",
    ],
)
def test_names_that_are_read_may_lead_to_a_secret(project: Path, home: Path, command: str) -> None:
    """A line break in the name of a directory, a link or a printed path: each shows the key, so each asks."""
    key = home / ".ssh" / "id_rsa"
    (project / "notes.txt").symlink_to(key)
    copy = project / "x\n" / str(key).lstrip("/")
    copy.parent.mkdir(parents=True)
    copy.touch()
    run = subprocess.run(["bash", "-c", command], cwd=project, capture_output=True, text=True)
    assert "key" in run.stdout
    assert decide(command, project) == "ask"


def test_any_other_xargs_asks(project: Path) -> None:
    """What it reads is not known, whatever writes it and however names are parted."""
    asked = (
        "rg -l0 -c x | xargs -0 cat",
        "find -type f -print0 | xargs -0 cat",
        "find * -type f -print0 | xargs -0 cat",
        "find . -type f -print0 | xargs -0 cat",
        "find src . -type f -name '*.py' -print0 | xargs -0 grep -n x",
        "find . ! -type f -print0 | xargs -0 cat",
        "find . -not -type f -type f -print0 | xargs -0 cat",
        "find . -follow -type f -print0 | xargs -0 cat",
        "find . -type f -print0 | xargs -0 uniq",
        "find . -type f -print0 | xargs -0 awk",
        "find . -type f -print0 | xargs -0 printf",
        "find @x -type f -print0 | xargs -0 strings",
        "find . -type f -print0 | timeout 5 xargs -0 cat",
        "find . -type f -print0 | xargs -0 -n 1",
        "find . -type f -print0 | xargs -0",
        "find . -type f -print0 | xargs",
        "find . -type f -print0 | xargs -0 cat < list",
        "grep -rlZ x src | xargs -0 wc -l",
        "rg -l0 x src | xargs -0 wc -l",
        "find . -type f | xargs cat",
        "find . | xargs -d '\\n' cat",
        "find . -type f | xargs -d '\\n' cat",
        "find . -print0 | xargs -0 cat",
        "find -L . -type f -print0 | xargs -0 cat",
        "find . -type f -o -name x -print0 | xargs -0 cat",
        "find . -print0 -type f | xargs -0 cat",
        "find . -print -type f -print0 | xargs -0 cat",
        "find . -print0 -type f -print0 | xargs -0 cat",
        "find . -type f -print0 -print | xargs -0 cat",
        "find . -type f | xargs -0 cat",
        "find . -type f -name -print0 | xargs -0 cat",
        "grep -rl x src | xargs -0 wc -l",
        "rg -l x src | xargs -0 wc -l",
        "find . -type f -name '*.pem' -print0 | xargs -0 cat",
        "find . -type f -print0 | xargs -0 sed",
        "find . -type f -print0 | xargs -0 rm",
        "find . -type f -print0 | xargs -0 git log",
        "grep -e -l list | xargs -0 cat",
        "{ cat list; find . -type f -print0; } | xargs -0 cat",
        "(cat list; find . -type f -print0) | xargs -0 cat",
        "find . -type f -print0 |& xargs -0 cat",
        "find . -type f -print0 2>&1 | xargs -0 cat",
        "find . -type f -print0 | { cat list; xargs -0 cat; }",
        "find . -type f -print0; xargs -0 cat",
        "find . -type f -print0 && cat list | xargs -0 cat",
        "find . -type f -printf '/etc/shadow\\0' | xargs -0 cat",
        "find /etc -type f -print0 | xargs -0 cat",
        "find ~ -type f -print0 | xargs -0 cat",
        "cd && find . -type f -print0 | xargs -0 cat",
        "echo x | grep -lZ --label=/etc/shadow x | xargs -0 cat",
        "find . -type f -print0 | xargs -0 -d ' ' cat",
        "find . | xargs -d '\\n' -d ' ' ls",
        "cat list | xargs -0 cat",
        "xargs -0 cat < list",
        "find . -type f -print0 | xargs -0 -I{} cat x/{}",
        "find . -type f -print0 | xargs -0 sh -c 'cat $0'",
        "find . -type f -print0 | xargs -0 -a list ls",
        "find . -type f -print0 | xargs -d '\\n' cat",
        "find . | xargs ls",
        "find . | xargs -d , ls",
        "xargs -0 ls < .env",
        "cat .env | xargs -0 echo",
        "find . -print0 | xargs -0 ls > out",
    )
    assert [text for text in asked if decide(text, project) != "ask"] == []


@given(st.text(max_size=30), st.text(max_size=10))
def test_nothing_raises(text: str, cwd: str) -> None:
    """Whatever the command and the directory are."""
    verdict = POLICY.judge(f"cat {text}", cwd=cwd, root=os.curdir)
    assert verdict.decision in {"allow", "ask", "deny"}
