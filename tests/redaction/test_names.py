from __future__ import annotations

import pytest

from hookline.redaction import redact


@pytest.mark.parametrize(
    "value",
    ['a"hunter2"', "''hunter2", "$'hunter2'", "a\\ hunter2", "a,hunter2", "hunter2", '"hunter2"'],
)
def test_the_value_of_a_shells_variable_is_a_word_of_the_shell(value: str) -> None:
    """However it is put together; a reference to another variable is none."""
    assert "hunter2" not in redact(f"DB_PASSWORD={value} ./run")
    assert redact("DB_PASSWORD=$OTHER ./run") == "DB_PASSWORD=$OTHER ./run"


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
    ],
)
def test_other_ways_to_give_a_shell_a_value(text: str, redacted: str) -> None:
    """What is appended, what is in brackets, and the value for the case that there is none; not a second time."""
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
