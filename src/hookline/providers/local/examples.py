"""Worked examples: a question, the call that helps, its result and the answer.

A small model does what it has just seen done. The examples are about kinds of tools that many agents have, with an
agent's own tools in their places. A tool of no such kind gets an example that is made from its schema.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from hookline.state import ToolSpec


class Example(NamedTuple):
    """One question and its answer. Without a `tool` it is answered at once."""

    ask: str
    tool: str
    args: dict[str, Any]
    result: str
    answer: str


class Sample(NamedTuple):
    """An example without its tool: `values` are the arguments, in order."""

    ask: str
    values: tuple[str | int, ...]
    result: str
    answer: str


class ToolKind(NamedTuple):
    """A kind of tool, known by the words in its name."""

    verbs: frozenset[str]
    nouns: frozenset[str]
    """One of these must be in the name as well, unless the verb is the whole name. Empty: the verb is enough."""
    samples: tuple[Sample, ...]


def _kind(verbs: str, nouns: str, answer: str, *rows: tuple[str | int, ...]) -> ToolKind:
    """A row is a question, the arguments and the result; `answer` may name the result and the first argument."""
    samples = tuple(
        Sample(str(ask), tuple(values), str(result), answer.format(*values, result=result))
        for ask, *values, result in rows
    )
    return ToolKind(frozenset(verbs.split()), frozenset(nouns.split()), samples)


KINDS = (
    _kind(
        "list ls dir show",
        "file files folder directory dir entries documents",
        "The files are: {result}.",
        ("What files are there?", "budget.csv, letter.txt"),
        ("List the folder.", "main.py, test.py, LICENSE"),
        ("Which documents are in this directory?", "plan.doc, cat.png"),
        ("Show me the names of all files here.", "a.log, b.log"),
        ("Do I have any pictures?", "tree.jpg, house.png"),
        ("What is stored in this place?", "old.zip"),
        ("Is there a file named todo.txt here?", "todo.txt, done.txt"),
    ),
    _kind(
        "read cat open load view show get",
        "file text document content contents",
        "{0} says: {result}",
        ("What is in letter.txt?", "letter.txt", "Dear Anna, see you on Monday."),
        ("Show the text of colors.txt.", "colors.txt", "red, green"),
        ("Which port is in app.ini?", "app.ini", "port=9000"),
        ("Who wrote report.md?", "report.md", "Report by Lena Fox"),
        ("Open story.txt.", "story.txt", "The fox ran home."),
        ("Please read names.csv and tell me what it says.", "names.csv", "Ada, Ben"),
        ("How many eggs are needed, according to cake.txt?", "cake.txt", "Take 3 eggs."),
        ("Print main.py.", "main.py", "run()"),
    ),
    _kind(
        "add sum plus",
        "numbers integers two up",
        "The sum is {result}.",
        ("What is 3 plus 4?", 3, 4, 7),
        ("Add 120 and 45.", 120, 45, 165),
        ("Tom has 5 apples and gets 8 more. How many apples has he?", 5, 8, 13),
        ("Calculate 60 + 7.", 60, 7, 67),
        ("How much do 9 euros and 15 euros make together?", 9, 15, 24),
        ("What is the sum of 200 and 14?", 200, 14, 214),
        ("How many are 31 and 10 in total?", 31, 10, 41),
    ),
    _kind(
        "multiply times product mul",
        "numbers integers two",
        "The product is {result}.",
        ("What is 3 times 4?", 3, 4, 12),
        ("Multiply 12 by 5.", 12, 5, 60),
        ("6 boxes hold 7 pens each. How many pens are there?", 6, 7, 42),
    ),
    _kind(
        "write save create",
        "file text document",
        "{0} is written.",
        ("Write hello into hi.txt.", "hi.txt", "hello", "ok"),
        ("Save the line port=80 as web.ini.", "web.ini", "port=80", "ok"),
        ("Create a file called tea.txt with the text drink tea.", "tea.txt", "drink tea", "ok"),
    ),
    _kind(
        "bash shell exec execute run",
        "command bash shell script",
        "The output is: {result}",
        ("Run date.", "date", "Mon May 4"),
        ("Which user am I?", "whoami", "anna"),
        ("Show the disk space with df.", "df", "/dev/sda1 40%"),
    ),
    _kind(
        "glob",
        "",
        "I found: {result}",
        ("Find all Python files.", "**/*.py", "main.py, test.py"),
        ("Look for pictures in every folder.", "**/*.png", "tree.png, old/cat.png"),
    ),
    _kind(
        "search find grep look lookup query",
        "",
        "I found: {result}",
        ("Search for blue whales.", "blue whales", "The blue whale is an animal."),
        ("Find out about Mount Etna.", "Mount Etna", "Mount Etna is a volcano."),
        ("Look up tulips.", "tulips", "Tulips bloom in spring."),
    ),
    _kind(
        "weather forecast temperature",
        "",
        "The weather is: {result}",
        ("What is the weather in Oslo?", "Oslo", "snow"),
        ("How warm is it in Cairo?", "Cairo", "31 degrees"),
    ),
    _kind(
        "time clock now date today",
        "",
        "It is {result}.",
        ("What time is it?", "09:41"),
        ("What is the date today?", "4 May"),
    ),
)

DIRECT = tuple(
    Example(ask, "", {}, "", answer)
    for ask, answer in (
        ("What is the capital of France?", "The capital of France is Paris."),
        ("Hello!", "Hello! How can I help you?"),
        ("Which animal barks?", "A dog barks."),
        ("What is the opposite of big?", "The opposite of big is small."),
        ("Thanks!", "You are welcome!"),
        ("What colour is the sky?", "The sky is blue."),
        ("Who wrote Hamlet?", "William Shakespeare wrote Hamlet."),
        ("How many legs has a spider?", "A spider has eight legs."),
        ("Name a fruit.", "Apple is a fruit."),
        ("Who are you?", "I am a small language model."),
        ("Tell me a joke.", "Why did the egg hide? It was a little chicken."),
        ("How are you?", "I am fine, thank you."),
    )
)
"""Questions that need no tool."""


# --- examples of one tool -------------------------------------------------------------------------

_TYPES = {"string": str, "integer": int, "number": int}
_VALUES: dict[str, Any] = {"integer": 3, "number": 3, "boolean": True, "null": None}
_WORDS = (
    ("path|file", "notes.txt"),
    ("url|link", "http://example.org"),
    ("city|place|location", "Oslo"),
    ("query|question|topic|key", "tea"),
    ("command|cmd", "date"),
    ("name|user|person", "Anna"),
    ("id", "a7"),
)
_DEEPEST = 4
_ABOUT_ANOTHER = frozenset(["cancel", "kill", "poll", "status", "stop", "wait"])
"""A tool with such a word in its name is about what another tool started: `bash_stop` runs no command."""
_BOUNDS = frozenset(["enum", "const", "pattern", "minimum", "maximum", "format"])


def examples_for(tool: ToolSpec) -> list[Example]:
    """Examples that call this tool. There is at least one."""
    for kind in KINDS:
        if _is_of_kind(tool.name, kind):
            made = [one for sample in kind.samples if (one := _with_tool(sample, tool)) is not None]
            if made:
                return made
    return [_from_schema(tool)]


def _is_of_kind(name: str, kind: ToolKind) -> bool:
    words = _words_of(name)
    if not kind.verbs.intersection(words) or _ABOUT_ANOTHER.intersection(words):
        return False
    return not kind.nouns or len(words) == 1 or bool(kind.nouns.intersection(words))


def _words_of(name: str) -> list[str]:
    """The words in a tool's name, without the name of the MCP server it comes from."""
    own = name.rpartition("__")[2]
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", own)]


def _with_tool(sample: Sample, tool: ToolSpec) -> Example | None:
    """A sample with this tool in it; None where the tool's parameters do not fit."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    names = sorted(properties, key=lambda name: name not in required)  # required ones first
    if len(required) > len(sample.values) or len(names) < len(sample.values):
        return None
    args: dict[str, Any] = {}
    for name, value in zip(names, sample.values, strict=False):
        schema = properties[name]
        is_same_type = _TYPES.get(_resolve(schema, tool).get("type", "")) is type(value)
        if not is_same_type or not _BOUNDS.isdisjoint(schema):
            return None
        args[name] = value
    return Example(sample.ask, tool.name, args, sample.result, sample.answer)


def _from_schema(tool: ToolSpec) -> Example:
    """An example for a tool of no known kind: it is asked for in the words of its description."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    args = {name: _value(name, properties[name], tool) for name in required if name in properties}
    task = " ".join(tool.description.split()).split(". ")[0].rstrip(".") or tool.name
    details = ", ".join(f"{name} {value}" for name, value in args.items())
    result = f"{' '.join(_words_of(tool.name))} done"
    ask = f"{task}{f': {details}' if details else ''}."
    return Example(ask, tool.name, args, result, f"{result}.")


def _value(name: str, schema: Mapping[str, Any], tool: ToolSpec, depth: int = 0) -> Any:
    """A value that fits a schema, as far as that is plain."""
    schema = _resolve(schema, tool)
    if "const" in schema:
        return schema["const"]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if "default" in schema:
        return schema["default"]
    kind = schema.get("type", "string")
    if depth >= _DEEPEST or kind in _VALUES:
        return _VALUES.get(kind)
    if kind == "array":
        return [_value(name, schema["items"], tool, depth + 1)] if schema.get("items") else []
    if kind == "object":
        inner = schema.get("properties", {})
        required = [one for one in schema.get("required", ()) if one in inner]
        return {one: _value(one, inner[one], tool, depth + 1) for one in required}
    return next((word for hint, word in _WORDS if re.search(hint, name.lower())), "tea")


def _resolve(schema: Any, tool: ToolSpec) -> Mapping[str, Any]:
    """A schema behind its reference, or the first of several that is not null."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            schema = tool.parameters.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
        elif "anyOf" in schema:
            options = [one for one in schema["anyOf"] if one.get("type") != "null"]
            schema = options[0] if options else {}
        else:
            break
    return schema if isinstance(schema, Mapping) else {}


# --- which examples are shown ---------------------------------------------------------------------

_FIRST = 8
"""Examples that do not depend on the question. They are read once, whatever is asked later."""
_ROUNDS = 2
_NEAREST = 2
_FILE = re.compile(r"\b[\w-]+\.[a-z]\w{0,4}\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"<\w+>|[^\W\d_]+|[?!+]")
_ENDINGS = ("ing", "es", "s", "ed")
_SHORTEST_STEM = 3


def first_examples(tools: Sequence[ToolSpec]) -> list[Example]:
    """Examples of the tools and of questions that need none, in turn."""
    rows = [*(examples_for(tool)[:_ROUNDS] for tool in tools[: _FIRST - 1]), DIRECT[:_ROUNDS]]
    columns = itertools.zip_longest(*rows)
    return [one for column in columns for one in column if one is not None][:_FIRST]


def nearest_examples(
    tools: Sequence[ToolSpec], question: str, *, without: Collection[Example]
) -> list[Example]:
    """The examples nearest to a question, the nearest last: a small model does what it saw last.

    An example that mentions a file or a number is near only to a question that does: what a call needs has to be
    found in the question.
    """
    candidates = [one for one in _all_examples(tools) if one not in without]
    return _by_nearness(candidates, question)[-_NEAREST:]


def nearest_tools(tools: Sequence[ToolSpec], question: str) -> list[str]:
    """The names of the tools, those whose examples are nearest to a question first."""
    ranked = reversed(_by_nearness(_all_examples(tools), question))
    return list(dict.fromkeys(one.tool for one in ranked if one.tool))


def likely_tools(tools: Sequence[ToolSpec], question: str) -> frozenset[str]:
    """The tools of the examples nearest to a question.

    Empty if the nearest example calls no tool or has nothing in common with the question.
    """
    nearest = _by_nearness(_all_examples(tools), question)[-_NEAREST:]
    if not nearest[-1].tool or not _features(question).keys() & _features(nearest[-1].ask).keys():
        return frozenset()
    return frozenset(one.tool for one in nearest if one.tool)


def _all_examples(tools: Sequence[ToolSpec]) -> list[Example]:
    return [*(one for tool in tools for one in examples_for(tool)), *DIRECT]


def _by_nearness(examples: Sequence[Example], question: str) -> list[Example]:
    features = [_features(one.ask) for one in examples]
    seen = Counter(word for one in features for word in one)
    words = _features(question)
    asked = _weigh(words, seen, len(features))
    ranks = [
        (_mentions(one) == _mentions(words), _cosine(asked, _weigh(one, seen, len(features))))
        for one in features
    ]
    return [examples[n] for n in sorted(range(len(examples)), key=ranks.__getitem__)]


def _mentions(words: Counter[str]) -> tuple[bool, bool]:
    return "<file>" in words, "<number>" in words


def _features(text: str) -> Counter[str]:
    """The stems of a question's words; all files count as one word, and so do all numbers."""
    text = _NUMBER.sub(" <number> ", _FILE.sub(" <file> ", text.lower()))
    return Counter(map(_stem, _WORD.findall(text)))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


def _weigh(words: Counter[str], seen: Mapping[str, int], texts: int) -> dict[str, float]:
    """A word that is in few examples says more."""
    return {
        word: (1 + math.log(count)) * math.log((1 + texts) / (0.5 + seen[word]))
        for word, count in words.items()
        if word in seen
    }


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    product = sum(weight * other.get(word, 0.0) for word, weight in one.items())
    length = math.hypot(*one.values()) * math.hypot(*other.values())
    return product / length if length else 0.0
