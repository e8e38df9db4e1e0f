"""Which tools a few words are about: the best first."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hookline.state import ToolSpec

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "by",
        "for",
        "from",
        "get",
        "how",
        "i",
        "in",
        "into",
        "is",
        "it",
        "me",
        "my",
        "of",
        "on",
        "or",
        "the",
        "to",
        "tool",
        "tools",
        "use",
        "with",
    ]
)
_NAME, _PARAMETER, _DESCRIPTION = 4.0, 1.5, 1.0
_EXACT, _PREFIX, _SIMILAR = 1.0, 0.6, 0.4
_LEAST_SIMILAR = 0.8


class _Document(msgspec.Struct, frozen=True):
    """A tool as words, each with the weight of the most telling place it stands at."""

    spec: ToolSpec
    weights: dict[str, float]


def ranked(specs: Sequence[ToolSpec], query: str, most: int) -> list[ToolSpec]:
    """The tools that fit the words of a query; none that has nothing to do with them."""
    documents = [_document(spec) for spec in specs]
    words = dict.fromkeys(words_of(query))
    telling = [word for word in words if word not in _STOP] or list(words)
    if not telling:
        return []
    known = {word for document in documents for word in document.weights}
    meant = {word: _meant(word, known) for word in telling}
    rarity = {word: _rarity(word, documents) for word in telling}
    scores = {document.spec.name: _score(document, query, meant, rarity) for document in documents}
    found = [document.spec for document in documents if scores[document.spec.name] > 0]
    return sorted(found, key=lambda spec: (-scores[spec.name], spec.name))[:most]


def _meant(word: str, known: set[str]) -> dict[str, float]:
    """The words of tools that a word of the query may stand for, and how surely. Typos are looked for last."""
    alike = {each: likeness for each in known if (likeness := _likeness(word, each))}
    if alike:
        return alike
    close = [each for each in known if len(word) >= 4 and len(each) >= 4 and each[0] == word[0]]
    found = difflib.get_close_matches(word, sorted(close), n=5, cutoff=_LEAST_SIMILAR)
    return dict.fromkeys(found, _SIMILAR)


def words_of(text: str) -> list[str]:
    """The words of a text or of a name in any spelling, without their endings."""
    return [_stem(word.casefold()) for word in _WORD.findall(text)]


def _document(spec: ToolSpec) -> _Document:
    weights: dict[str, float] = {}
    parameters: Mapping[str, Any] = spec.parameters.get("properties", {})
    told = " ".join(
        str(each.get("description", "")) for each in parameters.values() if isinstance(each, dict)
    )
    for weight, text in (
        (_DESCRIPTION, f"{spec.description} {told}"),
        (_PARAMETER, " ".join(parameters)),
        (_NAME, spec.name),
    ):
        for word in words_of(text):
            weights[word] = max(weight, weights.get(word, 0.0))
    return _Document(spec, weights)


def _rarity(word: str, documents: Sequence[_Document]) -> float:
    """A word that every tool has tells little."""
    having = sum(word in document.weights for document in documents)
    return math.log(1 + len(documents) / (1 + having))


def _score(
    document: _Document,
    query: str,
    meant: Mapping[str, Mapping[str, float]],
    rarity: Mapping[str, float],
) -> float:
    name, asked = document.spec.name.casefold(), query.strip().casefold()
    score, met = 0.0, 0
    for word, alike in meant.items():
        weights = [
            weight * alike[known] for known, weight in document.weights.items() if known in alike
        ]
        score += max(weights, default=0.0) * rarity[word]
        met += bool(weights)
    score *= met / len(meant)
    if asked == name or asked.replace(" ", "_") == name:
        return score + 100.0
    return score + (5.0 if len(asked) > 2 and asked.replace(" ", "_") in name else 0.0)


def _likeness(word: str, known: str) -> float:
    if word == known:
        return _EXACT
    shorter = min(len(word), len(known))
    if shorter >= 3 and (known.startswith(word) or word.startswith(known)):
        return _PREFIX
    return _SIMILAR if shorter >= 4 and (word in known or known in word) else 0.0


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word.removesuffix("e") if len(word) > 4 else word
