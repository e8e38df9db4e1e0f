"""Arithmetic and loops that count: read where nothing but numbers can come into them."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy, Word, read_command

ALLOWED = r"""
    x=5; echo $((x * 2))
    a=1; b=2; echo $((a+b))
    a=1; b=2; echo $(($a+$b))
    echo $(( (1+2) * 3 ))
    i=0; for f in *.txt; do i=$((i+1)); echo "$i: $f"; done
    total=0; for f in *.py; do n=$(wc -l < "$f"); total=$((total + n)); done; echo $total
    for ((i=0;i<3;i++)); do echo $i; done
    for (( i = 1; i <= 5; i++ )); do sed -n "${i}p" f; done
    for ((i=10; i>0; i--)); do echo $i; done
    for((i=0;i<3;++i)); do echo "$i"; done
    i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done
    i=0; while [ "$i" -le 3 ]; do echo $i; ((i++)); done
    i=5; until [ $i -le 0 ]; do echo $i; i=$((i-1)); done
    n=3; i=0; while [ $i -lt $n ]; do ls; i=$((i + 1)); done
    echo $((RANDOM % 10))
    echo $(( $(wc -l < f) + 1 ))
    echo "$(( $(grep -c foo a.txt) * 2 ))"
    n=$(git rev-list --count HEAD); echo $((n-1))
    for i in 1 2 3; do echo $((i*10)); done
    for i in {1..3}; do echo $((i*10)); done
    for i in $(seq 1 3); do echo $((i*10)); done
    x=1; head -n $((x+4)) f
    x=1; ((x++)); echo $x
    bash -c 'i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done'
    for f in a b; do if grep -q x $f; then break; fi; done
    for f in a b; do [ -f $f ] || continue; cat $f; done
"""
ASKED = r"""
    echo $((x))
    echo $((PATH))
    echo $((HOME))
    echo $((LINES))
    x='a[$(id)]'; echo $((x))
    x=a; echo $((x))
    x=1; x='a[$(id)]'; echo $((x))
    x=1; for i in 1 2; do echo $((x)); x=$(cat f); done
    x=1; for i in 1 2; do echo $((x)); read x; done
    x=1; read x; echo $((x))
    for x in 'a[$(id)]'; do echo $((x)); done
    for x in $(cat f); do echo $((x)); done
    for x in *; do echo $((x)); done
    cat f | while read x; do echo $((x)); done
    x=1 | cat; echo $((x))
    (x=1); echo $((x))
    true && x=1; echo $((x))
    x=1; echo $((x[$(id)]))
    x=1; echo $((x=5))
    x=1; echo $((x++))
    x=1; echo $((++x))
    x=1; echo $((x+=1))
    x=1; y=; z=; echo $((x-$y-$z))
    x=1; y=$(wc -l < n); echo $((x-$y-$y))
    x=1; echo $((x-$(wc -l < n)-$(wc -l < n)))
    echo $(( $(cat f) ))
    echo $(( $(date) + 1 ))
    x=$(cat f); echo $((x))
    x=$(git rev-parse HEAD); echo $((x))
    x=1; printf -v x 'a[$(id)]'; echo $((x))
    echo $((1+`id`))
    echo $((1+"a[$(id)]"))
    echo $((1?2:3))
    echo $((a,b))
    echo $[1+1]
    echo $((cd /; rm x) )
    echo $((id))
    ((x))
    ((x=1))
    (( $(id) ))
    x=1; ((x[$(id)]++))
    y=1; ((x++)); echo $x
    x='a[$(id)]'; ((x++))
    for ((;;)); do ls; done
    for ((i=0;i<3;)); do ls; done
    for ((i=0;i<a[$(id)];i++)); do ls; done
    for ((i=0;i<3;i--)); do ls; done
    for ((PATH=0;PATH<3;PATH++)); do ls; done
    for ((i=0;i<3;i++)); do rm $i; done
    for ((i=0;i<3;i++)); do i='a[$(id)]'; echo $((i)); done
    for ((i=0;i<3;i++)); do i='a[$(id)]'; done
    for ((i=1;i<3;i++)); do cat /proc/$i/environ; done
    while true; do ls; done
    while [ 1 -lt 2 ]; do ls; done
    i=0; while [ $i -lt 3 ]; do ls; done
    i=0; while [ $i -lt 3 ]; do i=$((i-1)); done
    i=0; while [ $i -lt 3 ]; do rm $i; i=$((i+1)); done
    i=0; while ls; [ $i -lt 3 ]; do i=$((i+1)); done
    until false; do ls; done
    until read x; do cat $x; done
    i=1; i=$((i+1)); cat /proc/$i/environ
    cat /proc/$((1))/environ
    d=$((1)); cd $d; git status
    git -C $((1)) status
    x=1; x=$((x-2)); sort $x f
    x=$((0-1)); file "$x" f
    i=0; while [ $i -lt 3 ]; do cd ..; cat config; i=$((i+1)); done
"""


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("command", _lines(ALLOWED))
def test_numbers_alone(command: str) -> None:
    """Sums of numbers and of variables that hold nothing else run nothing, and a loop that counts comes to its end."""
    assert ShellPolicy.default().judge(command).decision == "allow"


@pytest.mark.parametrize("command", _lines(ASKED))
def test_more_than_numbers(command: str) -> None:
    """A value that may be an expression or not be set, an assignment, and a loop without an end are asked about."""
    assert ShellPolicy.default().judge(command).decision != "allow"


def test_a_loop_that_counts_is_one_over_numbers() -> None:
    """The numbers are known one by one where they are few, and as some number where they are many."""
    few, many = (read_command(f"for ((i=1; i<={n}; i++)); do echo $i; done") for n in (3, 3000))
    assert few.commands[0].assignments == (("i", Word("1")), ("i", Word("2")), ("i", Word("3")))
    assert [value.exact for _, value in many.commands[0].assignments] == [False]
    assert not few.static


def test_a_computed_number_is_one_word_of_which_nothing_is_known() -> None:
    """It stays one word without quotes, and may begin with a dash."""
    (command,) = read_command("head -n $((2 - 3)) f").commands
    assert command.words[2].single
    assert command.words[2].start == ""
