"""What a variable may be is looked at wherever it is used, with each of its values."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy, Word, read_command
from hookline.containment.shell.braces import MAX_VARIANTS
from hookline.containment.shell.variables import Variables

ASKED = r"""
    x=+n; bash -n $x
    for x in -v; do test x -a "$x" 'a[$(id)]'; done
    x='-s x/e'; getent passwd $x
    x='-C -m foo'; file $x
    for x in -C; do file $x; done
    x=$(echo -C); file $x
    y=-C; x=$y; file $x
    x=a; for i in 1 2; do file $x; x=-C; done
    x='-n -p a[$(id)]'; wait $x
    x='-f evil.jq'; jq data.json $x
    x=-r; grep $x KEY ~
    x='-r KEY /root'; grep $x
    x=-r; diff $x ~ /tmp
    for x in -R; do grep "$x" KEY /etc; done
    x=.config/hub; cd ~; cat $x
    x=.config; cd ~; cd $x; cat hub
    for f in .config/hub; do cd ~; cat $f; done
    f=.config/op/config; cd $HOME && cat "$f"
    f=.config/op/config; cd $HOME && cat < "$f"
    x='.e\n[v]'; cat $x
    for f in $(ls); do cd /etc; cat $f; done
    for f in '.e\n[v]'; do cat $f; done
    a=-; b=o; sort "$a$b" x
    a=.e; b=nv; cat "$a$b"
    a='s/a/id/'; b=e; sed "$a$b" f
    e=p; y=; seq 1 | sed '${e}'"$y"
    e=p; y=; seq 1 | sed "\${e}$y"
    e=p; y=; seq 1 | sed "$"'{e}'"$y"
    e=p; y=; seq 1 | sed \${e}"$y"
    for h in ~ /root; do cat "$h/.config/hub"; done
    x=$(date +%Y); awk $x 'BEGIN{system("id")}'
    x=$(wc -l < nofile); printf $x -v PATH .
    x=$(git rev-parse HEAD); git -C $x status
    x=$(git rev-parse HEAD); cd $x; git status
    x=$(git rev-parse HEAD); cat "$x/y"
    x=$(git rev-parse HEAD); read x; git show $x
    x=$(git rev-parse HEAD); x=$(cat y); git show $x
    x=$(git rev-list --format=%s HEAD); git show $x
    x=$(git rev-list --objects HEAD); git show $x
    x=$(git describe); git show $x
    x=$(pwd); cat "$x/.env"
    cd ~; x=$(pwd); cd /tmp; grep -r KEY "$x"
    git log --output $(git rev-parse HEAD)
    git log --outp $(git rev-parse HEAD)
    git diff --no-index $(nproc) /root
    cat f | while read -r x; do cat < "$x"; done
    f=.e; g=nv; cat < "$f$g"
    x=$(cat f); cat < "$x"
    x=$(date +%F); cat < "log-$x"
    f=.config/hub; cd ~; cat < "$f"
    f=a; cat < "$f" > b
    f=a; cat > "$f"
    f=a; cat <> "$f"
    ls ~ | while read -r f; do cat < "$f"; done
    x=a; for i in 1 2; do cat < $x; x=$(cat list); done
    x=a; for i in 1 2; do cat < $x; read x; done
    f=/dev/zero; sort < "$f"
    x=; awk $x"$x" 'BEGIN{system("id")}'
    x='a b'; sort x"$x"*
    x=/.ssh; cat "$HOME$x/id_rsa"
    x=/../.ssh/id_rsa; cat "$PWD$x"
    file $(which -a x)
    file $(which x y)
    cd $(which x); git status
    git -C "$(which x)" status
    cat $(which id_rsa)
    sort -o $(which x) y
    cd $(cat x); f=a; cat < "$f"
"""
ALLOWED = r"""
    for f in *.py; do head -1 "$f"; done
    for f in a b c; do wc -l $f; done
    for d in a b c; do (cd $d && ls); done
    for f in $(git ls-files); do wc -l $f; done
    for a in 1 2; do for b in 3 4; do echo $a $b; done; done
    f=notes.txt; head -3 "$f"
    x=a; y=$x; cat $y
    start=10; end=20; sed -n "${start},${end}p" file.txt
    for n in foo bar; do grep "def $n" src/*.py; done
    ls; d=src; find $d -name '*.py'
    for d in a b; do for f in x y; do sort "$d/$f"; done; done
    for c in $(git rev-list -3 HEAD); do git show --stat $c; done
    git diff --stat $(git merge-base main HEAD)
    git --no-pager log -1 --format=%cd "$(git rev-parse HEAD)"
    x=$(git rev-parse HEAD); git show $x
    ROOT=$(git rev-parse --show-toplevel); cat "$ROOT/README.md"
    n=$(wc -l < f); head -n "$n" g
    for f in *.py; do echo "$f: $(wc -l < "$f")"; done
    for f in a b; do wc -l < src/$f.txt; done
    find . -name '*.ts' | while read -r f; do echo "$f: $(wc -l < "$f")"; done
    file $(which python)
    x=$(command -v node); ls -l "$x"; file "$x"
    f=a.txt; while read -r l; do echo "$l"; done < "$f"
"""


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("command", _lines(ASKED))
def test_a_value_that_changes_what_a_command_does(command: str) -> None:
    """An option, a file or a directory that a variable may be is seen where the variable stands."""
    assert ShellPolicy.default().judge(command).decision == "ask"


@pytest.mark.parametrize("command", _lines(ALLOWED))
def test_values_that_change_nothing(command: str) -> None:
    """Loops over plain names, and names kept in a variable, are no reason to ask."""
    assert ShellPolicy.default().judge(command).decision == "allow"


def test_every_value_is_put_in_its_place() -> None:
    """Without quotes a value is taken apart and may be a pattern, in quotes it stays one word."""
    commands = read_command("""x='a *.py'; x=~/b; cat $x "$x" c""").commands
    words = commands[-1].words[1:]
    assert Variables(commands).ways(words) == [
        (Word("a"), Word("*.py", exact=False), Word("a *.py"), Word("c")),
        (commands[1].assignments[0][1], commands[1].assignments[0][1], Word("c")),
        words,
    ]


def test_a_word_whose_values_are_all_known_is_nothing_else() -> None:
    """Where every value is known the variable itself is gone; where one is not, it is looked at as well."""
    known = read_command('d=src; cat "$d/a.py"').commands
    assert Variables(known).ways(known[-1].words[1:]) == [(Word("src/a.py"),)]
    both = read_command('ls; d=src; f=a; grep "of $f" "$d/$f"').commands
    assert Variables(both).ways(both[-1].words[1:]) == [(Word("of a"), Word("src/a"))]
    mixed = read_command('x=\'a b\'; cat x$x"$x"; y=1; cat x$y"$y"').commands
    ways = [Variables(mixed).ways(one.words[1:]) for one in mixed if one.words]
    assert ways == [[mixed[1].words[1:]], [(Word("x11"),)]]
    unset = read_command('x=1; awk "$x" y; read x').commands
    assert unset[1].words[1:] in (Variables(unset).ways(unset[1].words[1:]) or [])


def test_braces_are_opened_and_what_is_unset_is_left_out() -> None:
    """Words that braces make are told apart, and a variable that is nothing joins what stands around it."""
    commands = read_command('cat {-r,{a,b}} .e"$TZ"nv "$TZ" $TZ x{1..3}').commands
    opened, unset, _ = Variables(commands).ways(commands[0].words[1:]) or []
    assert [word.text for word in opened[:3]] == ["-r", "a", "-r"]
    assert [word.text for word in unset[4:]] == [".env", "", "x1", "x2", "x3"]
    assert all(word.exact for word in unset)


def test_values_that_go_round_in_a_circle_or_are_too_many() -> None:
    """Variables that name each other end, and more values than can be looked at are said to be too many."""
    circle = read_command("x=a; y=$x; x=$y; cat $x").commands
    assert Variables(circle).ways(circle[-1].words) is not None
    many = read_command(
        f"for x in {' '.join('abc'[n % 3] + str(n) for n in range(MAX_VARIANTS + 1))}; do ls $x; done"
    )
    assert Variables(many.commands).ways(many.commands[-1].words) is None
    assert Variables(many.commands).ways((Word("ls"),)) == [(Word("ls"),)]
