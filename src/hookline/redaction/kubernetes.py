"""Secrets of Kubernetes: all values below `data` and `stringData`, in YAML and in JSON.

A text is read once for the blocks, and each block once for its values, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hookline.redaction.tokens import Span

_Q = r"\\{0,3}[\"']"
_IS_SECRET = re.compile(rf"\bkind(?:{_Q})?[ \t]{{0,4}}:[ \t]{{0,4}}(?:{_Q})?Secret\b(?!\w)")
_DOCUMENT = re.compile(r"(?m)^---[ \t]{0,4}\r?$")
_BLOCK = re.compile(r"(?m)^(?P<indent>[ \t]{0,40}(?:- )?)(?P<name>data|stringData):[ \t]{0,8}\r?$")
_ENTRY = re.compile(
    r"\r?\n(?P<indent>[ \t]{1,60})(?:[\w.-]{1,253}:[ \t]{1,8})?[\"']?(?P<value>[^\s\"'#][^\r\n\"']*+)?[^\r\n]*+"
)
_OBJECT = re.compile(rf"{_Q}(?P<name>data|stringData){_Q}[ \t]{{0,4}}:\s{{0,8}}\{{")
_PAIR = re.compile(
    rf"\s{{0,64}},?\s{{0,64}}{_Q}[\w.-]{{1,253}}{_Q}[ \t]{{0,4}}:\s{{0,8}}{_Q}(?P<value>[^\"'\\]*+){_Q}"
)
_PACKED = re.compile(r"[A-Za-z0-9+/]{2,}+={0,2}")
_FIELDS = ("data", "stringData")


def is_kubernetes_secret(value: Mapping[Any, Any]) -> bool:
    """Whether a JSON object is a Secret."""
    return value.get("kind") == "Secret" and any(
        isinstance(value.get(name), Mapping) for name in _FIELDS
    )


def kubernetes_spans(text: str) -> Iterator[Span]:
    """Where a text has values of Secrets."""
    if "ecret" not in text or "ata" not in text or not _IS_SECRET.search(text):
        return
    start = 0
    for end in (*(found.start() for found in _DOCUMENT.finditer(text)), len(text)):
        if _IS_SECRET.search(text, start, end):
            yield from _in_yaml(text, start, end)
            yield from _in_json(text, start, end)
        start = end


def _in_yaml(text: str, start: int, end: int) -> Iterator[Span]:
    for block in _BLOCK.finditer(text, start, end):
        indent, position = len(block["indent"]), block.end()
        while (entry := _ENTRY.match(text, position, end)) and len(entry["indent"]) > indent:
            position = entry.end()
            value = (entry["value"] or "").strip()
            if value and _is_value(block["name"], value):
                yield entry.start("value"), entry.start("value") + len(value), "secret"


def _in_json(text: str, start: int, end: int) -> Iterator[Span]:
    for opened in _OBJECT.finditer(text, start, end):
        position = opened.end()
        while pair := _PAIR.match(text, position, end):
            position = pair.end()
            if pair["value"] and _is_value(opened["name"], pair["value"]):
                yield *pair.span("value"), "secret"


def _is_value(name: str, value: str) -> bool:
    """Whether a value belongs to a Secret: below `data` all are base64. Others belong to a ConfigMap beside it."""
    if name == "stringData":
        return value not in ("|", "|-", ">", ">-") and not value.startswith("[redacted:")
    return len(value) % 4 == 0 and _PACKED.fullmatch(value) is not None
