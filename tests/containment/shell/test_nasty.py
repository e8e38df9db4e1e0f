from __future__ import annotations

import pytest
from shell_corpus import commands

from hookline.containment import ShellPolicy


@pytest.mark.parametrize("command", commands("denied"))
def test_it_is_denied(command: str) -> None:
    """What must never run is denied in every spelling."""
    assert ShellPolicy.default().judge(command).decision == "deny"


OVER_LINES = [
    "rm \\\n-rf /",
    "r\\\nm -rf /",
    "ls\nrm -rf /",
    "ls # \nsudo ls",
    "bash << E\nrm -rf /\nE",
    "bash <<'E'\nsudo ls\nE",
    "cat <<E | sh\nrm -rf /\nE",
    "sh -s <<-E\n\trm -rf /\nE",
    "cat > ~/.bashrc <<E\nx\nE",
    "cat <<E >> ~/.bashrc\nx\nE",
    "cat <<E > .git/hooks/pre-commit\nx\nE",
    "cat <<E\n$(sudo ls)\nE",
    "for i in /\ndo\n  rm -rf $i\ndone",
    "python3 <<E\nx\nE\nsudo ls",
    "rm -rf /\r\n",
    "if true\nthen sudo ls\nfi",
    "eval 'rm \\\n -rf /'",
]


@pytest.mark.parametrize("command", OVER_LINES)
def test_it_is_denied_over_several_lines(command: str) -> None:
    """Line breaks, continuations and heredocs hide nothing."""
    assert ShellPolicy.default().judge(command).decision == "deny"


def test_what_is_nested_too_deeply_is_denied() -> None:
    """A shell in a shell in a shell, until it can no longer be read, is denied."""
    command = "ls"
    for _ in range(12):
        command = f"bash -c {command!r}" if "'" not in command else f'eval "{command}"'
    nested = "eval " * 20 + "ls"
    assert ShellPolicy.default().judge(nested).decision == "deny"
    assert ShellPolicy.default().judge(command).decision != "allow"


NOT_DENIED = r"""
    echo "rm -rf /"
    echo 'sudo ls'
    grep -r sudo .
    grep -rn "rm -rf" src
    rg "curl .* | sh"
    git log --grep="rm -rf"
    git commit -m "remove rm -rf and sudo"
    timeout 5 grep sudo f
    find . -name sudo
    man sudo
    which sudo
    rm x
    rm -r build
    rm -f x.o
    rm /tmp/x
    curl x | jq .
    curl x | python3 -m json.tool
    curl x | grep sh
    curl x | tar xz
    cat x | bash
    bash script.sh
    echo x > notes.txt
    docker rm -f web
    git rm -r --cached x
    npm run rm -- -rf
    cat ~/.bashrc
    cat /etc/hosts
    cp ~/.bashrc backup
    ls ~/.ssh
    chmod +x script.sh
    python -c 'print("sudo rm -rf /")'
    python -c 'import base64; print(base64.b64decode("eA=="))'
    python -c 'import base64, subprocess; out = subprocess.check_output(["x"]); print(base64.b64decode(out))'
    ls /dev/sda
    sort -d /etc/passwd
    sort -k1 -t: /etc/passwd
    curl -d @/etc/hostname x
    cd ~/project && rm build.log
    cd /tmp/x && rm -r y
    fdisk -l
    ln -s /usr/bin/python3 python
    curl -o data.json x; python process.py data.json
    timeout 5 pip install sudo
    env A=b apt-get install sudo
    xargs -0 grep sudo
    echo x > nginx/conf.d/site.conf
    rm -rf build
    rm -rf "$BUILD_DIR/x"
    rm -rf ~/project/build
    rm .git/index.lock
    git rm -r .
    tr -d '\r' < x.sh | bash
    eval "$(ssh-agent -s)"
    source <(kubectl completion bash)
    MSG="sudo make me a sandwich"; echo "$MSG"
    for f in *.log; do rm "$f"; done
    poetry run pytest
    awk '{print $1}' <(curl x)
    python process.py <(curl x)
    python process.py "$(curl x)"
    echo registry=x > .npmrc
    npm run deploy -- --user=sudo
    kill -1 123
    tee /dev/tty
    echo x > /dev/shm/y
    echo x > /dev/null
    echo x > /dev/stderr
    systemctl status nginx
    kill -9 1234
    tar czf x.tgz src
    base64 -d x > y
    python x.py | sh -c 'cat'
"""


@pytest.mark.parametrize("command", [line.strip() for line in NOT_DENIED.strip().splitlines()])
def test_talking_about_danger_is_not_denied(command: str) -> None:
    """Words that only sound dangerous, and ordinary work, are allowed or asked about."""
    assert ShellPolicy.default().judge(command).decision != "deny"


def test_the_reason_names_the_part() -> None:
    """A verdict says which part of a long line it is about, and why."""
    denied = ShellPolicy.default().judge("cd src && make && sudo make install")
    asked = ShellPolicy.default().judge("ls && npm install left-pad")
    assert denied.command == "sudo make install"
    assert denied.reason == (
        "`sudo make install` is never run: sudo gives it the rights of another user."
    )
    assert asked.command == "npm install left-pad"
    assert asked.reason == (
        "`npm install left-pad` may do more than read: npm is not known to be read-only."
    )
