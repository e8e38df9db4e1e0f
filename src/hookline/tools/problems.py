"""Messages to a model about what was wrong with its call."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hookline.errors import NotJSONError, ToolArgumentsError
from hookline.state import JSONValue, freeze

_MOST_SHOWN = 60

_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_MISSING = frozenset({"missing", "missing_argument", "missing_keyword_only_argument"})

_DATE = "should be a date such as 2025-01-31"
_TIMESTAMP = "should be a date and time such as 2025-01-31T12:00:00Z"
_DURATION = "should be a duration such as PT1H30M, or a number of seconds"

# What the library says in terms of Python, by kind of problem; the rest reads well but for its first words.
_IN_TERMS_OF_JSON = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "bytes_type": "should be a string",
    "date_from_datetime_inexact": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_parsing": _DATE,
    "date_type": _DATE,
    "datetime_from_date_parsing": _TIMESTAMP,
    "datetime_parsing": _TIMESTAMP,
    "datetime_type": _TIMESTAMP,
    "decimal_type": "should be a number",
    "time_delta_parsing": _DURATION,
    "time_delta_type": _DURATION,
    "uuid_type": "should be a UUID as a string",
}
_FIRST_AND_LAST_WORDS = (
    (r"^(?:Value error|Assertion failed), ", ""),
    (r"^\w+(?: input)? should ", "should "),
    (r" after validation, ", ", "),
    (r"^Unable to extract tag using discriminator (.*)$", r"needs \1, which says what it is"),
    (
        r"^Input tag (.*) found using (.*) does not match any of the expected tags: ",
        r"\2 is \1, but should be one of ",
    ),
)


class ArgumentProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong with the arguments."""

    place: tuple[str | int, ...]
    """Keys and indices that lead to it, and the names of union members that were tried on the way."""
    kind: str
    message: str

    @property
    def is_unknown(self) -> bool:
        """Something was given that nobody asked for."""
        return self.kind in _UNKNOWN

    @property
    def is_missing(self) -> bool:
        """Something was not given."""
        return self.kind in _MISSING


def closest(name: str, names: Iterable[str]) -> list[str]:
    """The names that were probably meant, the likeliest first."""
    by_folded = {known.casefold(): known for known in names}
    return [by_folded[match] for match in difflib.get_close_matches(name.casefold(), by_folded)]


def did_you_mean(names: Sequence[str]) -> str:
    """A sentence to add to an error, with the names that were probably meant; empty if there are none."""
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


def refusal(tool: str, complaints: Iterable[str]) -> ToolArgumentsError:
    """The error for a call with these complaints about its arguments."""
    return ToolArgumentsError(
        f"the call to '{tool}' was not run: {'; '.join(complaints)}.",
        remedy="Call it again with this corrected.",
    )


def malformed_error(tool: str, text: str, names: Iterable[str]) -> ToolArgumentsError:
    """The error for arguments that were no JSON object, or one with something in it that cannot be taken."""
    if problem := _problem_inside(text):
        return refusal(tool, [problem])
    example = ", ".join(f'"{name}": ...' for name in names)
    return ToolArgumentsError(
        f"the call to '{tool}' was not run: its arguments are not a JSON object (given: {_quote(text)}).",
        remedy=f"Send them as one JSON object, {{{example}}}.",
    )


def _problem_inside(text: str) -> str:
    """What is wrong inside a JSON object; empty if the text is not JSON."""
    try:
        given = json.loads(text, parse_int=lambda digits: int(digits[:_MOST_SHOWN]))
        for name, value in given.items() if isinstance(given, dict) else ():
            freeze(value, f"'{freeze(name, 'the name of an argument')}'")
    except NotJSONError as error:
        return error.message.removesuffix(".")
    except RecursionError:
        return "the arguments are nested too deep"
    except ValueError:
        pass
    return ""


def missing_problem(name: str, schema: Mapping[str, Any]) -> str:
    """The complaint about a required argument that was not given; `schema` is the argument's own."""
    return f"'{name}': missing (expected: {_expected_text(schema)})"


def complaints(
    problems: Iterable[ArgumentProblem], given: Mapping[str, Any], names: Sequence[str]
) -> list[str]:
    """One complaint per place; what the members of a union wanted is joined by "or"."""
    wanted: dict[str, list[str]] = {}
    values: dict[str, str] = {}
    for problem in problems:
        path, value = _locate(problem, given)
        text = _phrase(problem, names)
        if text not in wanted.setdefault(path, []):
            wanted[path].append(text)
        if not problem.is_unknown and not problem.is_missing:
            values[path] = f" (given: {_quote(value)})"
    return [f"{path}: {' or '.join(texts)}{values.get(path, '')}" for path, texts in wanted.items()]


def _locate(problem: ArgumentProblem, given: Any) -> tuple[str, Any]:
    """The path of a problem as the model would write it, and the value there."""
    path = ""
    for position, part in enumerate(problem.place, start=1):
        is_key = isinstance(given, dict) and part in given
        is_index = isinstance(given, list) and isinstance(part, int) and part < len(given)
        if is_key or is_index or (problem.is_missing and position == len(problem.place)):
            path += f"[{part}]" if isinstance(part, int) else f".{part}"
        if is_key or is_index:
            given = given[part]
        # Anything else names the member of a union that was tried: the model did not write it.
    return f"'{path.removeprefix('.')}'" if path else "the arguments", given


def _phrase(problem: ArgumentProblem, names: Sequence[str]) -> str:
    if problem.is_missing:
        return "missing"
    if problem.is_unknown:
        is_inside = len(problem.place) > 1
        return "unknown" if is_inside else f"unknown{suggestion(str(problem.place[0]), names)}"
    message = _IN_TERMS_OF_JSON.get(problem.kind, problem.message)
    for pattern, replacement in _FIRST_AND_LAST_WORDS:
        message = re.sub(pattern, replacement, message)
    return message


def suggestion(name: str, names: Sequence[str]) -> str:
    """The argument that was probably meant by an unknown one."""
    likely = closest(name, names)
    if likely:
        return f" (did you mean '{likely[0]}'?)"
    return f" (the arguments are: {', '.join(names)})" if names else " (it takes no arguments)"


def _expected_text(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(_quote(choice) for choice in schema['enum'])}"
    if "const" in schema:
        return _quote(schema["const"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(_expected_text(choice) for choice in choices))
    return str(schema.get("type", "object" if "$ref" in schema else "any value"))


def _quote(value: JSONValue) -> str:
    text = msgspec.json.encode(value).decode()
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"
    )
