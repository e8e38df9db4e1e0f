"""Tokens that are known by their looks, service by service."""

from __future__ import annotations

import json
import re

import pytest

from hookline.redaction import redact, redact_value

A = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6hJ9kL2nP5rS8uV1"
HEX = "0123456789abcdef" * 4
UUID = "550e8400-e29b-41d4-a716-446655440000"

TOKENS = [
    ("discord-token", f"MTAx{A[:22]}.Gx3dE_.{A[:38]}"),
    ("notion-token", f"ntn_{A[:46]}"),
    ("notion-token", f"secret_{A[:43]}"),
    ("terraform-token", f"{A[:14]}.atlasv1.{A}{A[:16]}"),
    ("azure-client-secret", f"abc8Q~{A[:34]}"),
    ("supabase-key", f"sbp_{HEX[:40]}"),
    ("supabase-key", f"sb_secret_{A[:31]}"),
    ("langsmith-key", f"lsv2_pt_{HEX[:32]}_{HEX[:10]}"),
    ("new-relic-key", "NRAK-ABCDEFGHIJKLMNOPQRSTUVWX123"),
    ("new-relic-key", f"{HEX[:36]}NRAL"),
    ("atlassian-token", f"ATATT3xFfGF0{A}{A}=ABCDEF12"),
    ("atlassian-token", f"ATBB{A[:32]}"),
    ("postman-key", f"PMAK-{HEX[:24]}-{HEX[:34]}"),
    ("fly-token", f"fo1_{A[:43]}"),
    ("fly-token", f"fm2_{A}{A}=="),
    ("planetscale-token", f"pscale_tkn_{A[:43]}"),
    ("planetscale-token", f"pscale_pw_{A[:43]}"),
    ("mailgun-key", f"key-{HEX[:32]}"),
    ("mailgun-key", f"{HEX[:32]}-{HEX[:8]}-{HEX[:8]}"),
    ("langsmith-key", f"ls__{HEX[:32]}"),
    ("doppler-token", f"dp.pt.{A[:43]}"),
    ("doppler-token", f"dp.st.dev_ann.{A[:43]}"),
    ("password-hash", f"$2b$12${A}{A[:2]}"),
    ("password-hash", f"$6$rounds=5000${A[:16]}${A}{A[:35]}"),
    ("password-hash", f"$1${A[:8]}${A[:22]}"),
    ("password-hash", f"$y$j9T${A[:22]}${A[:43]}"),
    ("password-hash", f"$argon2id$v=19$m=65536,t=3,p=4${A[:22]}${A[:43]}"),
    ("password-hash", f"$7$CU..../....{A[:22]}${A[:43]}"),
    ("password-hash", f"$6$${A}{A[:35]}"),
    ("password-hash", f"$sha1$40000${A[:8]}${A[:28]}"),
    ("password-hash", f"$P$B{A[:30]}"),
    ("password-hash", f"SCRAM-SHA-256$4096:{A[:24]}${A[:43]}=:{A[:43]}="),
    ("password-hash", f"pbkdf2_sha256$600000${A[:22]}${A[:43]}="),
    ("password-hash", f"scrypt${A[:16]}$16384$8$1${A[:43]}="),
    ("password-hash", f"scrypt:32768:8:1${A[:16]}${HEX * 2}"),
    ("password-hash", f"pbkdf2:sha256:600000${A[:16]}${HEX}"),
    ("password-hash", f"$S$D{A}"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "token"), TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "x = '{}'", '{{"a": "{}"}}', "see {}, and go", "A={}\n", "({})"]
)
def test_a_token_is_found_wherever_it_stands(kind: str, token: str, around: str) -> None:
    """All of it goes, and nothing else."""
    assert redact(around.format(token)) == around.format(f"[redacted:{kind}]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://discord.com/api/webhooks/123456789012345678/{A}{A[:17]}",
         "https://discord.com/api/webhooks/123456789012345678/[redacted:discord-webhook]"),
        (f"Authorization: SSWS 00{A[:40]}", "Authorization: [redacted:okta-token]"),
        (f"okta.token: 00{A[:40]}", "okta.token: [redacted:okta-token]"),
        (f"FlyV1 fm2_{A}{A},fm2_{A}{A}", "FlyV1 [redacted:fly-token],[redacted:fly-token]"),
        ("localhost:5432:*:admin:pw", "localhost:5432:*:admin:[redacted:secret]"),
        ("*:*:app:admin:pw", "*:*:app:admin:[redacted:secret]"),
        ("Basic dXNlcjpodW50ZXIy", "Basic [redacted:basic-auth]"),
        (f"mailgun: {HEX[:32]}-{HEX[:8]}-{HEX[:8]}", "mailgun: [redacted:mailgun-key]"),
        (f"git clone https://{A[:40]}@github.com/a/b.git",
         "git clone https://[redacted:url-password]@github.com/a/b.git"),
        (f"root:$6$abcdefgh${A}{A[:35]}:19000:0:99999:7:::",
         "root:[redacted:password-hash]:19000:0:99999:7:::"),
        ("localhost:5432:shop:ann:hunter2", "localhost:5432:shop:ann:[redacted:secret]"),
        ("12:localhost:5432:shop:ann:hunter2", "12:localhost:5432:shop:ann:[redacted:secret]"),
        ("12-db.example.com:5999:shop:ann:hunter2", "12-db.example.com:5999:shop:ann:[redacted:secret]"),
        ("/a/.pgpass:3:*:*:*:ann:hunter2", "/a/.pgpass:3:*:*:*:ann:[redacted:secret]"),
        ("# a\n*:*:*:ann:hun\\:ter2\ndb.example.com:6432:shop:bob:pa$s!\n",
         "# a\n*:*:*:ann:[redacted:secret]\ndb.example.com:6432:shop:bob:[redacted:secret]\n"),
        ("[::1]:5432:shop:ann:hunter2", "[::1]:5432:shop:ann:[redacted:secret]"),
        ("\\:\\:1:5432:shop:ann:hunter2", "\\:\\:1:5432:shop:ann:[redacted:secret]"),
        ("/var/run/postgresql:5432:shop:ann:pw", "/var/run/postgresql:5432:shop:ann:[redacted:secret]"),
        ("localhost:5432:my shop:ann b:hunter2 and more",
         "localhost:5432:my shop:ann b:[redacted:secret]"),
        ("db.example.com:5432:my shop:ann:hunter2", "db.example.com:5432:my shop:ann:[redacted:secret]"),
        (f"https://{A[:16]}:@example.com/x", "https://[redacted:url-password]@example.com/x"),
        (f"https://{'abcdefghij' * 3}@example.com/x", "https://[redacted:url-password]@example.com/x"),
        (f"{{SSHA}}{A[:32]}", "{SSHA}[redacted:password-hash]"),
        (f"AZURE_DEVOPS_EXT_PAT={A.lower()}a", "AZURE_DEVOPS_EXT_PAT=[redacted:secret]"),
        (f"github_pat={A.lower()}", "github_pat=[redacted:secret]"),
        (f'{{"gitlab_pat": "{A.lower()}"}}', '{"gitlab_pat": "[redacted:secret]"}'),
        (f'{{"GH_PAT": "{A.lower()}"}}', '{"GH_PAT": "[redacted:secret]"}'),
        (f"HEROKU_API_KEY={UUID}", "HEROKU_API_KEY=[redacted:secret]"),
        (f"POSTMARK_SERVER_TOKEN={UUID}", "POSTMARK_SERVER_TOKEN=[redacted:secret]"),
        (f'{{"server-token": "{UUID}"}}', '{"server-token": "[redacted:secret]"}'),
    ],
)  # fmt: skip
def test_a_token_is_found_next_to_its_name(text: str, shown: str) -> None:
    """Where the looks are not enough, what stands before it decides."""
    assert redact(text) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        UUID,
        f"id: {UUID}",
        f"token={UUID}",
        f"row_key={UUID}",
        f"00{A[:40]}",
        "secret_santa_list_of_people_who_take_part_in_it",
        f"cache-key-{HEX[:32]}",
        "https://ann@example.com/",
        "https://john.smith@example.com/inbox",
        "https://medium.com/@someone/a-title-2024",
        "https://example.com/path/@scope/package-1234567890",
        "git@github.com:owner/repository-2024.git",
        "src/app.py:1234:12:error:undefined",
        "db:5432:12:error:no",
        "db:1234:12:warning: a sentence",
        "localhost:8080:a:b: connection refused",
        "/tmp/app.py:1234:a:b:undefined",
        "Makefile:1234:a b:c d:e f g",
        "https://the-name-of-an-organisation@example.com/x",
        f"compat={A}",
        f"${{x}}$y${'z' * 40}",
        "{sha} is the id of the commit",
        "Use Basic authentication123 here",
        "app.py:1234:12:error:undefined-name",
        "2001:0db8:85a3:0000:8a2e",
        "127.0.0.1:8080:80",
        "12:34:56:78:9a:bc",
        "Module.submod.a_name_of_a_function_that_is_long",
        "MyVeryLongModuleNameIsHere.python.another_long_name_of_a_thing",
        "costs $6$ or $7$ apiece, $1$ off",
        "kind: ConfigMap\ndata:\n  mode: dGVzdA==\n",
        "kind: SecretStore\ndata:\n  mode: dGVzdA==\n",
    ],
)
def test_text_that_looks_like_a_token_is_not_redacted(text: str) -> None:
    """Ids, addresses, messages of compilers and names of modules stay as they are."""
    assert redact(text) == text


BODY = [f"{A}{A}"[at : at + 64] for at in range(8)] + ["aGVsbG8="]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]


@pytest.mark.parametrize(
    "line",
    ["{}", "> {}", ">> {}", "    | {}", "# {}", "// {}", "+{}", '"{}\\n"', "  '{}',", '  "{}" +'],
)
def test_a_key_is_found_line_by_line(line: str) -> None:
    """As a quotation in a mail, as a comment, as the source of a program: all of it goes, and what follows stays."""
    shown = redact("\n".join([*map(line.format, KEY), "", "Ordinary text follows."]))
    assert not [each for each in BODY if each in shown]
    assert shown.endswith("\n\nOrdinary text follows.")


def test_the_end_of_a_quoted_key_is_found() -> None:
    """Its beginning may have been left out."""
    assert redact("\n".join(f"> {each}" for each in KEY[3:])) == "[redacted:private-key]"


# --- secrets of Kubernetes ----------------------------------------------------------------------


MARK = "[redacted:secret]"
VALUE = "aHVudGVyMg=="


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"apiVersion: v1\ndata:\n  a: {VALUE}\n  b.c: {VALUE}\nkind: Secret\n",
         f"apiVersion: v1\ndata:\n  a: {MARK}\n  b.c: {MARK}\nkind: Secret\n"),
        (f"kind: Secret\ndata:\n  a: \"{VALUE}\"\ntype: Opaque\n",
         f'kind: Secret\ndata:\n  a: "{MARK}"\ntype: Opaque\n'),
        ("kind: Secret\nstringData:\n  user: it's-hidden\n",
         f"kind: Secret\nstringData:\n  user: {MARK}\n"),
        ("kind: Secret\nstringData:\n  user: \"hid\nden: \\\" hidden\"\n  other: hidden\ntype: x\n",
         f"kind: Secret\nstringData:\n  user: {MARK}\n  other: {MARK}\ntype: x\n"),
        ("kind: Secret\nstringData:\n  a: 'it''s'\n  b: \"'c'\"\n  c: 'd' # it's e\ntype: x\n",
         f"kind: Secret\nstringData:\n  a: '{MARK}'\n  b: \"{MARK}\"\n  c: {MARK}\ntype: x\n"),
        ("kind: 'Secret'\nstringData:\n  user: ann and bob\n",
         f"kind: 'Secret'\nstringData:\n  user: {MARK}\n"),
        (f"items:\n- apiVersion: v1\n  data:\n    a: {VALUE}\n  kind: Secret\n",
         f"items:\n- apiVersion: v1\n  data:\n    a: {MARK}\n  kind: Secret\n"),
        (f"kind: Secret\ndata:\n  a: {VALUE}\n---\nkind: ConfigMap\ndata:\n  a: {VALUE}\n",
         f"kind: Secret\ndata:\n  a: {MARK}\n---\nkind: ConfigMap\ndata:\n  a: {VALUE}\n"),
        (f'{{"data":{{"a":"{VALUE}","b":"{VALUE}"}},"kind":"Secret"}}',
         f'{{"data":{{"a":"{MARK}","b":"{MARK}"}},"kind":"Secret"}}'),
        ('last: |\n  {\\"data\\":{\\"a\\":\\"' + VALUE + '\\"},\\"kind\\":\\"Secret\\"}',
         'last: |\n  {\\"data\\":{\\"a\\":\\"' + MARK + '\\"},\\"kind\\":\\"Secret\\"}'),
    ],
)  # fmt: skip
def test_the_data_of_a_secret_is_found(text: str, shown: str) -> None:
    """Under whatever name, in YAML and in JSON; a ConfigMap is left alone."""
    assert redact(text) == shown
    assert redact(shown) == shown


LAYOUTS = [
    "kind: Secret\ndata: {v: @}\n",
    "kind: Secret\ndata:\n  {v: @, 'w': \"@\"}\ntype: x\n",
    "kind: Secret\ndata:\n\n  v: @\n\n  w: @\ntype: x\n",
    "kind: Secret\ndata: # first\n# second\n  # third\n  v: @ # fourth\ntype: x\n",
    'kind: Secret\ndata:\n  "v": @\n  \'w\': "@"\ntype: x\n',
    "kind: Secret\nstringData:\n  v: |\n    @\n\n    @\n  w: '@'\ntype: x\n",
    "kind: Secret\ndata:\n  v: !!binary |-\n    @\n  w: >\n    @\n",
    "kind:                            Secret\ndata:\n  v: @\n",
    '\'kind\' : !!str "Secret"\n"data" : &a\n  v: @\n',
    "kind: Secret\r\ndata:\r\n  v: @\r\ntype: x\r\n",
    "kind: SecretList\nitems:\n- data:\n    v: @\n  metadata:\n    name: x\n- data:\n    v: @\n",
    "+kind: Secret\n+data:\n+  v: @\n+type: x\n",
    " kind: Secret\n data:\n-  v: @\n+  v: @\n   w: @\n type: x\n",
    "> kind: Secret\n> data:\n>   v: @\n> type: x\n",
    "     8\tkind: Secret\n     9\tdata:\n    10\t  v: @\n    11\ttype: x\n",
    "8:kind: Secret\n9:data:\n10-  v: @\n11:type: x\n",
    "a-1.yaml:8:kind: Secret\na-1.yaml:9:data:\na-1.yaml-10-  v: @\na-1.yaml:11:type: x\n",
    "a.yaml:kind: Secret\na.yaml:data:\na.yaml:  v: @\na.yaml:type: x\n",
    "2026-01-01T00:00:09 kind: Secret\n2026-01-01T00:00:09 data:\n2026-01-01T00:00:10   v: @\n",
    "kind: Secret\ndata:\n  v: {{ .Values.x | b64enc }}\n{{- if .Values.y }}\n  w: @\n{{- end }}\n",
    '{"kind":"Secret","data":{"a":null,"x":"@"},"type":"Opaque"}',
    '{"kind" : "Secret", "data"\n:\n{\n  "a": "",\n  "x": "@"\n},\n"type": "Opaque"}',
    "{'kind': 'Secret', 'data': {'x': '@', 'y': '@'}, 'type': 'Opaque'}",
    '+  "kind": "Secret",\n+  "data": {\n+    "v": "@",\n+    "w": "@"\n+  },\n+  "type": "x"\n',
    '     9\t  "data": {\n    10\t    "v": "@"\n    11\t  },\n    12\t  "kind": "Secret"\n',
    '{"kind":"Secret","data":{"v":"@',
]
QUOTED = [layout for layout in LAYOUTS if not re.search(r"[:{,] @|'@'", layout)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, value) for text in LAYOUTS for value in (VALUE, "true", "hidden-12")),
        *((text, value) for text in QUOTED for value in ("it's-hidden", "!hidden", "#hidden")),
    ],
)
def test_the_layout_of_a_secret_makes_no_difference(text: str, value: str) -> None:
    """Blank lines, comments, quotes, diffs, `cat -n`, `grep`, templates and ends that are missing."""
    shown = text.replace("@", MARK)
    assert redact(text.replace("@", value)) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_quotes_within_a_secret_do_not_end_it(depth: int) -> None:
    """In JSON, and in JSON within JSON, as `kubectl` keeps what was applied last."""
    text = json.dumps({"kind": "Secret", "stringData": {"k": 'a"hidden', "l": "b\\"}, "type": "x"})
    shown = json.dumps({"kind": "Secret", "stringData": {"k": MARK, "l": MARK}, "type": "x"})
    for _ in range(depth):
        text, shown = json.dumps({"last": text}), json.dumps({"last": shown})
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        f"kind: ConfigMap\ndata:\n  a: {VALUE}\n",
        f"kind: SecretStore\ndata:\n  a: {VALUE}\n",
        "kind: Secret\nmetadata:\n  name: a\n  labels: {x: y}\ntype: Opaque\n",
        "kind: Secret\ndata: none\nmetadata:\n  name: a\n",
        "a secret (kind: Secret) has data: see below\n  for more\n",
        "kind: Secret\ndata:\nmetadata:\n  name: a\n",
    ],
)
def test_what_is_not_below_the_data_of_a_secret_stays(text: str) -> None:
    """Other kinds, other fields, and prose."""
    assert redact(text) == text


def test_a_list_of_secrets_is_found_as_a_value() -> None:
    """Its items do not say what they are."""
    items = {"kind": "SecretList", "items": [{"data": {"a": VALUE}, "type": "x"}, None]}
    shown = redact_value(items)
    assert shown["items"] == [{"data": {"a": MARK}, "type": "x"}, None]
    assert redact_value(shown) is shown


def test_the_data_of_a_secret_is_found_as_a_value() -> None:
    """As a tool that talks to a cluster gives it, alone and in a list."""
    secret = {"kind": "Secret", "metadata": {"name": "x"}, "data": {"a": VALUE}, "type": "Opaque"}
    plain = {"kind": "ConfigMap", "data": {"a": VALUE}}
    shown = redact_value({"items": [secret, plain]})
    assert shown["items"][0]["data"] == {"a": MARK}
    assert shown["items"][1] == plain
    assert redact_value(shown) is shown
    assert VALUE not in redact(json.dumps(secret, indent=2))


@pytest.mark.parametrize(
    "token",
    [
        "glpat-abcdEFGHijklMNOPqrst",
        "glrt-aBcd_Fgh-jklmNopqrst",
        "ghp_" + "aBcdEfghIj" * 3 + "klmnOp",
        "gho_" + "aBcdEfghIj" * 3 + "klmnOp",
        "npm_" + "aBcdEfghIj" * 3 + "klmnOp",
    ],
)
def test_a_token_of_full_length_needs_no_digit(token: str) -> None:
    """Of the tokens of GitLab, 3 in 100 have none. Words with hyphens are no tokens."""
    for text in (token, f"MY_TOKEN={token}", f"https://user:{token}@host/x", f"'{token}'"):
        assert token not in redact(text), text
    for text in ("glpat-some-words-with-hyphens-in-them", "npm_config_registry", "ghp_something"):
        assert redact(text) == text
