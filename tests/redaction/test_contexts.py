"""Every kind of token, in every context: what stands around a token does not hide it."""

from __future__ import annotations

import html
import json
import random
import re
import shlex
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.redaction import redact, token_spans
from hookline.redaction import tokens as redaction_tokens

LETTERS = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_letters,
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
}
TOKENS = """
    AKIA{U16} ASIA{U16} ABSK{b120}= bedrock-api-key-{b120}
    ghp_{A36} ghs_{A36} github_pat_{A22}_{A59}
    glpat-{w20} glrt-{w20} glffct-{w20} glpat-{A27}.01.{a9} GR1348941{w20}
    xoxb-{d12}-{d12}-{A24} xoxp-{d12}-{A24} xoxe.xoxp-1-{A60} xapp-1-A{A10}-{d12}-{h64} xoxd-{b80}= xwfp-{A30}
    sk_live_{A24} rk_test_{A24} pk_live_{A99} sk_org_live_{A24} whsec_{A32} whsec_{b32}=
    sk-ant-api03-{w93} sk-ant-oat01-{w93} sk-ant-admin01-{w93}
    sk-{A48} sk-proj-{w120} sk-svcacct-{w60} sk-or-v1-{h64}
    AIza{w35} ya29.{w60} ya29.c.{w60} GOCSPX-{w28} 1//0{w60}
    eyJ{A20}.eyJ{A40}.{w43} eyJ{A20}..{w16}.{w60}.{w22} eyJ{A20}.{w40}.{w16}.{w60}.{w22}
    SG.{w22}.{w43} hf_{A34} hf_{l34} api_org_{l34} npm_{A36} pypi-AgEIcHlwaS5vcmc{w60}
    gsk_{A52} xai-{A80} sess-{A40}
    dop_v1_{h64} doo_v1_{h64} shpat_{h32} shptka_{h32} dapi{h32} dapi{h32}-2 glsa_{A32}_{h8} glc_{b60}= dckr_pat_{w27}
    dckr_oat_{w32} lin_api_{A40} lin_oauth_{h64} figd_{w40} rubygems_{h48} hvs.{w90} hvb.{w90} sntrys_{b90}=
    sntryu_{h64} r8_{A37} tvly-{A32} pplx-{A48} AGE-SECRET-KEY-1{U58}
    MTAx{A21}.G{w4}x.{w38} mfa.{w84}
    ntn_{A46} secret_{A43} {A14}.atlasv1.{w67} {a3}8Q~{A34} {A52}JQQJ99{A26} {b76}+ASt{A6}==
    sbp_{h40} sbp_v0_{h40} sbp_oauth_{h40} sb_secret_{A31}
    lsv2_pt_{h32}_{h10} lsv2_sk_{h32}_{h10} ls__{h32}
    NRAK-{U27} NRII-{w32} NRJS-{h19} NRIQ-{w32} {h36}NRAL
    ATATT3xFfGF0{w170}={U8} ATCTT3xFfGN0{w170}={U8} ATSTT3xFfGN0{w170}={U8} ATBB{A32}
    PMAK-{h24}-{h34} PMAT-{U26} fm2_{b160}== fm1r_{b160} fo1_{w43} pscale_tkn_{A43} pscale_pw_{A43} pscale_oauth_{A43}
    key-{h32} {h32}-{h8}-{h8} dp.pt.{A43} dp.st.dev_ann.{A43} dp.said.{A43}
    $2b$12${A53} $6$rounds=5000${A16}${A86} $y$j9T${A22}${A43} $argon2id$v=19$m=65536,t=3,p=4${A22}${A43} $P$B{A30}
    pbkdf2_sha256$600000${A22}${A43}= scrypt:32768:8:1${A16}${h64} SCRAM-SHA-256$4096:{A24}${A43}=:{A43}=
    {d9}:AA{w33} LS0tLS1CRUdJTiBSU0Eg{b200}=
""".split()
"""What is random in a token is `{LETTERS length}`."""
IN_CONTEXT = [
    "https://hooks.slack.com/services/<T{U8}/B{U8}/{A24}>",
    "https://discord.com/api/webhooks/123456789012345678/<{w68}>",
    "okta_token=<00{w40}>",
    "{{SSHA}}<{b32}>",
    "https://<{A40}>@github.com/a/b.git",
    "https://<{l32}>@github.com/a/b.git",
    "postgres://me:<{A16}>@db.example.com/shop",
    "Bearer <{A40}>",
    "Basic <dXNlcjpo{A24}>",
    "machine\texample.com\tlogin\tme\tpassword\t<{A12}>",
    "tool --api-key=<{A24}>",
    "ALTER USER ann WITH PASSWORD '<{A12}>'",
    "CREATE USER ann IDENTIFIED BY '<{A12}>'",
    "tool --password=<{A24}>",
    "https://example.com/a?x=1&sig=<{A43}>",
]
"""Tokens that are found by what stands before them; the secret is in angle brackets."""
LINES = ["localhost:5432:shop:ann:<{A12}>", "db.example.com:5999:shop:ann:<{A12}>"]
"""The same, where the context is a line."""
KEY = "-----BEGIN RSA PRIVATE KEY-----\n<{b64}\n{b64}\n{b64}>\n-----END RSA PRIVATE KEY-----"

Context = Callable[[str], str]


def each_line(before: str, after: str = "") -> Context:
    """Something before and after each line."""
    return lambda text: "\n".join(f"{before}{line}{after}" for line in text.split("\n"))


def in_json(depth: int) -> Context:
    """A line of a text in JSON in JSON."""

    def wrap(text: str) -> str:
        text = f"first\n{text}\nlast"
        for _ in range(depth):
            text = json.dumps({"a": text})
        return text

    return wrap


ENCODED: dict[str, Context] = {
    "json": in_json(1),
    "json in json": in_json(2),
    "json in json in json": in_json(3),
    "repr": lambda text: repr(f"first\n{text}\nlast"),
    "repr of bytes": lambda text: repr(f"first\n\t{text}\r\nlast".encode()),
    "repr in json": lambda text: json.dumps(repr(f"first\t{text}\n")),
    "escaped letters": lambda text: f"\\u003d{text}\\x22",
    "address": lambda text: "https://a.b/c?d=" + quote(f" {text}\n", safe="") + "&e=1",
    "form": lambda text: "a=" + quote_plus(f"{text} \n") + "&e=1",
    "address in address": lambda text: quote(quote(f'"{text}"', safe=""), safe=""),
    "json in address": lambda text: quote(json.dumps({"a": f"b\n{text}\n"})),
    "address in json": lambda text: json.dumps({"a": quote(f"={text}&")}),
    "html": lambda text: "<td>" + html.escape(f'"{text}"') + "</td>",
    "colours": lambda text: f"\x1b[1;32m{text}\x1b[0m",
    "colours behind a letter": lambda text: f"\x1b[31mold\x1b[m\x1b[32m{text}\x1b[m",
    "colours in json": lambda text: json.dumps(f"\x1b[1;32m{text}\x1b[0m"),
    "colours in repr": lambda text: repr(f"\x1b[1;32m{text}\x1b[0m"),
    "colours of cat -v": lambda text: f"^[[32m{text}^[[0m",
    "other codes": lambda text: f"\x1bP0;1|17/ab\x1b\\{text}\x1bOA",
    "invisible letters": lambda text: f"\ufeff{text[:3]}\u200b{text[3:5]}\u00ad{text[5:]}\u2060",
    "character set": lambda text: f"\x1b(B{text}\x1b(B",
    "removed": each_line("-"),
    "added": each_line("+"),
    "removed twice": each_line("--"),
    "coloured diff": each_line("\x1b[31m-", "\x1b[m"),
    "diff in json": lambda text: json.dumps({"diff": f"@@\n-{text}\n+{text}\n"}),
}
"""What encodes a text, or its lines."""
IN_LINES = [
    "json",
    "json in json",
    "repr",
    "colours",
    "removed",
    "added",
    "coloured diff",
    "diff in json",
]
"""Those that leave a line a line."""
AROUND = [
    "{}", "a: {}", "- {}", "  - {}", "a:\n  - {}", "key={}", "export MY_VALUE={}", "set x {};", "'{}'", '"{}"', "`{}`",
    "({})", "[{}]", "{{{}}}", "<{}>", "|{}|", "| a | {} | b |", "a,{},b", "a;{};b", "a\t{}\tb", "see {}, and go",
    "see {}.", "file.txt:12:{}", "file.txt-12-{}", "12-{}", "12:{}", "a={}&b=1", "[-{}-]{{+x+}}", "用{}来",
    "=> {}", "/{}/",    "user:{}", "{}\n", "\n{}", "\ufeff{}", "\u200b{}", "a\x00{}\x00",
]  # fmt: skip
CONTEXTS = ENCODED | {around: around.format for around in AROUND}


def made(template: str, seed: int) -> str:
    """A token with random letters: at least a digit and, where there are both, a small and a capital letter."""
    choose = random.Random(seed)

    def letters(found: re.Match[str]) -> str:
        alphabet, length = LETTERS[found[1]], int(found[2])
        ends = [each for each in alphabet if each.isalnum()]
        while True:
            inner = "".join(choose.choices(alphabet, k=length - 2))
            text = choose.choice(ends) + inner + choose.choice(ends)
            wanted = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
            if length < 8 or all(
                set(text) & set(each) for each in wanted if set(each) & set(alphabet)
            ):
                return text

    return re.sub(r"\{(\w)(\d+)\}", letters, template).replace("{{", "{").replace("}}", "}")


def pieces_of(secret: str) -> set[str]:
    """The pieces of a secret that say something of it."""
    return {secret[at : at + 8] for at in range(len(secret) - 7)}


def assert_redacted(text: str, secret: str) -> None:
    """Nothing of the secret is left, and what is redacted does not change again."""
    shown = redact(text)
    assert "[redacted:" in shown
    assert [piece for piece in pieces_of(secret) if piece in shown] == [], (text, shown)
    assert redact(shown) == shown


def split(template: str, seed: int) -> tuple[str, str]:
    """A text, and the secret in it."""
    text = made(template, seed)
    before, _, rest = text.partition("<")
    secret, _, after = rest.partition(">")
    return f"{before}{secret}{after}", secret


SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("context", sorted(CONTEXTS))
@given(st.sampled_from(TOKENS), SEEDS)
@settings(deadline=None, max_examples=30)
def test_a_token_is_redacted_in_every_context(context: str, template: str, seed: int) -> None:
    """Wherever a token is written, nothing of it is left."""
    token = made(template, seed)
    assert_redacted(CONTEXTS[context](token), token)


@pytest.mark.parametrize("template", TOKENS)
def test_every_kind_of_token_is_redacted_in_every_context(template: str) -> None:
    """The same for each kind, so that none is left to chance."""
    for seed, context in enumerate(CONTEXTS.values()):
        token = made(template, seed)
        assert_redacted(context(token), token)


@pytest.mark.parametrize(
    ("context", "template"),
    [
        *((context, each) for context in ENCODED for each in (*IN_CONTEXT, KEY)),
        *((context, each) for context in IN_LINES for each in LINES),
    ],
)
@given(SEEDS)
@settings(deadline=None, max_examples=3)
def test_a_token_is_redacted_with_its_own_context(context: str, template: str, seed: int) -> None:
    """Its own context may be encoded, too."""
    text, secret = split(template, seed)
    shown = redact(ENCODED[context](text))
    parts = [part for part in secret.split("\n") if part]
    assert [part for each in parts for part in pieces_of(each) if part in shown] == []


@given(st.sampled_from(TOKENS), SEEDS, st.data())
@settings(deadline=None)
def test_a_token_with_a_coloured_part_is_redacted(
    template: str, seed: int, data: st.DataObject
) -> None:
    """As `grep --color` shows what it searched for."""
    token = made(template, seed)
    start = data.draw(st.integers(0, len(token) - 1))
    end = data.draw(st.integers(start + 1, len(token)))
    text = f"a: {token[:start]}\x1b[01;31m\x1b[K{token[start:end]}\x1b[m\x1b[K{token[end:]} b"
    shown = redact(text)
    assert re.sub(r"\x1b\[[0-9;]*[mK]", "", shown).startswith("a: [redacted:")
    assert [piece for piece in pieces_of(token) if piece in shown] == []


@pytest.mark.parametrize("place", range(len(redaction_tokens._PATTERNS)))
def test_every_pattern_has_an_example(place: int) -> None:
    """So a pattern that is added to the table is also tested in every context."""
    token, pattern = redaction_tokens._PATTERNS[place]
    examples = [made(each, 1) for each in TOKENS]
    examples += [split(each, 1)[0] for each in (*IN_CONTEXT, *LINES, KEY)]
    assert any(pattern.search(each) for each in examples), token.kind


@given(st.sampled_from(TOKENS), SEEDS)
@settings(deadline=None, max_examples=50)
def test_spans_are_places_in_the_text_itself(template: str, seed: int) -> None:
    """However a text is encoded, a span is where the token is written."""
    token = made(template, seed)
    text = f'{{"a": "b\\n{shlex.quote(token)} c"}}'
    spans = [text[start:end] for start, end, _ in token_spans(text)]
    assert token in spans
