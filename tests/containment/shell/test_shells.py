"""A shell that is given a script: judged by what is inside, be it one command, several or a loop."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy

HARMLESS = [
    "bash -c ls",
    "bash -lc 'ls -la'",
    "bash -l -c 'cat package.json'",
    """bash -lc "sed -n '1,200p' README.md" """,
    "/bin/bash -lc 'git status --short'",
    'sh -c "echo hello"',
    "sh -c 'wc -l *.py'",
    "timeout 10 bash -c 'grep -rn foo src'",
    "cd src && bash -lc 'ls'",
    "bash -c 'ls' | head -3",
    """bash -c 'for f in src/*.py; do echo "== $f"; head -5 "$f"; done'""",
    """bash -lc 'for d in a b; do ls "$d"; done; pwd'""",
    """bash -c 'ls | while read -r f; do wc -l "$f"; done'""",
    "bash -c 'if [ -f Makefile ]; then cat Makefile; fi'",
    """bash -c "bash -c 'ls'" """,
]
ASKED = [
    "bash -c './x'",
    "bash -c 'touch x'",
    "bash -lc 'npm install'",
    "bash -c 'cat .env'",
    "bash -c 'ls > x'",
    "bash -c 'ls' x y",
    "bash -c 'cat \"$1\"' x .env",
    'bash -c "$x"',
    'bash -c "$(cat f)"',
    "bash -c ls -c 'touch x'",
    "bash -ic ls",
    "bash --rcfile x -c ls",
    "bash -O extglob -c ls",
    "zsh -c ls",
    "dash -c ls",
    "sh -c 'cat $x'",
    "sh -c 'cat <(ls)'",
    "bash script.sh",
    "bash < script.sh",
    "cat script.sh | bash",
    "ls | xargs bash -c 'ls'",
    "ls | xargs -I{} bash -c 'cat {}'",
    "find . -exec bash -c ls \\;",
    "BASH_ENV=x bash -c ls",
    "env BASH_ENV=x bash -c ls",
    "PATH=. bash -c ls",
    "bash -c 'cd ~' && bash -c 'cd ~; cat .config/hub'",
    "bash -c 'for i in 1 2; do cat .config/hub; cd ~; done'",
    "bash -c 'for i in 1 2 3; do cat config; cd ..; done'",
    "bash -c 'for i in 1 2; do git status; cd evil; done'",
    "bash -c 'x=a; for i in 1 2; do file $x; x=$(cat opts); done'",
    "bash -c 'x=a; for i in 1 2; do cat $x; read x; done < list'",
    "bash -c 'ls' | xargs cat",
    "ls ~ | bash -c 'xargs cat'",
    """ls | bash -c 'while read -r f; do cat "$f"; done'""",
    """bash -c "bash -c 'bash -c \\"bash -c ls\\"'" """,
]


@pytest.mark.parametrize("command", HARMLESS)
def test_a_script_that_only_looks(command: str) -> None:
    """What agents wrap into a shell is allowed where it would be without the shell."""
    assert ShellPolicy.default().judge(command).decision == "allow"


@pytest.mark.parametrize("command", ASKED)
def test_a_script_that_does_more(command: str) -> None:
    """A shell is asked about for what is inside, for its other options, and for what it reads before or besides."""
    assert ShellPolicy.default().judge(command).decision != "allow"


def test_rules_look_inside() -> None:
    """A rule that asks about a command finds it in the script of a shell, alone as well."""
    policy = ShellPolicy.default().with_rules(ask=["git log *"], deny=["git push *"])
    assert policy.judge("bash -lc 'git log -3'").decision == "ask"
    assert policy.judge("bash -lc 'git push'").decision == "deny"
