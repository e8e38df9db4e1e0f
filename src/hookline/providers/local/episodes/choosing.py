"""Which episodes the model is shown: some for every tool, and those nearest to what it is asked."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from hookline.providers.local.episodes.bank import DIRECT, Episode
from hookline.providers.local.episodes.casting import episodes_for
from hookline.state import ToolSpec

_FIRST = 8
"""Episodes that do not depend on the question. They are read once, whatever is asked later."""
_ROUNDS = 2
_NEAREST = 2
_LIKELY = 2
"""Episodes whose tools are likely."""
_FILE = re.compile(r"\b[\w-]+\.[a-z]\w{0,4}\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"<\w+>|[^\W\d_]+|[?!+]")
_ENDINGS = ("ing", "es", "s", "ed")
_STEM = 3


def shown_first(tools: Sequence[ToolSpec]) -> list[Episode]:
    """Episodes for the tools and for questions that need none, one after the other."""
    rows = [*(episodes_for(tool)[:_ROUNDS] for tool in tools[: _FIRST - 1]), DIRECT[:_ROUNDS]]
    columns = itertools.zip_longest(*rows)
    return [one for column in columns for one in column if one is not None][:_FIRST]


def chosen(
    tools: Sequence[ToolSpec], question: str, *, without: Collection[Episode]
) -> list[Episode]:
    """The episodes nearest to a question, the nearest last: a small model does what it saw last.

    First of all those that mention a file, or a number, where the question does and only there: what a call needs
    has to be found in the question.
    """
    candidates = [one for one in _all(tools) if one not in without]
    return _by_nearness(candidates, question)[-_NEAREST:]


def likely(tools: Sequence[ToolSpec], question: str) -> frozenset[str]:
    """The tools that a question is plainly for: those in the episodes nearest to it.

    None, where the nearest episode needs none, or where the question is like nothing that is known.
    """
    nearest = _by_nearness(_all(tools), question)[-_LIKELY:]
    if not nearest[-1].tool or not _features(question).keys() & _features(nearest[-1].ask).keys():
        return frozenset()
    return frozenset(one.tool for one in nearest if one.tool)


def _all(tools: Sequence[ToolSpec]) -> list[Episode]:
    return [*(one for tool in tools for one in episodes_for(tool)), *DIRECT]


def _by_nearness(episodes: Sequence[Episode], question: str) -> list[Episode]:
    """Episodes by how near they are to a question, the nearest last."""
    features = [_features(one.ask) for one in episodes]
    weigh = _Weights(features)
    words = _features(question)
    asked = weigh(words)
    ranks = [(_mentions(one) == _mentions(words), _cosine(asked, weigh(one))) for one in features]
    return [episodes[n] for n in sorted(range(len(episodes)), key=ranks.__getitem__)]


def _mentions(words: Counter[str]) -> tuple[bool, bool]:
    return "<file>" in words, "<number>" in words


def _features(text: str) -> Counter[str]:
    """The words of a question, without their endings; one file is as good as another, and so is a number."""
    text = _NUMBER.sub(" <number> ", _FILE.sub(" <file> ", text.lower()))
    return Counter(map(_stem, _WORD.findall(text)))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word.removesuffix(ending)
    return word


class _Weights:
    """Weighs words: one that is in few episodes says more."""

    def __init__(self, texts: Iterable[Counter[str]]) -> None:
        self._seen: Counter[str] = Counter()
        self._texts = 0
        for words in texts:
            self._seen.update(words.keys())
            self._texts += 1

    def __call__(self, words: Counter[str]) -> dict[str, float]:
        return {
            word: (1 + math.log(count)) * math.log((1 + self._texts) / (0.5 + self._seen[word]))
            for word, count in words.items()
            if word in self._seen
        }


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    product = sum(weight * other.get(word, 0.0) for word, weight in one.items())
    length = math.hypot(*one.values()) * math.hypot(*other.values())
    return product / length if length else 0.0
