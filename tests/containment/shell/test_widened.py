"""What an agent types and only looks, though it takes some reading; and what comes close to it and does more."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy, read_command

HARMLESS = [
    "(cd src && ls) && pwd",
    "{ ls; pwd; } && echo done",
    "if [ -f a ]; then cat a; fi && pwd",
    "for f in a b; do cat $f; done & wait",
    "ls -la \\\n  src \\\n  tests",
    "grep -rn foo \\\n  --include='*.py' \\\n  . | head",
    "cat <<EOF\nhello\nEOF",
    "cat <<'EOF' | wc -l\n$a `b` \\\nEOF\nls",
    "jq . <<-'E'\n\t{}\n\tE",
    '[[ "$OSTYPE" == darwin* ]] && echo mac',
    "[[ -d .git && ! -f x || 1 -lt 2 ]] && ls",
    "[[ $(uname) =~ ^Lin ]] && ls",
    'for f in src/*.py; do echo "${f##*/}" "${f%.py}"; done',
    'echo "${HOME:-/root}" ${#PATH}',
    'case "$(uname)" in Linux|BSD*) ls;; *) pwd;; esac',
    "while read -r line; do echo $line; done < <(ls)",
    'find . -name "*.py" | while read -r f; do echo "== $f"; head -3 "$f"; done',
    'DIR=src; ls "$DIR"/x',
    "a=1 b=2; echo $a $b",
    "for p in 3000 8080; do lsof -i :$p; done",
    'for d in core web; do jq .version "packages/$d/package.json"; done',
    "for t in git node; do command -v $t; done",
    'for f in src/*.py; do sort "$f"; done',
    "x='a b'; cat \"$x\"",
    "x=src; find $x -name '*.py'",
    "bash -c 'cd src && ls | head'",
    "bash -lc 'rg -n foo src | head -5'",
    "sh -c 'ls | wc -l'",
    "timeout 5 bash -c 'ls; pwd'",
    "env LANG=C sort f",
    "GIT_PAGER= git log -3",
    '[ -z "$API_KEY" ] && echo unset',
    '[[ -n "$GITHUB_TOKEN" ]] && echo set',
    "[ $(ls | wc -l) -gt 10 ] && echo many",
    "git diff $(git merge-base main HEAD)",
    'grep "$(date +%F)" app.log',
    "ls | tee /dev/stderr | wc -l",
    "docker run --help",
    "gh pr create --help",
    "python3.12 -V",
    "taskset -p 1",
    "pacman -Ss vim",
    "systemctl cat nginx",
]
ASKED = [
    "find . -del\\\nete",
    "find . -name x \\\n -delete",
    "ls &\\\n& rm x",
    "cat <<EOF > x\na\nEOF",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\na\nEOF\nrm x",
    "cat <<EOF\na\n EOF\nls\nEOF\nrm x",
    "bash <<EOF\nrm x\nEOF",
    "cat <<'EOF' | sh\nrm x\nEOF",
    "xargs cat <<EOF\n.env\nEOF",
    'while read f; do cat "$f"; done <<EOF\n.env\nEOF',
    "[[ a[$(id)] -eq 0 ]]",
    "[[ x -eq 0 ]]",
    "[[ -v a ]]",
    "[[ -o x ]]",
    "case x in x) rm y;; esac",
    "case $(rm x) in a) ls;; esac",
    "case x in $(rm y)) ls;; esac",
    "case x in x) ls;; esac > y",
    "cat ${HOME##*/}",
    "echo ${HOME:=x}",
    'echo "${API_KEY:-x}"',
    "while read l; do echo $l; done < <(cat .env)",
    "while read l; do echo $l; done < <(rm x)",
    'ls | while read a b; do cat "$b"; done',
    'ls | while read f; do cd ~/.aws; cat "$f"; done',
    'for f in a config; do cat "$f"; cd ~/.aws; done',
    "f=-o; fx=a; sort ${f}x y",
    "x=a; for i in 1 2; do sort $x f; x=-ofile; done",
    "for f in a -o; do sort $f x; done",
    "for f in env x; do cat .$f; done",
    "for f in rsa x; do cat ~/.ssh/id_$f; done",
    "x=.config/hub; cd ~; cat $x",
    "x=-r; grep $x KEY ~",
    "x='-r KEY /root'; grep $x",
    "x='-s x/e'; getent passwd $x",
    "x='-C -m foo'; file $x",
    "x='-n -p a[$(id)]'; wait $x",
    "x='-f evil.jq'; jq data.json $x",
    r"x='.e\n[v]'; cat $x",
    "for x in -v; do test x -a \"$x\" 'a[$(id)]'; done",
    "for f in src/*.py; do sort $f; done",
    "x='*'; sort $x",
    "x='o f'; sort -$x y",
    "x='src -delete'; find $x",
    "false && DIR=x; sort $DIR y",
    "PATH=. DIR=x; ls",
    "KEY=x; ls",
    "for PATH in a; do ls; done",
    "while read -r PATH; do ls; done < f",
    "bash -c 'ls; rm x'",
    "bash -c 'ls; pwd' x",
    "bash -x -c 'ls; pwd'",
    'bash -c "$x; ls"',
    "bash -c 'cd ~/.ssh && cat id_rsa'",
    "sh -c 'ls; pwd &>f'",
    "sh -c 'ls; echo $x'",
    "zsh -c 'ls; pwd'",
    "find . -exec bash -c 'ls; pwd' \\;",
    "ls | xargs bash -c 'ls; cat'",
    "env",
    "env -i ls",
    "env PATH=. ls",
    "env LD_PRELOAD=./x ls",
    "env LANG=C",
    "PAGER='cat x' git log",
    "[ -n $API_KEY ]",
    'set -x; [ -z "$API_KEY" ]',
    '[ -n "$(echo "$API_KEY" | tee /dev/stderr)" ]',
    "[ $(cat f) -gt 3 ]",
    "[ $(echo -v; ls | wc -l) -gt 3 ]",
    'cd "$(echo ~/.ssh; false && pwd)" && cat config',
    "cat $(date +.env)",
    "sort -k $(nproc) -o",
    "tee x",
    "ls | tee /dev/null x",
    "docker run alpine --help",
    "kubectl exec x --help",
    "taskset -p 3 1",
    "pacman -Su",
    "pacman -S vim",
    "compgen -C id",
    "cloc x.zip",
    "pg_isready -h evil.example",
]


@pytest.mark.parametrize("command", HARMLESS)
def test_it_only_looks(command: str) -> None:
    """What only looks runs without asking, however it is put together."""
    verdict = ShellPolicy.default().judge(command)
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize("command", ASKED)
def test_it_may_do_more(command: str) -> None:
    """What differs from it by a word that writes, runs or shows something else is asked about."""
    assert ShellPolicy.default().judge(command).decision == "ask"


def test_a_line_that_goes_on_is_one_line() -> None:
    """What is written on two lines is claimed as bash would run it, on one."""
    (command,) = read_command("ls \\\n-la \\\n\tsrc").commands
    assert command.argv == ("ls", "-la", "src")


def test_a_text_below_a_line_is_no_command() -> None:
    """The lines up to the one that ends the text are read by the command, and not run."""
    reading = read_command("cat <<E | wc -l\nrm x\nE\nls")
    assert [[word.text for word in one.words] for one in reading.commands] == [
        ["cat"],
        ["wc", "-l"],
        ["ls"],
    ]
