"""The small print of the tables: options that look harmless and are not, and the other way round."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy

HARMLESS = r"""
    sed -n '/[0-9]\+/p' f
    sed -n '1~2p;$p' f
    sed '/a/,/b/{s/x/y/g;p}' f
    sed -ne '5,10p' f
    sed -E 's#a/b#c#g' f
    sed 's/[^/]*$//' f
    awk '{print ($1+$2)/2}' f
    awk '$1 ~ /a|b/ {print $2}' f
    awk '{print $1 " -> " $2}' f
    awk -F'|' '{print $2}' f
    awk 'NR>1 || /x/' f
    awk '{print $1}' *.txt
    find . -mtime -7 -size +10k -not -name 'a*'
    find . -name '*.py' -exec grep -n x {} +
    find src/* -name x
    git log --format='%h %s' --since='1 week ago' -- 'src/*.py'
    git diff HEAD~3..HEAD -- src/*.py
    git branch --list 'f*' --format='%(refname)'
    git config --get-regexp 'remote.*'
    git -C dir --no-pager log -3
    sort -t, -k2,2nr f
    sort src/*.txt
    sort -- x -o y
    rg -- --flag src
    grep -A 3 .env
    date -d '2 days ago' +%F
    date -Iseconds
    tar -tvzf a.tgz
    tar tf a.tar src
    ls -- *
    wc -l -- *
    cat src/*.py *.md
    grep -rn x --include=*.{js,ts} src
    grep .env .gitignore
    du -sh *
    test -n "a" -a -d b
    [ "$HOME" = /root ]
    xargs -n1 echo
    echo `ls`
    ls | xargs
    ls | xargs -I{} echo {}
    find . -type d | xargs du -sh
    find . -name '*.py' | xargs timeout 5 cat
    find . -name '*.c' | sort | head -5 | xargs wc -l
    cat $(git ls-files '*.md')
    ls -la "$PWD"/src
    cd "$(git rev-parse --show-toplevel)" && ls
    while read -r line; do echo "$line"; done < file.txt
    while IFS=, read -r a b; do echo "$a"; done < f.csv
    find . -name x | while read -r f; do head -1 "$f"; done
    (ls; pwd) 2>/dev/null
    if [ -f a ]; then cat a; fi 2>&1
    for f in *.md; do echo "== $f"; head -3 "$f"; done | cat
    timeout 5 nice -n 5 grep -r x src
    command -v git
    set -euo pipefail; ls
    LC_ALL=C TZ=UTC ls
    NO_COLOR=1 git status
    docker logs --tail 10 web 2>&1 | grep error
    kubectl -n a get pods -o jsonpath='{.items[*].metadata.name}'
    gh api repos/a/b/pulls --jq '.[].title'
    journalctl -u nginx -n 50 --no-pager
    jq -r '.a | keys[]' f.json
    cat .env.example
    cat src/environment.ts
    ps -ef
    ping -c 1 localhost
    printenv HOME
"""
ASKED = r"""
    sed 's/[]/]/x/w x' f
    sed 's/[a/b]/x/e' f
    sed 's/[/x/w f/' f
    sed 's/a/b/;w x' f
    sed -n 'p;e id' f
    sed --expression=e f
    sed -e p -e 'w x' f
    sed p -i f
    sed -En -i p f
    sed "s/a/$(id)/" f
    sed -n \%a%p f
    awk 'BEGIN { if (1) /"/; print "a" > "f" } # "' f
    awk '{ print "}" > "f" }' f
    awk '{ print $1, $2 >"f" }' f
    awk '{ x = "a" ; print x | x }' f
    awk "BEGIN{system(\"id\")}"
    awk '{ print /"/ > "f" "" }' f
    awk 'function f(a) { system(a) } { f($1) }' f
    awk -v x=1 -f p f
    awk $X f
    find . -name -exec ls -delete +
    find . -name x -o -delete
    find . -name "$X"
    find . -exec
    find . -exec ls {} + -delete
    find . -exec env {} \;
    find . -exec {} \;
    find . -exec sh {} \;
    git config user.name get
    git config core.pager list
    git branch -v x
    git branch --sort=x y
    git -c a.b=c status
    git log --outp=x
    git log -p --outpu x
    git diff --ext-dif
    git $X
    git log $X
    git log --format=$(id)
    git stash list x --output=y
    sort -k1 -ox y
    sort -ro y x
    sort -*
    sort --*
    git diff --[check
    git log -[x]
    rg -{x,y} foo
    uniq -- a b
    uniq a*
    uniq {a,b}
    xxd a*
    git config a*
    git config {a.b,c}
    kubectl get s*
    ps a*
    uniq - b
    xxd -c 8 a b
    date -d x 01010000
    date -us 1
    tree -Lo 2 x
    tree -L 2 -o x
    fd -gx rm
    zstdcat -o x y
    jobs -x rm x
    test -v 'a[$(id)]'
    [ -v 'a[$(id)]' ]
    printf -v PATH x
    tar tf a:b
    tar tIf ./x a
    tar -t -f a -I ./x
    tar --list --file=a --checkpoint-action=exec=id
    ls | xargs -n1 env
    ls | xargs find
    ls | xargs -I{} {}
    ls | xargs timeout 5
    cat x | xargs cat
    while read l; do cat "$l"; done < f
    while read PATH; do ls; done < f
    while true; do ls; done
    while read l; do echo $l; done < .env
    cat f | while read l; do $l; done
    (ls) > x
    for f in a; do ls; done > out
    for f in a; do ls; done < ~/.netrc
    for PATH in x; do ls; done
    for f in .env; do cat "$f"; done
    for f in v; do cat .en$f; done
    if true; then ls; fi >> x
    [[ 'a[$(id)]' -eq 0 ]]
    echo x | xargs timeout 5 cat
    echo x | xargs -I{} nice cat {}
    find ~ -name x -exec timeout 5 cat {} +
    printf x | xargs cat
    cat $(cat list)
    cat "$(echo x)"
    cat ~/.ss*/id_rsa
    cat .e*
    cat .*
    cat ~/.{ssh,aws}/x
    grep -r x ~/
    grep -r x $HOME
    cd / && grep -r x etc
    cd ~/.aws && cat credentials
    find ~ -type f -exec cat {} +
    find ~ -name '*.key' | xargs cat
    less f
    TZ=/etc/shadow date
    GIT_PAGER=less git log
    LESS=x git log
    ls 2> errors
    cat f > /dev/stdout
    ls >& f
    date -f /etc/shadow
    file -f /etc/shadow
    npm config get //registry/:_authToken
    kubectl get pods,secrets
    kubectl get --raw=/api
    kubectl logs x --kubeconfig=y
    gh api https://evil.example
    gh api repos/a/b -X DELETE
    gh pr view 1 -w
    docker ps -H tcp://x
    docker -c x ps
    aws s3 ls --endpoint-url=http://x
    ip addr add 1.2.3.4 dev x
    man -P x ls
    ping -c 1 evil.example
    ping evil.example localhost
    command ls -o; command rm x
    ./ls
    bin/ls
    /tmp/ls
    ls;
    echo `ls '`'`
    echo `touch x`
    echo ${PATH/x/y}
    ls | cat > x
"""


def lines(text: str) -> list[str]:
    """The lines of a table."""
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("command", lines(HARMLESS))
def test_it_only_looks(command: str) -> None:
    """What only looks runs without asking, also when it looks unusual."""
    verdict = ShellPolicy.default().judge(command)
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize("command", [line for line in lines(ASKED) if line != "ls;"])
def test_it_may_do_more(command: str) -> None:
    """What may write, run or show something else is asked about, also when it looks harmless."""
    assert ShellPolicy.default().judge(command).decision == "ask"
