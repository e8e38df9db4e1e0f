"""YAML as people write it at the top of a Markdown file. Nothing in it is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

_KNOWN_FIELD = re.compile(
    r"(?:agent|agents|allowed[-_]?tools|argument-hint|author|background|category|color|compatibility|context|disabled|"
    r"disable-model-invocation|disallowed[-_]?tools|effort|hooks|isolation|license|limits|max[-_]?turns|mcp[-_]?servers|"
    r"memory|metadata|model|name|permission[-_]?mode|skills|tags|tools|user-invocable|version):",
    re.IGNORECASE,
)
_PLAIN_VALUE = re.compile(r"(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s|>].*)$")

_SEVERAL_LISTS = re.compile(r"\[[^\[\]]*\][ \t]*[^\s#]")
"""A list with something behind it: `[file] [--all]`, as arguments of commands are described."""


class YamlProblem(Exception):
    """What is wrong with a text, and in which of its lines, counted from zero."""

    def __init__(self, message: str, line: int) -> None:
        self.line = line
        super().__init__(message)


class _Loader(yaml.SafeLoader):
    """Plain data only: `yes`, `1.10`, `007` and `2025-01-31` are text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        # An alias can make a page of text into gigabytes of values.
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise YamlProblem("aliases (`*name`) are not read here", mark.line)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise YamlProblem("a name is a word, not a list or a mapping", key.start_mark.line)
            if key.value in seen:
                raise YamlProblem(f"'{key.value}' occurs twice", key.start_mark.line)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"(?:0|-?[1-9][0-9]*)$", "-0123456789"),
    ("null", r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def read_yaml(text: str) -> tuple[Any, dict[str, int]]:
    """The value, and the line of each of its keys if it is a mapping. Raises YamlProblem.

    A value that is a sentence with a colon is not YAML, nor is a description of several lines that are not indented.
    Other agents accept both, so they are accepted here.
    """
    problem: YamlProblem | None = None
    for candidate in _readings(text):
        try:
            return _read(candidate)
        except YamlProblem as error:
            problem = problem or error
    assert problem is not None  # there is one reading at least
    raise problem


def _readings(text: str) -> Iterator[str]:
    """The text as it is, and then as it may have been meant."""
    lines = text.split("\n")
    yield text
    yield "\n".join(map(_quote_value, lines))
    yield "\n".join(map(_quote_value, _with_description_in_quotes(lines)))


def _with_description_in_quotes(lines: list[str]) -> list[str]:
    """The lines with the description, up to the next field that is known, as one quoted text in its first line."""
    first = next((n for n, line in enumerate(lines) if line.startswith("description:")), None)
    if first is None:
        return lines
    words = lines[first].removeprefix("description:").strip()
    if not words or words[0] in "\"'|>[{":
        return lines
    rest = range(first + 1, len(lines))
    end = next((n for n in rest if _KNOWN_FIELD.match(lines[n])), len(lines))
    said = "\n".join([words, *lines[first + 1 : end]]).rstrip()
    empty = [""] * (end - first - 1)  # so that what follows keeps its line
    return [*lines[:first], f"description: {json.dumps(said)}", *empty, *lines[end:]]


def _read(text: str) -> tuple[Any, dict[str, int]]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        value = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "it is not YAML"
        raise YamlProblem(said, mark.line if mark is not None else 0) from None
    except yaml.YAMLError as error:
        raise YamlProblem(str(error).replace("\n", " "), 0) from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise YamlProblem(f"it cannot be read ({type(error).__name__})", 0) from None
    if not isinstance(node, yaml.MappingNode):
        return value, {}
    return value, {str(key.value): key.start_mark.line for key, _ in node.value}


def _quote_value(line: str) -> str:
    """A line `key: some words: more words` with its value in quotes; any other line as it is."""
    found = _PLAIN_VALUE.match(line)
    if found is None:
        return line
    value = found["value"].rstrip()
    if value[0] in "\"'[{" and not _SEVERAL_LISTS.match(value):
        return f"{found['key']}: {value}"  # with a blank, where there may have been a tab
    quoted = value.replace("'", "''")
    return f"{found['key']}: '{quoted}'"
