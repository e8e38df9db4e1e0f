"""Secrets on command lines: what an option means depends on the program it is given to."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.redaction import redact, redact_value

SECRET = "hunter2-Xy"
LINES = [
    "mysql -u root -p{} shop",
    "mysql -uroot -p'{}' shop",
    'mysqldump -u root -p"{}" shop > dump.sql',
    "docker exec -it db mysql -uroot -p{}",
    "ssh host 'mysql -p{} shop' && ls",
    "curl -u admin:{} https://example.com",
    "curl -s --user admin:{} -o out https://example.com",
    "curl -uadmin:{} https://example.com",
    "/usr/bin/curl --user='admin:{}' https://example.com",
    "curl \\\n  -u admin:{} \\\n  https://example.com",
    "http -a me:{} example.com",
    "sshpass -p {} ssh -p 2222 me@example.com",
    "sshpass -p{} ssh me@example.com",
    "redis-cli -a {} ping",
    "docker login -u me -p {} registry.example.com",
    "az login -u me -p {}",
    "echo {} | docker login -u me --password-stdin",
    "printf '%s' '{}' | sudo -S ls",
    "openssl enc -aes-256-cbc -k {} -in a",
    "openssl rsa -passin pass:{} -in key.pem",
    "7z a -p{} out.7z dir",
    "zip -r -P {} out.zip dir",
    "unzip -P '{}' in.zip",
    "ldapsearch -D cn=admin -w {} -b dc=example",
    "smbclient //host/share -U me%{}",
    "gpg --batch --passphrase {} -d file.gpg",
    "htpasswd -bB users.txt me {}",
    "wget --user=me --password={} https://example.com",
    "mongosh --host h -u me -p {}",
    "aws configure set aws_secret_access_key {}",
    "git config user.password {}",
    "kubectl create secret generic s --from-literal=login={}",
    "setenv DB_PASSWORD {}",
    "setenv DB_PASSWORD '{}'; ./run",
    "some-tool --password={}",
    "some-tool --key-passphrase={} x",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("secret", [SECRET, "letmein"])
def test_what_a_program_is_given_is_taken_out(line: str, secret: str) -> None:
    """Alone, among other lines, and inside JSON, which stays JSON; what is done twice is done once."""
    written = line.replace("{}", secret)
    cleaned = redact(written)
    assert secret not in cleaned
    assert "[redacted:secret]" in cleaned
    assert redact(cleaned) == cleaned
    assert cleaned.split()[0] == written.split()[0]
    assert secret not in redact(f"$ ls\n{written}\n$ pwd\n")
    packed = redact(json.dumps({"command": written, "cwd": "/work"}))
    assert secret not in packed
    assert json.loads(packed)["cwd"] == "/work"


@pytest.mark.parametrize(
    "line",
    [
        "mysql -p shop",
        "The option -p of mysql asks for a password.",
        'mysql -p"$DB_PASSWORD" shop',
        "curl -u $USER:$PASS https://example.com",
        "curl -u user:<password> https://example.com",
        "curl --user-agent agent:smith https://example.com",
        "curl -H 'Accept: text/html' https://example.com",
        "wget -p https://example.com",
        "docker run -u 1000:1000 -p 8080:80 image",
        "ssh -p 2222 host",
        "git log --grep password src",
        "git commit -m 'set the password field'",
        "npm config get registry",
        "ls -p; mkdir -p a/b; cp -p a b",
        "echo hello | sudo tee file",
        "openssl enc -aes-256-cbc -in a -out b",
        "kubectl create configmap c --from-literal=color=blue1",
        "unrar x -p- in.rar",
        "redis-cli -h cache ping",
        "setenv EDITOR vim",
        "setenv DB_PASSWORD $SECRET",
    ],
)
def test_what_only_looks_like_it_stays(line: str) -> None:
    """Another program, an option that means something else, or what stands in the place of a secret."""
    assert redact(line) == line


def test_a_list_of_arguments_is_read_as_one_command() -> None:
    """As `exec` takes them, and as they are written down; without a secret, it is the very same list."""
    argv = ["docker", "exec", "db", "mysql", "-uroot", f"-p{SECRET}", "shop"]
    cleaned = [*argv[:-2], "-p[redacted:secret]", "shop"]
    assert redact_value({"argv": argv}) == {"argv": cleaned}
    assert redact_value(cleaned) == cleaned
    assert json.loads(redact(json.dumps(argv))) == cleaned
    assert redact(repr(["curl", "-u", f"a:{SECRET}"])) == "['curl', '-u', 'a:[redacted:secret]']"
    assert redact_value(["tool", "--password", SECRET, "--api-key", SECRET]) == [
        "tool", "--password", "[redacted:secret]", "--api-key", "[redacted:secret]"
    ]  # fmt: skip
    assert redact_value(["tool", "--password", "--verbose"]) == ["tool", "--password", "--verbose"]
    harmless = ["ls", "-p", "mysql"]
    assert redact_value(harmless) is harmless


@given(
    st.text(alphabet="abcXYZ019!%^@#+,./=~ ", min_size=3, max_size=20).filter(
        lambda s: s.strip() == s
    )
)
def test_quoted_secrets_of_any_letters_are_taken_out(secret: str) -> None:
    """However a shell has to quote it, nothing of it is left; what follows is."""
    for line in ("mysql -p{} shop", "sshpass -p {} ssh host", "zip -P {} out.zip"):
        head, tail = line.split("{}")
        cleaned = redact(head + shlex.quote(f"Q{secret}7") + tail)
        assert cleaned in (f"{head}[redacted:secret]{tail}", f"{head}'[redacted:secret]'{tail}")
