from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.redaction import Redactor, redact


@pytest.mark.parametrize(
    "value",
    ['a"hunter2"', "''hunter2", "$'hunter2'", "a\\ hunter2", "a,hunter2", "hunter2", '"hunter2"'],
)
def test_the_value_of_a_shells_variable_is_a_word_of_the_shell(value: str) -> None:
    """However it is composed; a reference to another variable is no secret."""
    assert "hunter2" not in redact(f"DB_PASSWORD={value} ./run")
    assert redact("DB_PASSWORD=$OTHER ./run") == "DB_PASSWORD=$OTHER ./run"


def test_a_variable_in_a_list_hides_no_other_item() -> None:
    """As `docker inspect` prints them, also within another JSON text."""
    for quote in ('"', "'", '\\"'):
        items = [f"{quote}{item}{quote}" for item in ("PATH=/bin", "DB_PASSWORD=hunter22", "X=1")]
        for joint in (",", ", "):
            text = f"[{joint.join(items)}]"
            assert redact(text) == text.replace("hunter22", "[redacted:secret]")
        assert redact(f"[{items[1]}],") == f"[{items[1]}],".replace("hunter22", "[redacted:secret]")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("DB_PASSWORD+=hunter2 ./run", "DB_PASSWORD+=[redacted:secret] ./run"),
        ("DB_PASSWORD=[hunter2] ./run", "DB_PASSWORD=[redacted:secret] ./run"),
        ("DB_PASSWORD=${X:-hunter2} ./run", "DB_PASSWORD=${X:-[redacted:secret]} ./run"),
        ('DB_PASSWORD="${X-hunter2}" ./run', 'DB_PASSWORD="${X-[redacted:secret]}" ./run'),
        ("password: ${X:=hunter2}", "password: ${X:=[redacted:secret]}"),
        ("DB_PASS=hunter2 ./run", "DB_PASS=[redacted:secret] ./run"),
        ("export SMTP_PASS='a b c d'", "export SMTP_PASS='[redacted:secret]'"),
        ("PGPASSWORD=abc psql", "PGPASSWORD=[redacted:secret] psql"),
        ("PGPASSWORD='ab'; psql", "PGPASSWORD='[redacted:secret]'; psql"),
        ("DB_PASSWORD='a b' ./run", "DB_PASSWORD='[redacted:secret]' ./run"),
        ("docker run -e MY_TOKEN=hunter2 x", "docker run -e MY_TOKEN=[redacted:secret] x"),
        ("UID=sa;PWD=hunter2", "UID=sa;PWD=[redacted:secret]"),
        ("DB_PASSWORD=\\hunter2 ./run", "DB_PASSWORD=[redacted:secret] ./run"),
        ("password: \\hunter2", "password: [redacted:secret]"),
        ("password=\\dunter2\\d\nnext", "password=[redacted:secret]\nnext"),
        ("tool --password=\\hunter2 x", "tool --password=[redacted:secret] x"),
        (
            "machine a.b login me password \\hunter2",
            "machine a.b login me password [redacted:secret]",
        ),
    ],
)
def test_other_ways_to_give_a_shell_a_value(text: str, redacted: str) -> None:
    """An appended value, a value in brackets and a default value are redacted, once."""
    assert redact(text) == redacted
    assert redact(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD=[your password]",
        "DB_PASSWORD=[password] ./run",
        "DB_PASSWORD=${X:-$Y}",
        "DB_PASSWORD=${X:-}",
        "DB_PASSWORD=${X:-changeme}",
        "DB_PASSWORD=${X:-$(cat file)}",
        "second_pass = 'linear'",
        "pass: 12345678, fail: 0",
        "BYPASS=12345678",
        "password += get_password1()",
    ],
)
def test_what_stands_in_the_place_of_a_value_stays(text: str) -> None:
    """Words in brackets, references, and other things that pass."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "SECRET=1 ./run",
        "SECRET=true ./run",
        "USE_PASSWORD=no ./run",
        "PASSWORD=x ./run",
        "TOKEN=abc ./run",
        "MAX_TOKENS=4096",
        "NEXT_TOKEN=page2b ./run",
        "PWD=/home/ann/project ls",
        "OLDPWD=/x/y",
        "PWD='/x/y'",
        "curl -H 'Cookie: a=1; b=2' http://localhost",
        "# cookie: some words",
        "Authorization: see the documentation",
    ],
)
def test_what_says_nothing_stays(text: str) -> None:
    """Switches, small numbers, single letters, directories, sentences and cookies of a letter."""
    assert redact(text) == text


# --- Secrets that stand elsewhere than right behind their names, and names that only look like secrets


MARK = "[redacted:secret]"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("mysql://root:p@ss@host/db", "mysql://[redacted:url-password]@host/db"),
        ("<password>hunter2</password>", f"<password>{MARK}</password>"),
        ('<db:password type="x">a b</db:password>', f'<db:password type="x">{MARK}</db:password>'),
        ("password:\n  hunter2", f"password:\n  {MARK}"),
        ("db:\n  password: |\n    one\n    two\n  user: me", f"db:\n  password: |\n    {MARK}\n  user: me"),
        ('<add key="Password" value="hunter2"/>', f'<add key="Password" value="{MARK}"/>'),
        ('<property name="password">hunter2</property>', f'<property name="password">{MARK}</property>'),
        ('{"name": "DB_PASSWORD",\n  "value": "hunter2"}', f'{{"name": "DB_PASSWORD",\n  "value": "{MARK}"}}'),
        ('  ~ password      = "old12" -> "new12"', f'  ~ password      = "{MARK}" -> "{MARK}"'),
        ('  - secret_key               = "hunter2" -> null', f'  - secret_key               = "{MARK}" -> null'),
        ('[\n        "mysql",\n        "-phunter2"\n]', f'[\n        "mysql",\n        "-p{MARK}"\n]'),
        ("passphrase: a b c d", f"passphrase: {MARK}"),
        ("passphrase: correct horse battery staple\nnext", f"passphrase: {MARK}\nnext"),
        ("x-api-key: abcdef", f"x-api-key: {MARK}"),
        ("GET /\nx-api-key: abcdef\n", f"GET /\nx-api-key: {MARK}\n"),
        ("client_secret=abc", f"client_secret={MARK}"),
        ("-client_secret=abc\n+client_secret=def\n", f"-client_secret={MARK}\n+client_secret={MARK}\n"),
        ("-curl -u me:abcdef x\n", f"-curl -u me:{MARK} x\n"),
        ("password%3Dhunter2%26user%3Dann", f"password%3D{MARK}%26user%3Dann"),
        ("pass\x1b[31mword\x1b[0m=hunter2", f"pass\x1b[31mword\x1b[0m={MARK}"),
        ('{"a": "password: |\\n  one\\n  two\\nuser: me"}', f'{{"a": "password: |\\n  {MARK}\\nuser: me"}}'),
        ('{"user": "ann", "password": "hunt', f'{{"user": "ann", "password": "{MARK}'),
        ("export DB_PASSWORD='hunt", f"export DB_PASSWORD='{MARK}"),
        ("Don&#39;t: password=&quot;a b c&quot;", f"Don&#39;t: password=&quot;{MARK}&quot;"),
        ("grant=x&client_secret=abc&id=1", f"grant=x&client_secret={MARK}&id=1"),
    ],
)  # fmt: skip
def test_where_secrets_stand(text: str, redacted: str) -> None:
    """In addresses, tags, blocks, headers and forms they are found, and nothing around them is touched."""
    assert redact(text) == redacted
    assert redact(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "pk_index_users_email_2024",
        "sk-learn-contrib-imbalanced-1234567890",
        "token=550e8400-e29b-41d4-a716-446655440000",
        "password:\n  type: string",
        "password:\n  required",
        "<password></password>",
        "<token>string</token>",
        "passphrase: the words that protect it, or none.",
        "f(client_secret=secret, b=1)",
        "client_secret=client_secret",
        "http://localhost:8080/path@2x.png",
        "x-api-key: string",
        "self.password=password",
        'say("give password=" + x',
        'PASSWORD="$(cat',
        "set `password=` to a text",
    ],
)
def test_what_only_looks_like_a_secret(text: str) -> None:
    """Names of other things, schemas and code stay as they are."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "key", ["sk-proj-aB3dE5fG7hI9jK1lM3", "sk-0123456789abcdefghij", "pk_0a1b2c3d4e5f6g7h8"]
)
def test_keys_are_still_found(key: str) -> None:
    """What is no word and no number is a key."""
    assert redact(f"use {key}").startswith("use [redacted:")


@pytest.mark.parametrize("before", [40, 50, 56])
def test_a_known_value_in_folded_base64(before: int) -> None:
    """Base64 in lines of 76 letters hides nothing, as it is or within JSON."""
    secret = "correct-horse-battery-staple"
    folded = base64.encodebytes(b"x" * before + secret.encode()).decode()
    assert "\n" in folded.strip()
    redactor = Redactor(values=[secret])
    assert "[redacted:known-value]" in redactor.text(folded)
    assert "[redacted:known-value]" in redactor.text(json.dumps(folded))


def test_a_known_value_as_bytes_are_shown() -> None:
    """Letters that are several bytes are found as these."""
    secret = "Päss-wörd-42"
    assert "[redacted:known-value]" in Redactor(values=[secret]).text(repr(secret.encode()))


CONTINUED = "export DB_PASSWORD=hunter2hunter2 # done"


@given(st.sets(st.integers(1, len(CONTINUED) - 8)), st.sampled_from(["\\\n", "\\\r\n", "\\\\\\n"]))
def test_a_line_may_be_continued_anywhere(places: set[int], end: str) -> None:
    """A shell removes a backslash before a line break: in a name, before a value, in it, and as JSON has them."""
    text = "".join(end * (at in places) + letter for at, letter in enumerate(CONTINUED))
    redactor = Redactor()
    shown = redactor.text(text)
    assert re.sub(re.escape(end), "", shown) == "export DB_PASSWORD=[redacted:secret] # done"
    assert redactor.text(shown) == shown
    redactor.learn(text, shown)
    assert redactor.text("it is hunter2hunter2") == "it is [redacted:secret]"


@pytest.mark.parametrize(
    "text",
    [
        "PASSWORD={}",
        "HOME=/x\nexport DB_PASSWORD={}\nUSER=me",
        '["DB_PASSWORD={}","A=b"]',
        "docker run -e 'DB_PASSWORD={}' image",
        "A=1\\nDB_PASSWORD={}\\nB=2",
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        "hun&ter2",
        "hun|ter2",
        "hun;ter2",
        "hun)ter2",
        "hun<2>ter",
        "&hunter2",
        "|hunter2",
        ";hunter2",
        "(hunter2",
        "<hunter2",
    ],
)
def test_operators_of_a_shell_in_a_value(text: str, value: str) -> None:
    """A value that is alone on its line or between quotes is redacted to its end: no shell reads it there."""
    assert redact(text.format(value)) == text.format(MARK)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("HOME=/x\nDB_PASSWORD=correct horse\n", f"HOME=/x\nDB_PASSWORD={MARK}\n"),
        ("DB_PASSWORD=correct horse \nHOME=/x", f"DB_PASSWORD={MARK} \nHOME=/x"),
        ('  "DB_PASSWORD=correct horse",\n', f'  "DB_PASSWORD={MARK}",\n'),
        ('DB_PASSWORD=ab12"horse\n', f"DB_PASSWORD={MARK}\n"),
        ("DB_PASSWORD=hunter2 ./run --all", f"DB_PASSWORD={MARK} ./run --all"),
        ('["-c", "DB_PASSWORD=hunter2 ./run", "x"]', f'["-c", "DB_PASSWORD={MARK} ./run", "x"]'),
        ('"DB_PASSWORD={}",', '"DB_PASSWORD={}",'),
        ("DB_PASSWORD=&HOME=/x", "DB_PASSWORD=&HOME=/x"),
    ],
)
def test_blanks_and_quotes_in_a_value(text: str, redacted: str) -> None:
    """They belong to it in a list of variables, and not on a command line."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "PASSWORD={}; ls",
        "PASSWORD={}&&ls -l",
        "PWD={};UID=sa",
        "PASSWORD={}&USER=me",
        "(PASSWORD={})",
    ],
)
def test_what_follows_a_value(text: str) -> None:
    """A command, a setting or a field after a value stays."""
    assert redact(text.format("hunter2")) == text.format(MARK)


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD1",
        "PASSWORD_2",
        "DB_PASSWORD_PROD",
        "SECRET_KEY_V2",
        "API_KEY_EU_WEST",
        "password2",
    ],
)
def test_a_name_with_more_behind_it(name: str) -> None:
    """A number or a part of the name after a secret name says which one it is."""
    assert redact(f"{name}=hunter2") == f"{name}={MARK}"


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD_FILE=prod1.txt",
        "PASSWORD_MIN_LENGTH=12345",
        "PASSWORD_HASH=argon2id",
        "SECRET_NAME_1=prod-db-1",
        "API_KEY_HEADER=X-Key-1",
        "password_policy=strict1",
        "COOKIE_SAMESITE=lax",
    ],
)
def test_a_name_about_a_secret(text: str) -> None:
    """A variable that says where a secret is or how it is treated holds none."""
    assert redact(text) == text
