"""Tokens that are known by their looks: those of cloud providers, code hosts, models, and keys in general.

Each pattern reads every part of a text at most a fixed number of times: runs of letters are bounded, or cannot contain
what begins the pattern. So hostile text costs no more than other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int, str]
"""Where a secret begins and ends, and of what kind it is."""


class _Token(NamedTuple):
    kind: str
    hints: tuple[str, ...]
    """One of these is in every such token: a text without them need not be searched. In lower case."""
    pattern: re.Pattern[str]
    is_loose: bool = False
    """Whether names of other things look like this too, as long as they are made of words."""


def _token(kind: str, hints: str, pattern: str, *, is_loose: bool = False) -> _Token:
    return _Token(kind, tuple(hints.split()), re.compile(pattern), is_loose)


_START = r"(?<![\w-])"
_APART = r"(?<![A-Za-z0-9+])"
"""What comes before may belong to a name; in base64, a few letters come together by chance."""
_DIGIT = r"(?=[\w-]{0,80}\d)"

_TOKENS = (
    _token(
        "private-key",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?>(?:[^-\"'\\<>{}]++|\\[nrt]|-(?!----))*)"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    # The same in base64, as in the files of Kubernetes; certificates and public keys begin differently.
    _token(
        "private-key",
        "ls0tls1crudjti",
        r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[A-Za-z0-9+/]{20,}+={0,2}",
    ),
    _token("aws-key", "akia asia abia acca", _APART + r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("github-token", "gh", _START + r"gh[oprsu]_(?=[A-Za-z0-9]{0,80}\d)[A-Za-z0-9]{16,255}"),
    _token("github-token", "github_pat_", _START + r"github_pat_" + _DIGIT + r"\w{16,255}"),
    _token(
        "gitlab-token",
        "gl",
        _START + r"gl(?:pat|dt|ft|rt|rtr|soat|cbt|ptt|imt|agent|oas)-" + _DIGIT + r"[\w-]{16,255}",
    ),
    _token("slack-token", "xox xapp-", _START + r"(?:xox[abeoprs]|xapp-\d)-[\w-]{10,255}"),
    _token(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/]{20,255})",
    ),
    _token(
        "stripe-key",
        "k_live_ k_test_ whsec_",
        _START + r"(?:[rsp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,255}",
    ),
    _token("anthropic-key", "sk-ant-", _START + r"sk-ant-[\w-]{16,255}"),
    _token("openai-key", "sk-", _START + r"sk-(?!ant-)" + _DIGIT + r"[\w-]{16,255}", is_loose=True),
    _token("google-key", "aiza", _APART + r"AIza[\w-]{30,100}"),
    _token("google-token", "ya29. gocspx-", _START + r"(?:ya29\.|GOCSPX-)[\w-]{20,255}"),
    _token(
        "jwt", "eyj", r"(?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.(?:[\w-]{8,}+)?"
    ),
    _token("sendgrid-key", "sg.", _START + r"SG\.[\w-]{16,64}\.[\w-]{16,128}"),
    _token("huggingface-token", "hf_", _START + r"hf_" + _DIGIT + r"[A-Za-z0-9]{16,255}"),
    _token("npm-token", "npm_", _START + r"npm_" + _DIGIT + r"[A-Za-z0-9]{16,255}"),
    _token("pypi-token", "pypi-", _START + r"pypi-" + _DIGIT + r"[\w-]{16,255}"),
    _token(
        "api-key",
        "rk pk sk gsk_ xai- sess",
        _START + r"(?:[rps]k|gsk|xai|sess)[_-](?!(?:live|test)_|ant-)" + _DIGIT + r"[\w-]{16,255}",
        is_loose=True,
    ),
    _token(
        "api-key",
        "dop_v1_ shp dapi glsa_ dckr_pat_ lin_api_ figd_ rubygems_ hvs. sntry r8_ tvly- pplx- age-secret",
        _START
        + r"(?:dop_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}|glsa_[A-Za-z0-9]{32}"
        r"|dckr_pat_[\w-]{20,64}|lin_api_[A-Za-z0-9]{32,64}|figd_[\w-]{30,64}|rubygems_[a-f0-9]{32,64}"
        r"|hvs\.[\w-]{24,255}|sntry[su]_[\w+/=-]{30,255}|r8_[A-Za-z0-9]{30,64}|tvly-[\w-]{20,64}"
        r"|pplx-[A-Za-z0-9]{30,64}|AGE-SECRET-KEY-1[0-9A-Z]{50,70})",
    ),
    _token("bot-token", ":aa", _START + r"\d{8,10}:AA[\w-]{30,40}"),
    _token(
        "bearer-token",
        "bearer",
        r"(?i:\bbearer[ \t]{1,4})(?P<secret>(?=[\w.~+/-]{0,80}\d)[\w.~+/-]{16,}+=*+)",
    ),
    _token(
        "basic-auth",
        "basic",
        r"(?i:\bbasic[ \t]{1,4})(?P<secret>(?=[\w+/-]{0,80}\d)[\w+/-]{16,}+=*+)",
    ),
    _token(
        "secret",
        "password",
        r"(?i:\blogin[ \t]{1,4}[^\s\"'\\]{1,100}\s{1,4}password[ \t]{1,4})(?P<secret>[^\s\"'\\\[]{1,255}+)",
    ),
    _token(
        "secret",
        "--",
        r"(?i:--(?:[a-z-]{0,20}-)?(?:password|passwd|passphrase|token|secret|api-?key)[ \t=]{1,2})"
        r"(?P<secret>(?=[^\s\"'\\\[]{0,80}\d)[^\s\"'\\\[<$({-][^\s\"'\\\[]{3,255}+)",
    ),
    _token(
        "secret",
        "--",
        r"(?i:--(?:[a-z-]{0,20}-)?(?:password|passwd|passphrase)=)(?P<secret>(?!your|pass|xxx)[^\s\"'\\\[<$({*`-]"
        r"[^\s\"'\\\[]{2,255}+)",
    ),
    _token(
        "url-password",
        "://",
        r"://(?P<secret>[^/@\s\[?#:\"'\\<>]*+:[^/@\s\[?#\"'\\<>]++(?:@[^/@\s\[?#\"'\\<>]++){0,16})@",
    ),
    _token(
        "url-parameter",
        "key= sig= signature= token= secret= password=",
        r"(?i:[?&](?:[a-z_-]{0,20}[_-])?(?:api-?)?(?:key|sig|signature|token|secret|password)=)"
        r"(?P<secret>[^&\s\"'\[\\#<>]{12,}+)",
    ),
)  # fmt: skip


_SHORTEST = 8
"""No token is shorter."""

_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_NUMBER = r"(?:\t\d{1,7} {0,8})?"
_BODY_REVERSED = re.compile(
    rf"{_NUMBER}(?:(?:\n\r?|n\\(?:r\\)?)={{0,2}}(?:(?!n\\)[A-Za-z0-9+/]){{1,80}}{_NUMBER})+"
)
"""Lines of base64, last letter first, each perhaps with its number in a file before it."""
_LONGEST_BODY = 20_000
_LEAST_OF_A_KEY = 24
"""Letters before the end of a key that are no word of the text around it."""


def token_spans(text: str, lowered: str | None = None) -> Iterator[Span]:
    """Where tokens are in a text, in the order of their kinds. They may overlap."""
    if len(text) < _SHORTEST:
        return
    lowered = text.lower() if lowered is None else lowered
    for token in _TOKENS:
        if not any(hint in lowered for hint in token.hints):
            continue
        group = "secret" if "secret" in token.pattern.groupindex else 0
        for found in token.pattern.finditer(text):
            if token.is_loose and not _is_random(found[0]):
                continue
            start, end = found.span(group)
            yield start, end, token.kind
    if "-----end" in lowered:
        yield from _ends_of_keys(text)


def _ends_of_keys(text: str) -> Iterator[Span]:
    """Private keys of which the beginning was left out, by `tail` say. They are read backwards, each part once."""
    after = 0
    for found in _KEY_END.finditer(text):
        before = text[max(after, found.start() - _LONGEST_BODY) : found.start()]
        body = _BODY_REVERSED.match(before[::-1])
        if body is not None and body.end() >= _LEAST_OF_A_KEY:
            yield found.start() - body.end(), found.end(), "private-key"
        after = found.end()


_WORD = re.compile(r"[A-Za-z0-9]+")
_MIXED = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)")
_LETTER_AND_DIGIT = re.compile(r"(?=\d*[A-Za-z])(?=\D*\d)")


def _is_random(token: str) -> bool:
    """Whether some part of a token is no word and no number: `pk_users_email_2024` is the name of something."""
    return any(
        _MIXED.match(word) or (len(word) >= 12 and _LETTER_AND_DIGIT.match(word))
        for word in _WORD.findall(token)
    )
