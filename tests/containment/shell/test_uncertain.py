"""What is not certain when a line is read: whether a word is there at all, in which shell a variable was set, in which
round of a loop a command runs, and which lines are text."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import ShellPolicy

RUNS = "'BEGIN{system(\"id\")}'"
TEXTS = [
    "cat <<EOF; echo $(\ntouch x\nEOF\necho a)",
    "cat <<EOF <(\ntouch x\nEOF\necho a)",
    "cat <<EOF $(\ntouch x\nEOF\nls)",
    "cat <<EOF `\ntouch x\nEOF\nls`",
    "cat <<A <<B\na\nA\nb\nB",
    "cat <<EOF && ls\na\nEOF",
    "cat <<EOF | (cat)\na\nEOF",
    "cat <<EOF | while read x; do echo $x; done\na\nEOF",
    "{ cat; } <<EOF\na\nEOF",
]
OUTPUTS = [
    "git log $(echo --output=x; whoami) '$(whoami)'",
    "cat $(cat list; id -un) '$(id -un)'",
    "find $(echo sub -delete; id -u) '$(id -u)'",
    "find `echo sub -delete; id -u` '$(id -u)'",
    "for x in $(cat list; nproc) '$(nproc)'; do cat $x; done",
    f"awk $(wc -l < nofile) {RUNS}",
    f"awk $(git rev-parse HEAD) {RUNS}",
    f"awk $(docker ps -q) {RUNS}",
    f"awk $(nproc) $(nproc) {RUNS}",
    "printf $(nproc) -v PATH .",
    "sort $(nproc 2>&1) f",
    "cd $(uname -s) && git status",
    "cd $(date +%Y) && git status",
    "builtin cd $(date +%Y) && git status",
    "cd /; cd $(whoami); cat .config/hub",
    "cd /; grep -r KEY $(whoami)",
    "tar tf $(date +%T)",
    "cd $(git rev-parse --show-toplevel) && grep -r KEY .",
    "cd $(git rev-parse --show-cdup) && cat .config/hub",
    'pwd; cat "$(x=pwd)/f"',
    "git ls-tree -r --name-only HEAD | xargs cat",
    "git diff --name-only HEAD~1 | xargs cat",
]
SET = [
    "(x=1)",
    "x=1 &",
    "x=1 | cat;",
    "x=1 |& cat;",
    "ls && x=1;",
    "ls || x=1;",
    "x=1 && ls &",
    "{ x=1; } | cat;",
    "{ x=1; } &",
    "y=$(x=1);",
    "y=`x=1`;",
    "cat <(x=1);",
    "[[ $(x=1) == a ]];",
    "case $(x=1) in a) ls;; esac;",
    "case a in b) x=1;; esac;",
    "if (x=1); then ls; fi;",
    "if [ -f a ]; then x=1; fi;",
    "for y in 1; do x=1; done;",
    "ls | while read y; do x=1; done;",
]
VANISHING = [
    f"awk $x {RUNS}",
    "printf $x -v PATH .",
    "bash $x ./evil.sh",
    "git branch $x new",
    "cd $x && grep -r KEY .",
]
ROUNDS = [
    "for i in 1 2 3 4; do cat config; cd x; done",
    "for i in 1 2 3 4; do git status; cd $PWD/x; done",
    "for i in 1 2 3; do cat config; cd ..; done",
    "ls | while read i; do cat config; cd ..; done",
    "for i in 1 2; do { cat .config/hub; cd ~; }; done",
    "bash -c 'for i in 1 2; do git status; cd evil; done'",
    "x=a; for i in 1 2; do cat $x; read x; done < list",
    'x=a; for i in 1 2; do cat "$x"; x=$(cat list); done',
    "x=a; for i in 1 2; do file $x; x=$(cat options); done",
    "x=a; for y in .e; do cat $x; x=${y}nv; done",
]
OTHER = [
    "LC_ALL=zh_CN.GBK bash -c 'echo \"a\"; ls'",
    "env LC_CTYPE=ja_JP.SJIS ls",
    "LANG=ja_JP ls",
    "LC_ALL=en_US.UTF-8@x ls",
    "git log -p --submodule=diff",
    "git reflog --submodule=diff",
    'git diff --submodule="$HOME"',
    "golangci-lint --version",
    'command set -x; [ -n "$GITHUB_TOKEN" ]',
    'builtin set -x; [ -n "$GITHUB_TOKEN" ]',
    'test -n "$GITHUB_TOKEN" x',
    'test -n "$GITHUB_TOKEN" ]',
    '[ -n "$GITHUB_TOKEN" x ]',
    "cd '~' && git status",
    "gh pushall --help",
    "kubectl foo --help",
    "docker foo --help",
    "gh ext exec --help",
    "aws autoscaling describe-launch-configurations",
    "gcloud run services list --format=json",
    "terraform fmt -check -diff prod.tfvars",
    "cat ~/.vscode-server/.abc.token",
    'cd "$OLDPWD" && cat hub',
    "for i in 1 2; do (for j in 1 2; do cd x; git status; done); done",
    "x=a; while read y; do cat $x; x=$y; done < list",
]
CERTAIN = [
    "x=1; y=2; echo $x $y",
    "x=src && ls $x && cat $x/a.py",
    "x=src; (ls $x); { ls $x; } | cat",
    "x=src; ls $x & wait",
    "git diff $(git merge-base main HEAD)",
    'git show "$(git rev-parse HEAD)"',
    "[ $(ls | wc -l) -gt 10 ] && echo many",
    'cd "$(git rev-parse --show-toplevel)" && cat README.md',
    'cat "$(pwd)/README.md"',
    "for d in a b; do (cd $d && ls); done",
    "for d in a b; do (cd $d && git status); done",
    "git ls-files '*.py' | xargs wc -l",
    "LC_ALL=C sort f",
    "LANG=en_US.UTF-8 ls",
    "git diff --submodule=log",
    "cat <<'EOF' | grep a\n$(b)\nEOF",
    '[ ! -n "$GITHUB_TOKEN" ] && echo none',
]


def decision(command: str) -> str:
    """What the default policy says."""
    return ShellPolicy.default().judge(command).decision


@pytest.mark.parametrize("command", TEXTS + OUTPUTS + ROUNDS + OTHER)
def test_what_is_not_certain_is_asked_about(command: str) -> None:
    """What may turn out to be something else is not allowed, however harmless the likely reading is."""
    assert decision(command) == "ask"


@pytest.mark.parametrize("use", VANISHING)
@pytest.mark.parametrize("setting", SET)
def test_a_variable_that_may_not_be_set(setting: str, use: str) -> None:
    """A variable that was set in another shell, or perhaps not at all, is a word that is missing."""
    joint = "" if setting.endswith((";", "&")) else ";"
    assert decision(f"{setting}{joint} {use}") == "ask"


@pytest.mark.parametrize("command", CERTAIN)
def test_what_is_certain_only_looks(command: str) -> None:
    """Variables, outputs and texts of which all is known are no reason to ask."""
    verdict = ShellPolicy.default().judge(command)
    assert verdict.decision == "allow", verdict.reason


def repository(place: Path, config: str = "") -> Path:
    """A directory that looks like a repository with a configuration."""
    inner = place / ".git"
    inner.mkdir(parents=True)
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "config").write_text(config)
    return place


SETTINGS = [
    ("git log -p", '[remote "o"]\n\turl = https://example.org/x\n\tpromisor = true\n'),
    ("git show HEAD:f", "[extensions]\n\tpartialClone = o\n"),
    ("git status", "[include]\n\tpath = %(prefix)/../tmp/x\n"),
    ("git status", "[core]\n\thooksPath = %(prefix)/x\n"),
    ("git status", "[core]\n\thooksPath = :(optional)x\n"),
    ("git status", '[include]\n\tpath = "x "\n'),
    ("git status", "[include]\n\tpath = x\u00a0\n"),
    ("git status", "[include]\n\tpath = a\tb\n"),
    ("git status", '[core]\n\thooksPath = "x "\n'),
    ("git log", "[core]\n\tpager = less -o x\n"),
    ("git log -p", "[diff]\n\tsubmodule = diff\n"),
    ("git status", "[status]\n\tsubmoduleSummary = true\n"),
    ("cloc HEAD", '[filter "x"]\n\tsmudge = ./x\n'),
    ("git config --list", '[http "https://example.org/"]\n\textraHeader = x\n'),
    ("git remote -v", '[remote "o"]\n\turl = https://me:word@example.org/x\n'),
]
PLAIN = [
    ("git log -p", '[remote "o"]\n\turl = https://example.org/x\n'),
    ("git status", "[include]\n\tpath = ../x y\n"),
    ("git log", "[core]\n\tpager = less -FRX\n"),
    ("git log -p", "[diff]\n\tsubmodule = log\n"),
    ("cloc HEAD", ""),
    ("git status", '[http "https://example.org/"]\n\textraHeader = x\n'),
    ("git remote -v", '[remote "o"]\n\turl = ssh://git@example.org/x\n'),
]


@pytest.mark.parametrize(("command", "config"), SETTINGS)
def test_settings_of_a_repository_that_do_more(command: str, config: str, tmp_path: Path) -> None:
    """What a repository says may make a program start, a server be asked, a file be read that nobody looked at."""
    root = str(repository(tmp_path, config))
    assert ShellPolicy.default().judge(command, root=root).decision == "ask"


@pytest.mark.parametrize(("command", "config"), PLAIN)
def test_settings_of_a_plain_repository(command: str, config: str, tmp_path: Path) -> None:
    """What is like them and does nothing is no reason to ask."""
    verdict = ShellPolicy.default().judge(command, root=str(repository(tmp_path, config)))
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize("blank", ["\u00a0", "\u0085", "\u3000", "\u2003"])
@pytest.mark.parametrize(
    "use", ["x='a{}'; cd $x; git status", "for d in 'a{}'; do git -C $d log; done"]
)
def test_blanks_that_are_none_to_bash(use: str, blank: str, tmp_path: Path) -> None:
    """Bash takes values apart at three blanks alone, and every other is a part of a name."""
    repository(tmp_path / "a")
    repository(tmp_path / f"a{blank}", "[core]\n\tfsmonitor = ./x\n")
    verdict = ShellPolicy.default().judge(use.format(blank), root=str(tmp_path))
    assert verdict.decision == "ask"


def test_a_directory_that_a_command_names(tmp_path: Path) -> None:
    """The beginning of a working tree is looked at like every other place that a line goes to."""
    inner = repository(tmp_path) / "src"
    inner.mkdir()
    repository(tmp_path / "x", "[core]\n\tfsmonitor = ./x\n")
    policy, move = ShellPolicy.default(), 'cd "$(git rev-parse --show-toplevel)'
    assert policy.judge(f'{move}" && git status', root=str(inner)).decision == "allow"
    assert policy.judge(f'{move}/x" && git status', root=str(inner)).decision == "ask"
    assert policy.judge(f'{move}" && cd x && git status', root=str(inner)).decision == "ask"
