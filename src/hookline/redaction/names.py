"""Names of secrets, and their values in texts: `password=...`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from hookline.redaction.readings import Span
from hookline.secret_tables import (
    HARMLESS_ENDING,
    HARMLESS_NAME,
    PLAIN_BACKSLASH,
    STRONG_NAMES,
    WEAK_NAMES,
)

Strength = Literal["strong", "weak", ""]

_LETTERS = re.compile(r"[^a-z0-9]")
_NUMBER = re.compile(r"[_-]?[vV]?\d{1,3}$")

_ASSIGNED = r"(?P<close>[\"'`]?)[ \t]{0,40}(?:=>|:=|\+?=(?!=)|:)[ \t]{0,8}(?P<open>[\"'`]?)"


def _any_word(*words: str, or_else: str = "") -> str:
    """A pattern for one of some words in any case. It begins with a set of letters, not with `(?i:`: only then a search
    skips all other letters at once.
    """
    firsts = "".join(sorted({each for word in words for each in (word[0], word[0].upper())}))
    rests = [f"(?<=[{word[0]}{word[0].upper()}])(?i:{word[1:]})" for word in words]
    if or_else:
        firsts += or_else[0]
        rests.append(f"(?<={or_else[0]}){or_else[1:]}")
    return f"[{firsts}](?:{'|'.join(rests)})"


_IN_TEXT = re.compile(
    _any_word(
        "pass(?:word|wd|phrase)", "pwd", "secret", "token", "authorization", "cookie", "credentials?",
        "connection[_-]?string", "key", "auth", "access[_-]?key[_-]?id", "webhook[_-]?url", "secret[_-]?key[_-]?base",
        "g(?:h|it(?:hub|lab))[_-]?pat", or_else="_(?:PASS|PAT)",
    )
    + r"(?:[_-]?[vV]?\d{1,3}|_[A-Z][A-Z0-9_]{0,31})?" + _ASSIGNED
)  # fmt: skip
_ANY_QUOTE = re.compile(r"[\"'`]")
_NAME_AFTER = re.compile(r"[\w-]*\w")
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.-]*$")
# A bare value ends at the next `=`, so no part of a text is a value twice.
_BARE = re.compile(rf"(?>(?:[^\s\"'`,;&|<>(){{}}\[\]\\=]|{PLAIN_BACKSLASH})+)={{0,3}}")
# A quote before a comma or a bracket ends an item of a list: `["NAME=value","OTHER=value"]`.
_SHELL_WORD = re.compile(
    r"(?:[^\s\"'\\;|&<>()`]|\\(?![\"'][ \t]{0,4}[],}])\S|\\ |\$?'(?![ \t]{0,4}[],}])[^'\n]{0,500}'"
    r"|\"(?![ \t]{0,4}[],}])[^\"\n]{0,500}\"){1,1000}"
)
# What is alone on its line, or between quotes, is no command: there a shell's operators are letters of the value. Where
# `;` or `&` leads to the next name, it is a form or a list of settings. Blanks are letters of the value where a command
# is unlikely: in a list of variables, as `env` and `docker inspect` print it.
_BEFORE_LONE = re.compile(r"(?:^|(?<=[\r\n])|(?P<quote>[\"'`]))[ \t+-]{0,9}(?:export )?$")
_LONE = r"[^\s\"'`\\;&]|[;&](?!\w{1,64}=)"
_REST_OF_QUOTED = re.compile(rf"(?>(?:{_LONE})+)(?=[\r\n\"'`]|$)")
_REST_OF_LINE = re.compile(rf"(?>(?:{_LONE}|[\"'`](?=[^\s\"'`,;:.)\]}}]))+)(?=[\r\n\"'`]|$)")
_ITEM = re.compile(r"[^\r\n\"'`\\]{1,500}(?=[\"'`],?[ \t]{0,8}(?:[\r\n]|$))")
_WHOLE_LINE = re.compile(r"[^\r\n\\]{1,500}?(?=[ \t]{0,8}(?:[\r\n]|$))")
_SETTING = re.compile(r"[ \t+-]{0,9}(?:export )?[A-Za-z_]\w{0,63}=")
_DEFAULT = re.compile(r"\$\{\w{1,64}:?[-=+](?P<value>[^\s\"'`$\\(){}]{4,500})\}")
_ONE_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_LINE = re.compile(r"[^\r\n\"'`\\]{1,4096}+")
_HEADERS = ("authorization", "cookie")
_COOKIE = re.compile(r"=[^\s;]{6,}|(?i:sess|sid|token|auth|csrf)[\w.-]{0,40}=[^\s;]{2}")
_WITH_DIGIT = re.compile(r"\d")
_WITH_LETTER = re.compile(r"[A-Za-z]")
_SCHEME = re.compile(r"(?i:basic|bearer|token|digest|negotiate|apikey)[ \t]+")
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
"""Variables in which a shell keeps a path. In other texts `PWD` is a password."""
_FEWEST = 2
"""The shortest value of a shell variable that is redacted; a number of fewer than four digits is not."""
_LONGEST_NAME = 64
_LONGEST_VALUE = 4096
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+|\$\w+|%\w+%")
_PLACEHOLDER = re.compile(
    r"(?i:[x*.•#_-]{2,}|<[^>]*>|\[[^\]]*\]|\$\{?[\w.:-]*\}?|%\w+%|\{\{.*\}\}|your[-_ ].*|change[-_]?me|example.*|none"
    r"|null|nil|true|false|yes|no|on|off|undefined|string|str|text|required|optional|redacted|secret|password|token|todo|n/?a|bearer|basic)"
)  # fmt: skip
_BRACKETED = re.compile(r"\[(?:redacted:[^\]]*|[A-Za-z_ -]*)\]?[,.:]?")
"""A mark of ours, or words in brackets, as the value of a shell variable. Other values may begin with a bracket too."""
_PACKED = re.compile(r"(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])[\w+=~-]{20,}")
_HEX = re.compile(r"[0-9a-fA-F-]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SECRET_WORD = _any_word(
    "pass(?:word|wd|phrase)", "pwd", "secret", "token", "credentials?", "api[_-]?key"
)
_TAGGED = re.compile(
    rf"<(?P<name>[\w:.-]{{0,40}}{_SECRET_WORD})(?:[ \t][^<>]{{0,200}})?>(?P<value>[^<>\[\s][^<>]{{0,1000}})</"
)
_PAIR = re.compile(
    r"(?i:\b(?:name|key))[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"'](?P<name>[\w.:-]{1,64})[\"']"
    r"(?:>|,?\s{0,80}[\"']?(?i:value)[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"'])(?P<value>[^\"'<>\n\[]{1,1000})"
)
_CHANGED = re.compile(r"[\"'][ \t]{1,3}->[ \t]{1,3}[\"'](?P<value>[^\"'\n\[]{1,1000})[\"']")
_BELOW = re.compile(
    rf"(?P<name>{_SECRET_WORD})[\"']?:[ \t]{{0,8}}(?P<bar>[|>][+-]?)?[ \t]{{0,8}}\r?\n"
    r"(?P<indent>[ \t]{1,40})(?P<value>[^\s\[#][^\r\n]{0,1000})"
)
_PHRASE = re.compile(
    r"(?i:passphrase)[\"']?[ \t]{0,3}[:=][ \t]{0,3}(?P<value>[a-z0-9]{1,20}(?: [a-z0-9]{1,20}){2,24})"
    r"(?=[ \t]{0,8}(?:[\r\n]|$))"
)


def is_secret_name(name: str) -> Strength:
    """Whether a field, a variable or a header of this name holds a secret: `strong`, `weak`, or not (empty)."""
    name = _NUMBER.sub("", name[-_LONGEST_NAME:])
    plain = _LETTERS.sub("", name.lower())
    plain = plain[:-1] if plain.endswith(("ds", "ts", "ns", "ys", "es")) else plain
    # Of names in small letters, `first_pass` and its like are as frequent.
    if plain.endswith(STRONG_NAMES) or (name.isupper() and name.endswith("_PASS")):
        return "strong"
    if name.isupper() and name.endswith("_PAT"):  # a personal access token; others end in `compat`
        return "weak"
    if plain.endswith(WEAK_NAMES) and not HARMLESS_NAME.search(plain):
        return "weak"
    return "weak" if _is_variant(name) else ""


def _is_variant(name: str) -> bool:
    """Whether a variable has one of the strong names and says after it which one: `DB_PASSWORD_PROD`."""
    parts = name.lower().split("_")
    return (
        name.isupper()
        and not HARMLESS_ENDING.search(parts[-1])
        and any("".join(parts[:end]).endswith(STRONG_NAMES) for end in range(1, len(parts)))
    )


def is_hidden(name: str, value: str) -> bool:
    """Whether the value of a field is redacted."""
    strength = is_secret_name(name)
    if not strength or not value.strip() or _PLACEHOLDER.fullmatch(value.strip()):
        return False
    return strength == "strong" or _is_random(value, name)


def is_placeholder(value: str) -> bool:
    """Whether a value is only a placeholder for a secret: `<password>`, `$TOKEN`, `xxxx`."""
    return _PLACEHOLDER.fullmatch(value) is not None


class _Values:
    """A text with names and values. What was read as a value once is read again only up to the next name.

    Otherwise a text of names (`key:key:key:`) would be read to its end for each of them.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._seen = self._refused = 0
        """How far values have been read, and how far those that are no secrets."""
        self._end = len(text)
        self._next = _IN_TEXT.search(text)

    def names(self) -> Iterator[re.Match[str]]:
        """Each name, and what assigns its value, outside of the values that are skipped."""
        while found := self._next:
            self._refused = self._seen
            self._next = _IN_TEXT.search(self.text, found.end())
            following = self._next.start() if self._next else len(self.text)
            self._end = following if found.end() < self._seen else len(self.text)
            yield found

    def skip(self, end: int) -> None:
        """Continue behind a value that is a secret, as if nothing had been read there."""
        self._seen = self._refused
        if self._next and self._next.start() < end:
            self._next = _IN_TEXT.search(self.text, end)

    def match(self, pattern: re.Pattern[str], start: int) -> re.Match[str] | None:
        """What stands for the value of the present name."""
        found = pattern.match(self.text, start, self._end)
        self._seen = max(self._seen, found.end() if found else 0)
        return found


def named_spans(text: str) -> Iterator[Span]:
    """Where a text says `name = value`, and the value is a secret."""
    values = _Values(text)
    for found in values.names():
        name = _name_at(text, found)
        strength = is_secret_name(name)
        span = _value_span(values, found, name, strength) if strength else None
        if span is not None:
            span = span[0], _lone_end(text, found, name, span[1])
            values.skip(span[1])
            is_literal = bool(found["close"]) and not found["open"]
            # After a quoted name, a bare value is a number, and the mark has to be quoted.
            yield (*span, f"{found['close']}secret" if is_literal else "secret")
            if changed := _CHANGED.match(text, span[1]):  # as `terraform plan` shows it
                yield *changed.span("value"), "secret"


def laid_out_spans(text: str) -> Iterator[Span]:
    """Where a value does not follow its name directly: in a tag, in a field of its own, on the lines below it,
    or as several words.
    """
    for found in _TAGGED.finditer(text) if "</" in text else ():
        if is_hidden(found["name"], found["value"]):
            yield *found.span("value"), "secret"
    for found in _PAIR.finditer(text):
        if is_hidden(found["name"], found["value"]):
            yield *found.span("value"), "secret"
    for found in _BELOW.finditer(text) if "\n" in text else ():
        if is_secret_name(_name_at(text, found)) != "strong":
            continue
        value = found["value"].rstrip()
        if found["bar"]:
            yield found.start("value"), _block_end(text, found), "secret"
        elif _PLAIN_BELOW.fullmatch(value) and not _PLACEHOLDER.fullmatch(value):
            yield found.start("value"), found.start("value") + len(value), "secret"
    for found in _PHRASE.finditer(text):
        yield *found.span("value"), "secret"


_PLAIN_BELOW = re.compile(r"(?=[^\d\s]*\d)[^\s:\"'`,;(){}\[\]]{4,}")


def _block_end(text: str, found: re.Match[str]) -> int:
    """Where a block of lines ends that are indented as its first one is."""
    end, indent = found.end("value"), found["indent"]
    while text.startswith(f"\n{indent}", end) and end - found.start("value") < _LONGEST_VALUE:
        after = text.find("\n", end + 1)
        end = len(text) if after < 0 else after
    return end


def _name_at(text: str, found: re.Match[str]) -> str:
    """The whole name of which the end was found."""
    before = text[max(0, found.start() - _LONGEST_NAME) : found.start()]
    begun, ended = _NAME_BEFORE.search(before), _NAME_AFTER.match(found[0])
    return (begun[0] if begun else "") + (ended[0] if ended else "")


def pattern_for_names(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern for `name = ...` with one of these names."""
    either = "|".join(map(re.escape, sorted(names)))
    return re.compile(rf"(?i:(?<![A-Za-z0-9])(?:{either}))" + _ASSIGNED)


def spans_behind(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    """Where a text says `name = value` with one of the given names."""
    for found in pattern.finditer(text):
        opened = found["open"]
        end = _find_closing_quote(text, found.end(), opened) if opened else None
        if end is None:
            bare = _BARE.match(text, found.end())
            end = bare.end() if bare is not None else found.end()
        if end > found.end():
            yield found.end(), end, "secret"


def _value_span(
    values: _Values, found: re.Match[str], name: str, strength: Strength
) -> tuple[int, int] | None:
    text, start, opened = values.text, found.end(), found["open"]
    if name in _DIRECTORIES and text.startswith(("/", "~"), start):
        return None
    if default := _DEFAULT.match(text, start):
        return _quoted_span(text, *default.span("value"), name, strength, found[0])
    if word := _shell_word(values, found, name, strength):
        return word
    if opened:
        end = _find_closing_quote(text, start, opened)
        return None if end is None else _quoted_span(text, start, end, name, strength, found[0])
    if scheme := _SCHEME.match(text, start):
        start = scheme.end()
    is_header = not found["close"] and _LETTERS.sub("", name.lower()).endswith(_HEADERS)
    bare = values.match(_LINE if is_header else _BARE, start)
    if bare is None:
        end = _lone_end(text, found, name, start)
        if end == start or text[start] not in "&|;(<":  # others begin what code puts in, as `{}`
            return None
        return _quoted_span(text, start, end, name, strength, found[0])
    value, end = bare[0], bare.end()
    if is_header and ":" not in found[0]:
        return None
    if is_header and start == found.end() and not _is_header_value(name, value):
        return None
    is_plausible = is_header or _is_plausible(text, found[0], name, value, end)
    if not is_plausible and not _is_in_form(text, found, name, value):
        return None
    is_secret = not _PLACEHOLDER.fullmatch(value) and (
        strength == "strong" or _is_random(value, name) or _is_token_variable(found[0], name, value)
    )
    return (start, end) if is_secret else None


def _lone_end(text: str, found: re.Match[str], name: str, end: int) -> int:
    """Where a value without quotes ends that has been read so far, where no shell reads it: else there."""
    if not _is_variable(found[0], name) or found["close"] or found["open"]:
        return end
    begin = text.rfind(name, 0, found.end())
    before = _BEFORE_LONE.search(text, max(0, begin - _LONGEST_NAME), begin)
    if before is None:
        return end
    since = max(0, begin - _LONGEST_VALUE)
    line = max(since, text.rfind("\n", since, begin) + 1, text.rfind("\r", since, begin) + 1)
    if before["quote"]:
        is_item = not text[line : before.start()].strip()
        rest = (is_item and _ITEM.match(text, end)) or _REST_OF_QUOTED.match(text, end)
    else:
        rest = _REST_OF_LINE.match(text, end)
        if rest is None and _is_among_settings(text, line, end):
            rest = _WHOLE_LINE.match(text, end)
    return rest.end() if rest else end


def _is_among_settings(text: str, line: int, end: int) -> bool:
    """Whether the line before this one, or the one behind it, sets a variable too."""
    since = max(0, line - _LONGEST_VALUE)
    above = max(since, text.rfind("\n", since, max(0, line - 1)) + 1)
    below = text.find("\n", end, end + _LONGEST_VALUE) + 1
    is_above = line > 0 and _SETTING.match(text, above) is not None
    return is_above or (below > 0 and _SETTING.match(text, below) is not None)


def _is_variable(head: str, name: str) -> bool:
    """Whether a name and what follows it are written as a shell sets a variable: `NAME=`."""
    return name.isupper() and "=" in head and " " not in head


def _is_token_variable(head: str, name: str, value: str) -> bool:
    """Whether a variable that ends in `TOKEN`, `AUTH` or `_PAT`, or a variant, has a value that is no plain word and no
    number.
    """
    is_mixed = _WITH_DIGIT.search(value) and _WITH_LETTER.search(value)
    is_token = name.endswith(("TOKEN", "AUTH", "_PAT")) and not HARMLESS_NAME.search(name.lower())
    is_named = is_token or _is_variant(name)
    return bool(_is_variable(head, name) and is_named and is_mixed and len(value) >= 6)


def _is_header_value(name: str, value: str) -> bool:
    """Whether this is what a header has, and not a sentence about one, nor cookies that say nothing (`a=1`)."""
    if name.lower().endswith("cookie"):
        return _COOKIE.search(value) is not None
    return " " not in value.strip() or _WITH_DIGIT.search(value) is not None


def _shell_word(
    values: _Values, found: re.Match[str], name: str, strength: Strength
) -> tuple[int, int] | None:
    """The value of a variable of a shell that is written in pieces: `NAME=a"b"`, `NAME=a,b`, `NAME=$'b'`."""
    head = found[0]
    if found["close"] or not name.isupper() or not head.rstrip("\"'").endswith("=") or " " in head:
        return None
    start = found.start() + head.index("=") + 1
    word = values.match(_SHELL_WORD, start)
    if word is None or _BARE.fullmatch(word[0]) or _ONE_QUOTED.fullmatch(word[0]):
        return None  # written in one piece
    plain = re.sub(r"^\$(?=')|[\"'\\]", "", word[0])
    is_reference = word[0][:1] == "$" and word[0][1:2] != "'"
    stands_in = _BRACKETED if plain[:1] == "[" else _PLACEHOLDER
    if is_reference or len(plain) < 4 or stands_in.fullmatch(plain) or _CODE.fullmatch(plain):
        return None
    return word.span() if strength == "strong" or _is_random(plain, name) else None


def _quoted_span(
    text: str, start: int, end: int, name: str, strength: Strength, head: str
) -> tuple[int, int] | None:
    value = text[start:end]
    if scheme := _SCHEME.match(value):
        value, start = value[scheme.end() :], start + scheme.end()
    fewest = _FEWEST if _is_variable(head, name) and not value.isdigit() else 4
    if len(value) < fewest or _PLACEHOLDER.fullmatch(value) or _CODE.fullmatch(value):
        return None
    is_secret = strength == "strong" or _is_random(value, name)
    return (start, end) if is_secret or _is_token_variable(head, name, value) else None


def _find_closing_quote(text: str, start: int, quote: str) -> int | None:
    """Where a quoted value ends: at its quote, or where the text was cut. None if not soon, or not on this line."""
    limit = min(len(text), start + _LONGEST_VALUE)
    end = text.find(quote, start, limit)
    while end > start and _is_escaped(text, start, end):
        end = text.find(quote, end + 1, limit)
    if end < 0 and limit == len(text) and _is_cut(text, start, quote):
        end = limit
    return None if end < 0 or "\n" in text[start:end] else end


def _is_cut(text: str, start: int, quote: str) -> bool:
    """Whether the text ends in a value: its quote is the last one, and opens on its line. A reference is no value."""
    if _ANY_QUOTE.search(text, start) or text.startswith(("$", "`"), start):
        return False
    return text.count(quote, text.rfind("\n", 0, start) + 1, start) % 2 == 1


def _is_escaped(text: str, start: int, place: int) -> bool:
    count = 0
    while place - count > start and text[place - count - 1] == "\\":
        count += 1
    return count % 2 == 1


def _is_plausible(text: str, head: str, name: str, value: str, end: int) -> bool:
    """Whether a bare value is written like one, and not like code or a sentence."""
    if text[end : end + 1] in ("(", "[", "{") or _CODE.fullmatch(value):
        return False
    if _is_variable(head, name):
        return len(value) >= (4 if value.isdigit() else _FEWEST)
    return len(value) >= 6 and _WITH_DIGIT.search(value) is not None


def _is_in_form(text: str, found: re.Match[str], name: str, value: str) -> bool:
    """Whether name and value are a whole line, a part of a form (`a=b&c=d`), or a header."""
    end = found.end() + len(value)
    if found["close"] or found["open"] or text[end : end + 1] not in ("", "\n", "\r", "&"):
        return False
    if len(value) < 3 or _CODE.fullmatch(value) or value.lower() in (name.lower(), "str", "string"):
        return False
    since = max(0, found.start() - _LONGEST_NAME)
    start = max(text.rfind(mark, since, found.start()) + 1 for mark in "\n&")
    begun = text[max(start, since) : found.start()].removeprefix("+")  # of a diff
    if " " in found[0]:
        is_header = ":" in found[0] and name.count("-") > 0 and "_" not in name
        return is_header and _NAME_BEFORE.fullmatch(begun.lstrip(" \t>")) is not None
    return "=" in found[0] and _NAME_BEFORE.fullmatch(begun.rpartition("?")[2]) is not None


def _is_random(value: str, name: str) -> bool:
    """Whether a value is neither a word nor a number and, after a plain `key`, neither a hash nor an id."""
    if re.search(r"\s", value) or len(value) < 12:
        return False
    if (
        not (_WITH_DIGIT.search(value) and _WITH_LETTER.search(value))
        or "/" in value[:2]
        or "://" in value
    ):
        return False
    plain = _LETTERS.sub("", name.lower())
    if _UUID.fullmatch(
        value
    ):  # usually an id: a secret in `SERVER_TOKEN`, not in `token` or `row_key`
        return plain not in WEAK_NAMES and not plain.endswith("key")
    if not plain.endswith("key"):
        return True
    is_hash = _HEX.fullmatch(value) is not None
    return _PACKED.fullmatch(value) is not None and not is_hash and _entropy(value) > 3.5


def _entropy(text: str) -> float:
    """Bits per letter."""
    return -sum(
        count / len(text) * math.log2(count / len(text)) for count in Counter(text).values()
    )
