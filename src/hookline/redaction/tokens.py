"""Tokens that are recognised by their form: of cloud providers, code hosts, models, and keys in general.

Each pattern reads a part of a text only a fixed number of times: repeats are bounded, or cannot contain the beginning
of the pattern. So hostile text costs no more than other text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from hookline.redaction.readings import Span, find_in_readings
from hookline.secret_tables import TOKENS, TokenPattern

BEFORE_WORD = r"(?<!\w)(?<![A-Za-z_]-)(?<![A-Za-z_]--)"
"""Before a word of its own: no letter, nor a name and a hyphen. The sign of a diff, and the number of a line, may."""
_BEFORE = r"(?<![A-Za-z0-9])(?<![\w-]{40})"
"""Before a token: no letter. A name may, but not the many letters of a picture in base64."""
_AFTER, _AFTER_WORD = r"(?![A-Za-z0-9])", r"(?!-{0,2}\w)"


def _compile(token: TokenPattern) -> re.Pattern[str]:
    """The pattern of a token with what may stand before and after it; one with a context of its own says it itself.

    Only letters of ASCII count: in Chinese and Japanese, words are not separated.
    """
    pattern = token.pattern
    if "(?P<secret>" not in pattern:
        before, after = (BEFORE_WORD, _AFTER_WORD) if token.is_loose else (_BEFORE, _AFTER)
        pattern = f"{before}(?:{pattern}){after}"
    return re.compile(pattern, re.ASCII)


_PATTERNS = tuple((token, _compile(token)) for token in TOKENS)
_SHORTEST = 8
"""No token is shorter."""

_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_NUMBER = r"(?:\t\d{1,7} {0,8}|(?: {0,4}>){1,8})?"
_BODY_REVERSED = re.compile(
    rf"{_NUMBER}(?:(?:\n\r?|n\\(?:r\\)?)={{0,2}}(?:(?!n\\)[A-Za-z0-9+/]){{1,80}}{_NUMBER})+"
)
"""Lines of base64, last letter first, each perhaps with its number in a file before it, or quoted as in a mail."""
_LONGEST_BODY = 20_000
_LEAST_OF_A_KEY = 24
"""Letters before the end of a key that cannot be a word of the surrounding text."""


def token_spans(text: str) -> Iterator[Span]:
    """Where tokens are in a text, in all its readings. They may overlap."""
    return find_in_readings(text, lambda reading, _: tokens_in(reading, reading.lower()))


def tokens_in(text: str, lowered: str) -> Iterator[Span]:
    """Where tokens are in one reading of a text, in the order of their kinds. They may overlap."""
    if len(text) < _SHORTEST:
        return
    for token, pattern in _PATTERNS:
        if not any(hint in lowered for hint in token.hints):
            continue
        group = "secret" if "secret" in pattern.groupindex else 0
        for found in pattern.finditer(text):
            if token.is_loose and not _is_random(found[0]):
                continue
            if token.kind == "basic-auth" and not _is_user_and_password(found[group]):
                continue
            start, end = found.span(group)
            yield start, end, token.kind
    if "-----end" in lowered:
        yield from _ends_of_keys(text)


def _ends_of_keys(text: str) -> Iterator[Span]:
    """Private keys without their beginning, for example from `tail`. They are read backwards, each part once."""
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


def _is_user_and_password(packed: str) -> bool:
    """Whether base64 holds `user:password`, as the header `Basic` has it. "Basic" is a word of other texts, too."""
    whole = packed.rstrip("=")
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        content = base64.urlsafe_b64decode(
            whole.replace("+", "-").replace("/", "_") + "=" * (-len(whole) % 4)
        )
    except ValueError:
        return False
    return b":" in content


def _is_random(token: str) -> bool:
    """Whether a part of a token is neither a word nor a number: `pk_users_email_2024` is a name."""
    return any(
        _MIXED.match(word) or (len(word) >= 12 and _LETTER_AND_DIGIT.match(word))
        for word in _WORD.findall(token)
    )


# --- secrets of Kubernetes: all values below `data` and `stringData`, in YAML and in JSON -------
#
# Once a document says `kind: Secret`, no value in such a mapping is judged by its form. What a ConfigMap of the same
# document holds is taken out with them: to know whose `data` it is, the text would have to be whole and well-formed.


_Q = r"(?:\\{0,7}[\"'])?"
_IS_SECRET = re.compile(
    rf"\bkind{_Q}\s*+:\s*+(?:[!&]\S{{0,40}}\s{{1,8}}){{0,2}}{_Q}Secret(?:List)?(?![\w.-])"
)
_DOCUMENT = re.compile(r"(?m)^\+?---[ \t]*+\r?$")
_FIELD = re.compile(
    rf"(?<![\w.-])(?:data|stringData){_Q}\s*+:(?>(?:[ \t]|[!&][^\s{{}}]*+)*)(?:#[^\r\n]*+)?(?P<brace>\s*+\{{(?!\{{))?"
)
_MARGIN = " \t>|+:-"
"""What stands left of a name: blanks, and the signs of lists, diffs, quotations and `grep`."""
_LONGEST_MARGIN = 400
_SIMILAR = str.maketrans("123456789-", "000000000:")
"""What `grep`, `cat -n` and logs write before a line is the same for all lines, but for these."""
_LINE = re.compile(r"\r?\n([^\r\n]*+)")
_LINE_NUMBER = re.compile(r" *+\d*+")
_NAME = re.compile(r"[\"']?[\w.-]{1,253}[\"']?[ \t]*+:(?!\S)[ \t]*+")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*+")
_NOTHING = re.compile(r"(?>(?:\{\{[^{}]*+\}\}[ \t]*+)*)|\[redacted:[a-z0-9_.-]++\]")
"""Nothing, what only a template puts in, or a mark."""
_NO_VALUE = re.compile(r"(?>(?:[!&]\S*+[ \t]*+)*)(?:[|>][-+\d]{0,3}|null|~|\{\})?")
"""The same without quotes: what is before a text over several lines, or no text at all."""
_PIECE = re.compile(
    r"(?P<skipped>\n(?: *+\d++[:\t|-])?[ \t>|+-]*+|[^\S\n]++|[,:]++|\\++[nrt]|#[^\n]*+|\{\{[^{}]*+\}\}"
    r"|\[redacted:[a-z0-9_.-]++\])"
    r"|(?P<opened>[{\[])|(?P<closed>[}\]])|(?P<quote>\\*+[\"'])|(?P<bare>(?>(?:[^,{}\[\]:\n]|:(?![\s\"'\\]))+))"
)
_QUOTE = re.compile(r"(?<!\\)(?P<escapes>\\*+)(?P<quote>[\"'])")
_COLON = re.compile(r"\s*+:")


def kubernetes_spans(text: str, is_as_written: bool = True) -> Iterator[Span]:
    """Where a text has values of Secrets. It is read once for the blocks, and each block once for its values.

    JSON is read as it was written, with its escapes: without them, a quote in a value would end it.
    """
    if "ecret" not in text or "ata" not in text or not _IS_SECRET.search(text):
        return
    start = 0
    for end in (*(found.start() for found in _DOCUMENT.finditer(text)), len(text)):
        if _IS_SECRET.search(text, start, end):
            for first, last, kind in _find_in_document(text[start:end], is_as_written):
                yield start + first, start + last, kind
        start = end


def _find_in_document(text: str, is_as_written: bool) -> Iterator[Span]:
    position = 0
    while field := _FIELD.search(text, position):
        position = field.end()
        if field["brace"] and not is_as_written:
            continue
        for span in _find_in_braces(text, position) if field["brace"] else _find_below(text, field):
            position = max(position, span[1])
            if span[0] < span[1]:
                yield span


def _find_below(text: str, field: re.Match[str]) -> Iterator[Span]:
    """The values in the lines that begin further to the right than a field, and an empty span at their end."""
    lowest = max(0, field.start() - _LONGEST_MARGIN)
    before = text[text.rfind("\n", lowest, field.start()) + 1 or lowest : field.start()]
    before = before.rstrip("\\\"'")
    edge = before.rstrip(_MARGIN)
    margin, prefix = len(before) - len(edge), edge.rstrip("0123456789")
    is_numbered, prefix = prefix != edge, prefix.rstrip(" ").translate(_SIMILAR)
    names_at, position = 0, field.end()
    while line := _LINE.match(text, position):
        content, left = line[1], len(prefix)
        if content[:left].translate(_SIMILAR) != prefix:
            break
        if is_numbered and (number := _LINE_NUMBER.match(content, left)):
            left = number.end()
        inner = content[left:].lstrip(_MARGIN)
        column = len(content) - left - len(inner)
        is_entry = inner != "" and not inner.startswith(("#", "{{"))
        if is_entry and column <= margin:
            break
        position = line.end()
        names_at = names_at or (column if is_entry else 0)
        if column > margin:
            is_text = 0 < names_at < column  # a part of a text over several lines
            start, end = (line.start(1) + at for at in _value(content, left + margin, is_text))
            if (
                not is_text
                and start < end
                and text[start] in "'\""
                and text[start - 1] not in "'\""
            ):
                # The quote is open at the end of the line, and columns mean nothing until it is closed.
                _, closed = _end_of_string(text, start + 1, text[start])
                if closed > position:
                    end, position = closed, _end_of_line(text, closed)
            yield start, end, "secret"
    yield position, position, "secret"


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _value(line: str, start: int, is_text: bool) -> tuple[int, int]:
    """Where the value is in a line: all of it in a text, else what is behind the name, without quotes and comment."""
    rest = line[start:].lstrip(" \t")
    if not is_text:
        name = _NAME.match(rest)
        rest = rest[name.end() :] if name else rest
    start, value = len(line) - len(rest), rest.rstrip()
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if is_quoted:
        start, value = start + 1, value[1:-1]
    elif not is_text and value[:1] not in ("'", '"'):
        value = _COMMENT.sub("", value).rstrip()
    return start, start + len(value) * _is_value(value, is_text or is_quoted)


def _is_value(text: str, is_literal: bool) -> bool:
    return not _NOTHING.fullmatch(text) and (is_literal or not _NO_VALUE.fullmatch(text))


def _find_in_braces(text: str, position: int) -> Iterator[Span]:
    """The values up to the brace that closes, and an empty span at their end."""
    depth, name_quote = 1, ""
    while depth and (piece := _PIECE.match(text, position)):
        start, end = piece.span()
        position, quote = end, piece["quote"]
        if quote:
            start, (end, position) = position, _end_of_string(text, position, quote)
        elif not piece["bare"]:
            depth += (piece["opened"] is not None) - (piece["closed"] is not None)
            continue
        if _COLON.match(text, position):
            name_quote = quote or ""
        elif _is_value(value := text[start:end].rstrip(), quote is not None):
            # After a quoted name, the mark has to be quoted.
            yield start, start + len(value), "secret" if quote else f"{name_quote}secret"
    yield position, position, "secret"


def _end_of_string(text: str, start: int, quote: str) -> tuple[int, int]:
    """Where a quoted text ends, without and with the quote. In JSON within JSON, quotes have 1, 3 or 7 escapes."""
    level = len(quote) - 1
    for found in _QUOTE.finditer(text, start):
        escapes = len(found["escapes"])
        if found["quote"] == quote[-1] and (escapes % (2 * level + 2) == level or quote == "'"):
            return found.end() - len(quote), found.end()
    return len(text), len(text)
