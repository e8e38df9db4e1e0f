"""What a project, an input or an environment may have planted to make a harmless line do more."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import ShellPolicy

ASKED = r"""
    head -1 < list.txt | xargs cat
    sort <<< x | while read -r f; do cat "$f"; done
    head -1 | xargs cat
    cat $(head -1 < list.txt)
    { sort | xargs cat; } < list.txt
    cat list.txt | bash -c 'sort | xargs cat'
    uniq $(seq 1 2)
    v=$(seq 1 2); uniq $v
    xxd $(seq 1 2)
    git symbolic-ref $(git rev-list -2 HEAD)
    taskset -p $(seq 1 2)
    NODE_ENV=.env bash -c 'cat "$NODE_ENV"'
    timeout 5 env TERM=.env bash -c 'cat "$TERM"'
    LINES=.env bash -c "bash -c 'cat \$LINES'"
    aws ec2 describe-instances --filters Name=x,Values@=file:///etc/passwd
    gcloud config get-value proxy/password
    gcloud container clusters list --format=json
    docker compose config --images
    micromamba list -p ./here
"""
ALLOWED = r"""
    ls | head -1 | xargs cat
    find . -name '*.py' | sort | head -3 | xargs wc -l
    for i in $(seq 1 3); do echo $i; done
    echo $(seq 1 3)
    uniq "$(seq 1 2)"
    NODE_ENV=test bash -c 'ls $HOME'
    gcloud config get-value project
    conda list -n base
"""
PLANTED = {
    "cargo -q tree": ("Cargo.toml", "[package]\n"),
    "cargo -v metadata": ("Cargo.toml", "[package]\n"),
    "uv pip list": ("uv.toml", '[pip]\npython = "./evil"\n'),
    "uv pip freeze": ("pyproject.toml", '[tool.uv]\npip = {python = "evil"}\n'),
    "uv python list": ("uv.toml", 'cache-dir = "/x"\n'),
    "docker compose ps": ("compose.yml", "? !<tag:yaml.org,2002:binary> aW5jbHVkZQ==\n: [x]\n"),
    "docker compose top": ("compose.yml", "%TAG ! tag:yaml.org,2002:\n---\n? !binary aW5j\n: x\n"),
    "docker compose images": (".env", 'A="x" COMPOSE_FILE=evil.yml\n'),
    "docker compose logs": (".env", "exportCOMPOSE_FILE=evil.yml\n"),
    "jest --version": ("package.json", '{"name": "jest", "exports": {"./bin/jest.js": "./x.js"}}'),
    "nx --version": (".nx", ""),
    "turbo --version": (".yarnrc.yml", "pnpUnpluggedFolder: x\n"),
    "wrangler whoami": (".env", "CLOUDFLARE_API_BASE_URL=https://evil.example\n"),
    "pnpm -v": ("package.yaml", "packageManager: pnpm@1.0.0\n"),
    "python3 -m pip list": ("datrie.py", ""),
}
PLAIN = {
    "uv pip list": (
        "pyproject.toml",
        '[project]\nrequires-python = ">=3.9"\n[x]\npython = "^3.9"\n',
    ),
    "docker compose ps": (".env", "POSTGRES_PASSWORD=x\nURL=http://host/path\nAPP_HOME=/x\n"),
    "jest --version": ("package.json", '{"name": "app", "version": "1.0.0"}'),
}


def lines(text: str) -> list[str]:
    """The commands of a list."""
    return [line.strip() for line in text.strip().splitlines()]


def decision(command: str, root: Path) -> str:
    """What the policy says of a command in a directory."""
    return ShellPolicy.default().judge(command, root=str(root)).decision


@pytest.mark.parametrize("command", lines(ASKED))
def test_what_a_line_is_fed_is_not_trusted(command: str, tmp_path: Path) -> None:
    """Names from an unknown input, more words than one, and variables that are set for a shell are asked about."""
    assert decision(command, tmp_path) == "ask"


@pytest.mark.parametrize("command", lines(ALLOWED))
def test_what_is_known_still_runs(command: str, tmp_path: Path) -> None:
    """The same commands with nothing unknown in them are allowed."""
    assert decision(command, tmp_path) == "allow"


@pytest.mark.parametrize("command", PLANTED)
def test_a_planted_file_is_seen(command: str, tmp_path: Path) -> None:
    """A question runs where there is no such file, and asks where there is one."""
    name, text = PLANTED[command]
    assert decision(command, tmp_path) == "allow"
    (tmp_path / name).write_text(text)
    assert decision(command, tmp_path) == "ask"


@pytest.mark.parametrize("command", PLAIN)
def test_a_plain_file_is_no_reason_to_ask(command: str, tmp_path: Path) -> None:
    """A file of the same name that steers nothing changes nothing."""
    name, text = PLAIN[command]
    (tmp_path / name).write_text(text)
    assert decision(command, tmp_path) == "allow"
