from __future__ import annotations

import base64
import html
import importlib.util
import io
import json
import logging
import random
import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.errors import ToolError, UsageError
from hookline.redaction import (
    RedactingFilter,
    Redactor,
    has_mark,
    hides_only_words,
    is_secret_name,
    redact,
    redact_value,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow+/x=\n-----END RSA PRIVATE KEY-----"

TOKENS = {
    "aws-key": "AKIAIOSFODNN7EXAMPLE",
    "github-token": "ghp_abcdefghij0123456789abcdefghij012345",
    "gitlab-token": "glpat-abcDEF1234567890abcd",
    "slack-token": "xoxb-123456789012-abcdefghij",
    "stripe-key": "sk_live_abcdefghij1234567890",
    "openai-key": "sk-proj-abc123abc123abc123abc123",
    "anthropic-key": "sk-ant-api03-abcdefghijklmnop-QA",
    "google-key": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "google-token": "ya29.a0AfH6SMBx1234567890abcdef",
    "jwt": JWT,
    "private-key": PEM,
    "huggingface-token": "hf_abcdefghijklmnop12345",
    "npm-token": "npm_abcdefghijklmnop12345",
    "sendgrid-key": "SG.abcdefghijklmnop1234.abcdefghijklmnop1234",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(TOKENS))
@pytest.mark.parametrize("around", ["{}", "see {}.", '"{}"', "x={}", "({})", "https://a.b/c/{}?d"])
def test_tokens_are_known_by_their_looks(kind: str, around: str) -> None:
    """Wherever a token stands, its kind stands there instead, and nothing else changes."""
    text = around.format(TOKENS[kind])
    assert redact(text) == around.format(f"[redacted:{kind}]")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgres://user:s3cret@host/db", "postgres://[redacted:url-password]@host/db"),
        ("redis://:pa55@host", "redis://[redacted:url-password]@host"),
        ("Bearer abcdef0123456789abcdef", "Bearer [redacted:bearer-token]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:secret]"),
        ("x-api-key: abcdef12", "x-api-key: [redacted:secret]"),
        ("password=hunter2", "password=[redacted:secret]"),
        ("DB_PASSWORD=hunter", "DB_PASSWORD=[redacted:secret]"),
        ("export API_KEY='a b c d'", "export API_KEY='[redacted:secret]'"),
        ('{"api_key": "abc def"}', '{"api_key": "[redacted:secret]"}'),
        (r'"{\"password\": \"abcd\"}"', r'"{\"password\": \"[redacted:secret]\"}"'),
        ("Server=x;Password=ab12cd;Db=y", "Server=x;Password=[redacted:secret];Db=y"),
        ("AccountKey=abcd1234efgh==;x", "AccountKey=[redacted:secret];x"),
        ("Cookie: session=abc; b=2", "Cookie: [redacted:secret]"),
        ("aws_secret_access_key = wJalrXUtnF/K7MDENG1", "aws_secret_access_key = [redacted:secret]"),
        ("https://a.b/c?x=1&sig=abcdefghijklmnop", "https://a.b/c?x=1&sig=[redacted:url-parameter]"),
        ('token: "ab12cd34ef56"', 'token: "[redacted:secret]"'),
        ("signing_key=Zm9vYmFyQmF6UXV4MTIzNDU2Nzg", "signing_key=[redacted:secret]"),
        ("machine a.b login me password s3same", "machine a.b login me password [redacted:secret]"),
        ("gh auth --with-token abc123 --x", "gh auth --with-token [redacted:secret] --x"),
        ("tls.key: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2", "tls.key: [redacted:private-key]"),
        ("my_key = 'Zm9vYmFyQmF6UXV4MTIzNDU2Nzg'", "my_key = '[redacted:secret]'"),
    ],
)  # fmt: skip
def test_secrets_behind_names_and_in_addresses(text: str, redacted: str) -> None:
    """The value behind a secret's name, or between `://` and `@`, is redacted, and the rest stays."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "e65c520aa94387bfa98ab5be4e929e69419d6abc",
        "commit e65c520aa94387bfa98ab5be4e929e69419d6abc",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "key: e65c520aa94387bfa98ab5be4e929e69419d6abc",
        "password = get_password()",
        "token: str = None",
        "max_tokens=4096",
        "nextPageToken: CAUQAA1234567890",
        "the password is required, and the token: see below",
        "api_key=os.environ['X']",
        "password: ${PASSWORD}",
        "secret = config.secret_value1",
        "print(f'token={token}')",
        '<input type="password" name="password">',
        "sk-learn-contrib-foo-bar-baz",
        "http://example.com:8080/a@b",
        "git@github.com:foo/bar.git",
        "primary_key=abcDEF1234567890abcdEFGH",
        "tokenizer=bert-base-uncased2",
        "tls.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUR6VENDQXJXZ0F3SUJBZ0lVZQ==",
        "run it with --token TOKEN or --password <password>, --api-key $KEY1",
        "password=<your password>",
        "password=********",
        '{"session_id": "550e8400-e29b-41d4-a716-446655440000", "key": "uploads/2024/abcDEF123456.png"}',
        "x = {'keys': ['a1', 'b2'], 'author': 'Jane 2024'}",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Hashes, ids, code, placeholders and prose are left as they are."""
    assert redact(text) == text


def test_a_token_of_letters_only() -> None:
    """Those of Hugging Face have no digit; a name that begins so and is longer or shorter is none."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    assert letters not in redact(f"HF_TOKEN=hf_{letters}")
    assert letters not in redact(f"see hf_{letters}.")
    assert redact(f"hf_{letters}more") == f"hf_{letters}more"


def test_pictures_stay() -> None:
    """What is random all the same, bytes in base64, is not taken for keys."""
    content = random.Random(7).randbytes(300_000)
    for picture in (base64.b64encode(content), base64.urlsafe_b64encode(content)):
        text = f'{{"image": "data:image/png;base64,{picture.decode()}"}}'
        assert redact(text) == text


# --- values -------------------------------------------------------------------------------------------


def test_values_by_key_name() -> None:
    """In JSON a field with a secret's name is hidden, at any depth; its neighbours are not."""
    value = {
        "user": "ann",
        "password": "correct horse",
        "nested": [{"clientSecret": "x1", "count": 3}],
        "env": [{"name": "DB_PASSWORD", "value": "abc"}, {"name": "HOME", "value": "/root"}],
        "api_keys": ["a1", "b2"],
        "pin_password": 1234,
        "has_password": True,
        "token": "word",
        "auth_token": None,
        "text": f"see {TOKENS['github-token']}",
    }
    hidden = "[redacted:secret]"
    assert redact_value(value) == {
        **value,
        "password": hidden,
        "nested": [{"clientSecret": hidden, "count": 3}],
        "env": [{"name": "DB_PASSWORD", "value": hidden}, {"name": "HOME", "value": "/root"}],
        "api_keys": [hidden, hidden],
        "pin_password": hidden,
        "text": "see [redacted:github-token]",
    }


def test_a_value_without_secrets_is_the_same_object() -> None:
    """Nothing is copied where nothing is to be taken out."""
    value = {"a": [1, "b", {"c": None}], "d": 1.5}
    assert redact_value(value) is value


def test_a_token_has_one_mark_wherever_it_stands() -> None:
    """Behind a name, in a text or alone: the same secret is replaced by the same mark."""
    token = TOKENS["github-token"]
    assert redact_value({"password": token}) == {"password": "[redacted:github-token]"}
    assert redact(f"password={token}") == "password=[redacted:github-token]"
    known = Redactor(values={"deploy key": token})
    assert known.value({"password": token, "x": token})["password"] == "[redacted:deploy-key]"
    assert known.text(f"password={token}") == "password=[redacted:deploy-key]"


@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("password", "strong"),
        ("DB_PASSWORD", "strong"),
        ("userPassword", "strong"),
        ("X-Api-Key", "strong"),
        ("client_secret", "strong"),
        ("passwords", "strong"),
        ("token", "weak"),
        ("some_key", "weak"),
        ("next_page_token", ""),
        ("public_key", ""),
        ("max_tokens", "weak"),
        ("monkey_count", ""),
        ("author", ""),
        ("", ""),
    ],
)
def test_names(name: str, strength: str) -> None:
    """The words of a name decide whether its value is a secret."""
    assert is_secret_name(name) == strength


# --- known values -------------------------------------------------------------------------------------

SECRETS = st.text(
    string.ascii_letters + string.digits + string.punctuation, min_size=8, max_size=40
)
SPELLINGS = {
    "plain": lambda value: value,
    "json": lambda value: json.dumps(value)[1:-1],
    "json in json": lambda value: json.dumps(json.dumps(value))[1:-1],
    "url": lambda value: quote(value, safe=""),
    "form": quote_plus,
    "html": html.escape,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 of more": lambda value: base64.b64encode(f"user:{value}!".encode()).decode(),
    "base64 for addresses": lambda value: base64.urlsafe_b64encode(f"x{value}".encode()).decode(),
    "hex": lambda value: value.encode().hex(),
    "upper hex": lambda value: value.encode().hex().upper(),
    "escaped": lambda value: "".join(f"\\u{ord(letter):04x}" for letter in value),
}


@given(SECRETS, st.sampled_from(sorted(SPELLINGS)), st.text("ab \n:.,", max_size=8))
@settings(deadline=None)
def test_no_known_value_survives_in_any_spelling(secret: str, spelling: str, around: str) -> None:
    """However it is encoded, nothing is left of it from which it could be made again."""
    if re.search(re.escape(secret), "[redacted:known-value secret password]", re.IGNORECASE):
        return
    redactor = Redactor(values=[secret])
    spelled = SPELLINGS[spelling](secret)
    text = redactor.text(f"{around}{spelled}{around}")
    assert secret not in text
    core = spelled.strip("=")[3:-3] if spelling.startswith("base64") else spelled
    assert core not in text
    assert redactor.text(text) == text


@given(
    st.lists(
        st.one_of(
            st.sampled_from([*TOKENS.values(), "hunter2-known", "password=", "token: ", '"', "\\"]),
            st.sampled_from(
                ["[redacted:jwt]", "://", "@", "Bearer ", "=", " ", "\n", "ghp_", "sk-"]
            ),
            st.text(max_size=6),
        ),
        max_size=12,
    )
)
@settings(deadline=None)
def test_redacting_twice_is_redacting_once(pieces: list[str]) -> None:
    """What was redacted is left as it is, whatever stands beside it."""
    redactor = Redactor(values=["hunter2-known"])
    once = redactor.text("".join(pieces))
    assert redactor.text(once) == once
    assert "hunter2-known" not in once


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=10),
        st.sampled_from([*TOKENS.values(), 'he said "x"', "password=hunter2", "a\\b", "C:\\n"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["password", "token", "a", "note", "authorization", "cookie"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 2]))
@settings(deadline=None)
def test_json_stays_json(value: Any, indent: int | None) -> None:
    """JSON text that is redacted can still be read, and has the same shape; so has JSON within JSON."""
    text = json.dumps(value, indent=indent)
    assert shape(json.loads(redact(text))) == shape(value)
    packed = json.loads(redact(json.dumps({"said": text})))
    assert isinstance(packed["said"], str)


def shape(value: Any) -> Any:
    """A value with its leaves left out."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else None


@given(st.text(string.ascii_letters + string.digits + " \n.,;()-_/", max_size=200))
def test_text_without_secrets_is_unchanged(text: str) -> None:
    """Text that assigns nothing and has no token in it is the same text."""
    if not re.search(r"(?i)bearer|basic|AKIA|AIza|-----|sk-|gh._|_", text):
        assert redact(text) == text


def test_numbers_and_keys_of_mappings() -> None:
    """A known value may be a number, or the name of a field."""
    redactor = Redactor(values=["123456789"])
    assert redactor.value({"n": 123456789, "123456789": 1, "m": 12}) == {
        "n": "[redacted:known-value]",
        "[redacted:known-value]": 1,
        "m": 12,
    }


def test_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables, patterns and names of one's own; and errors that do not say the secret."""
    monkeypatch.setenv("MY_TOKEN", "abc-def-ghi")
    redactor = Redactor(
        environment=["MY_TOKEN", "NOT_SET"],
        patterns={"ticket": r"T-\d{4}", "code": r"code (?P<secret>\d+)"},
        names=["Kennwort"],
    )
    said = "abc-def-ghi, T-1234, code 99, kennwort: geheim, 'kennwort': 'so geheim'"
    assert redactor.text(said) == (
        "[redacted:my_token], [redacted:ticket], code [redacted:code], kennwort: [redacted:secret], "
        "'kennwort': '[redacted:secret]'"
    )
    assert redactor.value({"Kennwort": "x"}) == {"Kennwort": "[redacted:secret]"}
    for wrong in ({"values": ["abc"]}, {"values": "one text"}, {"patterns": {"x": "("}}):
        with pytest.raises(UsageError) as raised:
            Redactor(**wrong)  # type: ignore[arg-type]
        assert "abc" not in str(raised.value)
    with pytest.raises(UsageError, match="would replace it"):
        Redactor(values=["redacted"])
    monkeypatch.setenv("SHORT", "abc")
    with pytest.raises(UsageError, match="the secret 'SHORT' has 3 letters"):
        Redactor(environment=["SHORT"])
    with pytest.raises(UsageError, match="takes texts, not int"):
        Redactor(values={"pin": 12345})  # type: ignore[dict-item]
    monkeypatch.setenv("FILED", "from-a-file\n")
    assert Redactor(environment=["FILED"]).text("from-a-file") == "[redacted:filed]"


def test_exceptions_are_redacted_in_place() -> None:
    """What an exception says, what led to it, its notes and its remedy."""
    token = TOKENS["github-token"]
    cause = ValueError(f"bad {token}")
    error = ToolError(f"no {token}", remedy=f"not {token}")
    error.__cause__ = cause
    cause.__context__ = error  # they may lead to each other
    error.add_note(f"noted {token}")
    Redactor().exception(error)
    group = ExceptionGroup(token, [KeyError(token)])
    Redactor().exception(group)
    said = f"{error!r} {error} {error.message} {error.remedy} {error.__notes__} {cause} {group.exceptions}"
    assert token not in said
    assert str(error) == "no [redacted:github-token] not [redacted:github-token]"


def test_patterns_come_by_kind() -> None:
    """A list of them has no word for what stands in their place."""
    with pytest.raises(UsageError, match="patterns= takes them by kind, not as list"):
        Redactor(patterns=[r"T-\d+"])  # type: ignore[arg-type]


TOKEN = "ghp_abcdefghij0123456789abcdefghij012345"


def test_logs_say_no_secrets() -> None:
    """Messages, arguments, tracebacks and added fields are redacted, in every handler that has the filter."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(message)s %(password)s %(more)s"))
    handler.addFilter(RedactingFilter(Redactor(values=["a known value"])))
    log = logging.getLogger("tests.redaction")
    log.propagate = False
    log.addHandler(handler)
    try:
        try:
            raise ValueError(f"bad {TOKEN}")
        except ValueError:
            log.exception(
                "using %s and %s", TOKEN, "a known value", extra={"password": "x1", "more": 7}
            )
        log.error("two %s %s", TOKEN, extra={"password": None, "more": [TOKEN]})
    finally:
        log.removeHandler(handler)
    said = written.getvalue()
    assert TOKEN not in said
    assert "a known value" not in said
    assert "using [redacted:github-token] and [redacted:known-value] [redacted:secret] 7" in said
    assert "ValueError: bad [redacted:github-token]" in said


# --- how much of our own source and docs redaction takes for secrets ----------------------------------


ROOT = Path(__file__).resolve().parents[2]
SHOWS_SECRETS = ROOT / "docs" / "capabilities" / "redaction.md"


def _script() -> Any:
    spec = importlib.util.spec_from_file_location(
        "redaction_hits", ROOT / "scripts/redaction_hits.py"
    )
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(("folder", "most"), [("src", 4), ("docs", 5)])
def test_own_texts_have_no_new_false_positives(folder: str, most: int) -> None:
    """A new pattern that finds more here finds what is no secret; `scripts/redaction_hits.py --show` shows it."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {made}"
        for path, number, made in _script().hits(ROOT / folder)
        if path != SHOWS_SECRETS
    ]
    assert len(found) <= most, "\n".join(found)


# --- marks --------------------------------------------------------------------------------------


MARK = "[redacted:secret]"


@pytest.mark.parametrize(
    ("args", "shown", "is_readable"),
    [
        ({"command": "A=x ls"}, {"command": f"A={MARK} ls"}, True),
        ({"command": "A=x B=y ls"}, {"command": f"A={MARK} B={MARK} ls"}, True),
        ({"command": "A=p@ss$word-1 ls"}, {"command": f"A={MARK} ls"}, True),
        ({"command": "A=x;id ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=x id ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=$(id) ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=`id` ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=x\nid"}, {"command": f"A={MARK}"}, False),
        ({"command": "id"}, {"command": MARK}, True),
        ({"command": "id; ls"}, {"command": MARK}, False),
        ({"password": "two words; and more"}, {"password": MARK}, True),
        ({"env": {"TOKEN": "x1"}}, {"env": {"TOKEN": MARK}}, True),
        ({"env": {"TOKEN": "x 1"}}, {"env": {"TOKEN": MARK}}, False),
        ({"argv": ["a", "b"]}, {"argv": ["a", MARK]}, True),
        ({"argv": ["a", "b"]}, {"argv": [MARK]}, False),
        ({"pin": 1234}, {"pin": MARK}, True),
        ({"a": "x"}, {}, False),
        ({"a": "xy"}, {"a": "zy"}, False),
    ],
)
def test_a_mark_stands_for_one_word(
    args: dict[str, Any], shown: dict[str, Any], is_readable: bool
) -> None:
    """Who reads the marks has read all that can run."""
    assert hides_only_words(args, shown) is is_readable


@given(st.lists(st.text("ab=;$(' ", max_size=6), min_size=1, max_size=6))
def test_what_is_hidden_can_be_put_back(parts: list[str]) -> None:
    """If a text counts as readable, words in the places of the marks make it what it is."""
    text = "x".join(parts)
    shown = text.replace("a", MARK)
    if hides_only_words({"command": text}, {"command": shown}) and text != shown:
        hidden = text.split("a")
        assert shown.split(MARK) == hidden


def test_marks_are_found_at_any_depth() -> None:
    """In values, lists and objects."""
    assert has_mark({"a": [{"b": f"x {MARK}"}]})
    assert not has_mark({"a": ["[redacted]", 1, None], MARK: 2})


@given(st.text("ab \n", max_size=20), st.integers(0, 40))
def test_a_secret_is_found_though_it_comes_in_two_pieces(around: str, cut: int) -> None:
    """Nothing of it is in the second piece, wherever it is cut."""
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    text = f"{around} {token} {around}"
    place = len(around) + 1 + cut
    shown = Redactor().text(text[place:], before=text[:place])
    assert shown == ("[redacted:github-token]" if cut < len(token) else "") + f" {around}"
