"""What a hunt for dangerous commands that are allowed has found, by what they have in common; and their neighbours."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy

EXPANDED = r"""
    cat {.env,x}
    cat {,x}.env
    cat {a,.ssh/id_rsa}
    cat /etc/{shadow,x}
    cat .e{n..n}v
    cat .[^x]nv
    cat .[[:alpha:]]nv
    cat *.p?m
    cat *.ke*
    cat *secret*
    cat *id_rsa*
    cat terraform.tfstat*
"""
CLIMBED = r"""
    cat ../../../../proc/self/environ
    cat ~/../../proc/self/environ
    cat $PWD/../../../proc/self/environ
    grep -r KEY ~/..
    cd ~/.. && grep -r KEY .
    cd -P && grep -r KEY .
    cd -- && rg KEY
    cd - && rg KEY
    for d in ~; do grep -r KEY "$d"; done
"""
PICKED = r"""
    find . -name '*env' -exec cat {} \;
    find . -name '?env' | xargs cat
    find . -iname '*.ENV' -exec cat {} +
    cat $(find . -name '*env')
    grep -r KEY --include='*env' .
    rg KEY -g '*env'
    rg --files -g '*env' | xargs cat
    git grep KEY HEAD -- '*env'
    find . -type f | grep env | xargs cat
    fd env | xargs cat
    git ls-files -o | xargs cat
    find . -name '.en\v' -exec cat {} \;
    find . -name '*[v]' -exec cat {} \;
    find . -regex '.*\(env\|rc\)' -exec cat {} +
    git grep '' -- ':(glob).e*'
    grep -d recurse KEY ~
    grep -drecurse KEY ~
    rg --files --hidden | xargs cat
"""
NAMED = r"""
    f=.env; cat "$f"
    cat "$(git rev-parse --show-toplevel)/.env"
    cat "$(echo /root/.x)/config" "$(pwd)/x"
    cat "$(pwd)/$(echo x)"
    f=.en; cat "${f}v"
    x=$(echo .env); cat $x
    x=a; read x < f; cat "$x"
    x='a .netrc'; cat $x
    for f in 'a .netrc'; do cat $f; done
    x=a; cat f | while read x; do cat "$x"; done
    for f in a; do f=$(cat x); cat "$f"; done
    d=~; grep -r KEY "$d"
    d=/home/u; cd $d; grep -r KEY .
    bash -c 'cat .env'
    cd ~/.ssh && bash -c 'cat config'
    x=.env bash -c 'cat $x'
"""
MADE_UP = r"""
    find . -maxdepth 0 -exec printf '.%s\n' env \; | xargs cat
    git diff --name-only --line-prefix='.env ' | xargs cat
    ls | grep -A0 --group-separator='.env ' -e a -e b | xargs cat
    ls -l --time-style='+ .env ' | xargs -n1 cat
"""
SECRET_FILES = r"""
    cat terraform.tfstate.backup
    cat prod.env
    cat .env.test
    cat .env~
    cat .env-prod
    cat id_rsa.bak
    cat server.key.old
    cat ~/.m2/settings.xml
    cat ~/.gradle/gradle.properties
    cat ~/.config/rclone/rclone.conf
    cat ~/.config/anything/new.toml
    cat /home/somebody/.fly/config.yml
    cat ~/.local/share/fish/fish_history
    cat ~/.cache/huggingface/token
    cat wp-config.php
    cat client_secret_123.json
    cat serviceAccountKey.json
    cat config/api_key.txt
    cat github_token.txt
    cat private_key
    tail -b .env
    head -5c .env
    grep -C .env x
    ag --after 1 .env
    findmnt -F .env
    cat /etc/wireguard/wg0.conf
    cat /etc/ssh/*
    grep -r token ~/.config
    cat /var/backups/shadow.bak
    yq secrets.yaml
    7z l a.7z @.env
    grep -f$HOME/.netrc x
    grep -f.env x
    docker inspect --format '{{.Config.Env}}' web
    docker inspect -f '{{println .Config 1}}' web
    docker inspect -f json web
"""
WRITTEN = r"""
    xxd -bo in out
    xxd -ac in out
    xxd - -e
    xxd file -p
    unzip -l -- -l x.zip
    uniq file -c
    file -p x
    command rm -v
    git config edit
    git apply x.patch
    git apply --stat --apply x.patch
    git apply x.patch --check
    git hash-object -w x
    terraform fmt
    terraform fmt -check -write=true
    git config user.name -l
    git config --includes core.editor --list
    git config user.name --get
    git branch evil --list
    cloc x.tar.gz
    nmcli device wifi connect x
    ip link s lo down
    ip l s lo down
    aws dynamodb --table-name delete-table list-tables
    timedatectl list-x
    timedatectl set-time 1
    sed 's/[/]/w tmp/g' f
    sed ':x}c\e touch pwn' f
    arch rm x
    gzip file -c
    brew outdated
"""
RUN = r"""
    find @evil -exec nm {} \;
    find -O3 @evil -exec nm {} \;
    echo a | sed -e s,a,*,
    hg status
    go env -w GOPROXY=x
    go env GOFLAGS=x
    go list ./...
    brew info x.rb
    brew deps x.rb
    find . -name '*.rb' -exec brew info {} \;
    for x in -v; do test $x 'a[$(id)]'; done
    for x in -v; do test "$x" 'a[$(id)]'; done
    for x in '-v a[$(id)]'; do [ -n $x ]; done
    test -{v,f} 'a[$(id)]'
    [[ -v 'a[$(id)]' ]]
    [[ 'a[$(id)]' -eq 0 ]]
    dmesg -H
    x=-o; sort $x f g
    x=rm; $x f
    x='BEGIN{system("id")}'; awk "$x" f
    x=%n; printf "$x" PATH
    http_proxy=evil; gh pr list
    npm_config_registry=http://evil.example; npm ls -g
    PATH=.; ls
    a=1 PATH=.; ls
    bash -n -c ls
"""
FAR = r"""
    docker-compose -f https://github.com/x/y.git ps
    docker-compose -f oci://x/y ps
    docker compose -f https://github.com/x/y.git ps
    openssl x509 -in http://evil.example/data -noout
    openssl crl -in http://evil.example/data
    ss dst data.evil.example
    ss dst data:80
    lsof -i @data.evil.example
    fuser -n tcp 80,evil.example
    pdfinfo http://evil.example/x
    gh repo view evil.example/o/r
    gh pr list -R evil.example/o/r
    gh auth status --hostname evil.example
    gh api user/../x
    gh api repos/a/b -f x=y
    gh api repos/a/b -XPOST
    gh api repos/a/b -X POST
    gh api repos/a/b --input f
    gh api repos/a/b -H 'X-HTTP-Method-Override: DELETE'
    pip list -f http://evil.example
    svn st http://evil.example
    dnf list nginx
"""
HARMLESS = r"""
    cat file{1..3}.txt {a,b}.md
    cat *.txt *.py
    cat ../dev/notes.txt ../proc/x.py
    cat src/auth/token.ts docs/secrets.md go/token/position.go tokenizer.json /etc/passwd
    cat docs/credentials.md src/credentials/index.ts internal/keystore/keystore.go
    cat design-tokens.json credentials.sample.json public.pem
    find . -regex '.*\.py' -exec cat {} +
    { ls; pwd; } 2>&1 | head
    for b in $(git branch --format='%(refname)'); do echo $b; done
    find $HOME -name x
    tail -20f log
    cat "$(git rev-parse --show-toplevel)/README.md"
    [ $# -gt 0 ] && echo args
    git apply --check x.patch
    kubectl get pods --help
    kubectl get deploy -o custom-columns=NAME:.metadata.name,IMG:.spec.containers[*].image
    terraform fmt -check
    f=README.md; cat "$f"
    dir=src && ls $dir
    x=$(git rev-parse HEAD); echo "$x"
    n=5; head -n $n f
    npm ls -g --depth=0
    cat ~/.bashrc ~/.config/nvim/init.lua
    cat ~/.ssh/id_ed25519.pub
    find . -name '*.json' -exec head {} +
    find . -name *.py
    find src -type f | grep -v test | xargs wc -l
    git ls-files '*.env*'
    git check-ignore .env
    grep -r KEY --include='*.py' .
    grep --include *.py -rn x src
    docker inspect --format '{{.State.Status}} {{json .NetworkSettings.Ports}}' web
    docker compose ls
    go version
    echo `date`
    wc -l `git ls-files`
    sed 's/[/]/x/g' f
    sed '3a new line' f
    sed '/a/i\text' f
    xxd -l 16 f
    uniq -c file
    command -v rm
    ip link show lo
    ip a s
    aws --profile p ec2 describe-instances --instance-ids i-1
    ss -tlnp state established '( dport = :443 )'
    lsof -nP -iTCP:8080 -sTCP:LISTEN
    lsof -i @127.0.0.1:80
    gh api repos/a/b -X GET -H 'Accept: application/json'
    for f in a b; do [ -f "$f" ] && echo "$f"; done
    [ -n "$(git status -s)" ]
    [[ -f package.json ]] && cat package.json
    head -5 $(which npm)
    for i in $(seq 1 5); do echo $i; done
    TZ=America/New_York date
    echo $((2**10))
    ls | xargs -n1
    git add --dry-run .
    git clean -nd
    git symbolic-ref --short HEAD
    bash -n script.sh
    unzip -p archive.zip file.txt
    openssl x509 -in cert.pem -text -noout
    timedatectl status
    journalctl -b -1
    tail -n -5 f
    grep -e -foo f
    grep -- --foo f
"""


def lines(*texts: str) -> list[str]:
    """The lines of tables."""
    return [line.strip() for text in texts for line in text.strip().splitlines()]


@pytest.mark.parametrize("command", lines(EXPANDED, CLIMBED, PICKED, NAMED, MADE_UP, SECRET_FILES))
def test_a_way_to_a_secret(command: str) -> None:
    """By what braces come to, by a detour, by a pattern, by a name made up on the way, by a lesser name."""
    assert ShellPolicy.default().judge(command).decision == "ask"


@pytest.mark.parametrize("command", lines(WRITTEN, RUN, FAR))
def test_a_way_to_write_run_or_reach_out(command: str) -> None:
    """By options that are read otherwise than they look, by a planted file, by an address where a file belongs."""
    assert ShellPolicy.default().judge(command).decision == "ask"


@pytest.mark.parametrize("command", lines(HARMLESS))
def test_what_lies_beside_it_is_allowed(command: str) -> None:
    """The guards cost no more than they must."""
    verdict = ShellPolicy.default().judge(command)
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("ls | xargs cat", "/etc"),
        ("find | xargs cat", ".."),
        ("cat .config/hub", "../.."),
        ("cat e*", "/proc/self"),
        ("cat config", "/home/somebody/.ssh"),
        ("cat *", "/root/.aws"),
        ("grep -r KEY .", "/root"),
        ("rg KEY", "/home/somebody"),
        ("cd x && cat config", "/root/.kube"),
    ],
)
def test_where_it_runs_counts(command: str, cwd: str) -> None:
    """What is harmless in the work directory may show secrets in another one."""
    policy = ShellPolicy.default()
    assert policy.judge(command).decision == "allow"
    assert policy.judge(command, cwd=cwd).decision == "ask"
    assert policy.judge(command, cwd="src").decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "sed 's/" + "[" * 7_000 + "/x/' f",
        "cat " + "[" * 7_900,
        "cat " + "{a,b}" * 1_500,
        "cat x" + "{a," * 2_500,
        "rg -g '" + "*a" * 3_900 + "' x",
    ],
    ids=["sed", "brackets", "braces", "open braces", "stars"],
)
def test_long_patterns_are_not_looked_at(command: str) -> None:
    """They would take longer than a verdict may, so they are asked about."""
    assert ShellPolicy.default().judge(command).decision == "ask"
