"""The check of a tool's arguments: from the JSON of a model to the values of a function, or to what is wrong."""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol

import msgspec

from hookline.errors import NotJSONError, ToolArgumentsError
from hookline.state import FrozenDict, JSONValue, freeze, freeze_dict


class ValidArguments(msgspec.Struct, frozen=True):
    """Arguments that fit."""

    args: FrozenDict
    """As JSON: coerced, defaults filled in, read-only. Hooks and approvals see these, the journal keeps them."""
    values: dict[str, Any]
    """What the function gets. Private: never shown to a hook."""


class ArgumentCheck(Protocol):
    """What a tool needs of the check of its arguments."""

    def validate(self, args: Mapping[str, Any]) -> ValidArguments:
        """Check arguments, or raise `ToolArgumentsError`. Validating `ValidArguments.args` again changes nothing."""
        ...

    def are_complete(self, args: FrozenDict) -> bool:
        """Whether these are all the arguments, and the very values the tool gets: then nothing needs doing."""
        ...


class GivenArguments:
    """A check that takes the arguments as they are given, whole. `check` makes the values of them, or raises."""

    __slots__ = ("_check", "_tool")

    def __init__(self, tool: str, check: Callable[[FrozenDict], dict[str, Any]]) -> None:
        self._tool = tool
        self._check = check

    def are_complete(self, args: FrozenDict) -> bool:  # noqa: ARG002 - the protocol's signature
        """They are always checked: a foreign schema may say anything."""
        return False

    def validate(self, args: Mapping[str, Any]) -> ValidArguments:
        """Check, or raise a `ToolArgumentsError` that a model can act on."""
        given = _freeze_args(args, self._tool)
        return ValidArguments(given, self._check(given))


def _freeze_args(args: Mapping[str, Any], tool: str) -> FrozenDict:
    return args if type(args) is FrozenDict else freeze_dict(dict(args), f"an argument of '{tool}'")


class ArgumentsRefused(Exception):
    """Raised by a codec when arguments do not fit its types."""

    def __init__(self, problems: list[ArgumentProblem]) -> None:
        super().__init__()
        self.problems = problems


class Codec(msgspec.Struct, frozen=True):
    """How JSON becomes the types of one signature, and back."""

    parse: Callable[[bytes], dict[str, Any]]
    """A JSON object with some of the arguments -> their values. Raises `ArgumentsRefused` and nothing else."""
    dump: Callable[[dict[str, Any]], dict[str, Any]]
    """Values -> what they are in JSON, without those that cannot be written."""
    exact: dict[str, frozenset[type]] | None = None
    """For each parameter the JSON types that are values as they are; None if that is not so for every parameter."""


class Defaults(msgspec.Struct, frozen=True):
    """The defaults of a signature."""

    values: dict[str, Any]
    shown: dict[str, JSONValue]
    """The same as JSON."""
    opaque: frozenset[str]
    """Those that their JSON does not lead back to (a sentinel, None for an int)."""


def settle_defaults(codec: Codec, defaults: Mapping[str, Any]) -> Defaults:
    """Show each default as JSON, and note those that this JSON does not lead back to."""
    shown = {name: _show(codec, name, value) for name, value in defaults.items()}
    values = dict(defaults)
    opaque = set()
    for name, value in defaults.items():
        try:
            parsed = codec.parse(msgspec.json.encode({name: shown[name]}))[name]
        except ArgumentsRefused:
            opaque.add(name)
            continue
        if isinstance(value, int | float) and isinstance(parsed, int | float) and parsed == value:
            values[name] = shown[name] = (
                parsed  # `seconds: float = 5` is 5.0, as it would be had the model given 5
            )
        elif not _is_same(parsed, value):
            opaque.add(name)
    return Defaults(values, shown, frozenset(opaque))


class Arguments:
    """The compiled check of one tool's arguments."""

    __slots__ = (
        "_codec",
        "_defaults",
        "_exact",
        "_mutable",
        "_properties",
        "_required",
        "_template",
        "_tool",
    )

    def __init__(self, tool: str, properties: FrozenDict, codec: Codec, defaults: Defaults) -> None:
        self._tool = tool
        self._properties = properties
        self._codec = codec
        self._defaults = defaults
        self._required = properties.keys() - defaults.values.keys()
        self._template = {name: defaults.shown.get(name) for name in properties}
        """Every argument, in the order of the signature; required ones are always overwritten."""
        self._exact = None if defaults.opaque else codec.exact
        self._mutable = {
            name: value
            for name, value in defaults.values.items()
            if _is_mutable(value, is_opaque=name in defaults.opaque)
        }

    def validate(self, args: Mapping[str, Any]) -> ValidArguments:
        """Check and coerce, or raise `ToolArgumentsError`. Validating `ValidArguments.args` again changes nothing."""
        if type(args) is FrozenDict and self._is_exact(args):
            filled = (
                args if len(args) == len(self._template) else FrozenDict({**self._template, **args})
            )
            return ValidArguments(filled, filled)
        given = self._freeze_given(args)
        values = self._parse(given)
        view = self._view(given, values)
        whole = {**self._defaults.values, **values}
        for name, default in self._mutable.items():
            if name not in values:  # a function may change its arguments, and never its defaults
                whole[name] = copy.deepcopy(default)
        return ValidArguments(FrozenDict({**self._template, **view}), whole)

    def are_complete(self, args: FrozenDict) -> bool:
        """Whether these are all the arguments, and the very values the function gets: then nothing needs doing."""
        exact = self._exact
        if exact is None or len(args) != len(exact):
            return False
        try:
            for name, value in args.items():
                if type(value) not in exact[name]:
                    return False
        except KeyError:
            return False
        return True

    def _is_exact(self, args: FrozenDict) -> bool:
        """Whether these are JSON values of the very types asked for, which leaves nothing to check or coerce."""
        exact = self._exact
        if exact is None:
            return False
        for name, value in args.items():
            if type(value) not in exact.get(name, ()):
                return False
        return len(args) == len(exact) or self._required <= args.keys()

    def _freeze_given(self, args: Mapping[str, Any]) -> FrozenDict:
        """The arguments as frozen JSON, without those that only repeat an opaque default."""
        frozen = _freeze_args(args, self._tool)
        repeated = [
            name
            for name in self._defaults.opaque & frozen.keys()
            if frozen[name] == self._template[name]
        ]
        return (
            FrozenDict({name: frozen[name] for name in frozen if name not in repeated})
            if repeated
            else frozen
        )

    def _parse(self, given: FrozenDict) -> dict[str, Any]:
        absent = self._required - given.keys()
        lacking = [
            missing_problem(name, schema)
            for name, schema in self._properties.items()
            if name in absent
        ]
        try:
            values = self._codec.parse(msgspec.json.encode(given))
        except ArgumentsRefused as refused:
            found = complaints(refused.problems, given, tuple(self._properties))
            raise refusal(self._tool, [*found, *lacking]) from refused.__cause__
        if lacking:
            raise refusal(self._tool, lacking)
        return values

    def _view(self, given: FrozenDict, values: dict[str, Any]) -> dict[str, JSONValue]:
        """The values as JSON that leads back to them; where their own JSON does not (a secret), what was given."""
        dumped = self._codec.dump(values)
        view = {name: _freeze_or(given[name], dumped, name) for name in values}
        if view != given and self._codec.exact is None:
            # Plain values always lead back to themselves.
            for name in self._find_lost(view, values):
                view[name] = given[name]
        # A set is written in another order by each process; a view that was stored must stay what it is.
        return {
            name: given[name]
            if shown != given[name] and _sort_lists(shown) == _sort_lists(given[name])
            else shown
            for name, shown in view.items()
        }

    def _find_lost(self, view: dict[str, JSONValue], values: dict[str, Any]) -> Iterable[str]:
        """The arguments that would not be the same values if the view were validated."""
        try:
            again = {
                **self._defaults.values,
                **self._codec.parse(msgspec.json.encode(self._freeze_given(view))),
            }
        except ArgumentsRefused:
            return values
        return [name for name, value in values.items() if not _is_same(again[name], value)]


def _freeze_or(fallback: JSONValue, dumped: dict[str, Any], name: str) -> JSONValue:
    try:
        return freeze(dumped[name])
    except (KeyError, NotJSONError):
        return fallback


def _sort_lists(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        return {key: _sort_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_sort_lists, value), key=msgspec.json.encode)
    return value


def _show(codec: Codec, name: str, default: Any) -> JSONValue:
    """A default as JSON, or as Python writes it; the same in every process, so sets are sorted and addresses go."""
    try:
        shown = freeze(codec.dump({name: default})[name])
        return freeze(_sort_lists(shown)) if isinstance(default, Set) else shown
    except (KeyError, NotJSONError):
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(default))


def _is_mutable(default: Any, *, is_opaque: bool) -> bool:
    """Whether calls must not share a default. One that only stands for itself, like a sentinel, stays itself."""
    if isinstance(default, str | int | float | bytes | None):
        return False
    if is_opaque and not isinstance(default, list | dict | set | bytearray):
        return False
    try:
        return copy.deepcopy(default) is not default
    except Exception:  # the author's code; what cannot be copied is shared
        return False


def _is_same(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        # Comparing is the author's code; what cannot be compared is not known to be the same.
        return False


# --- messages to a model about what was wrong with its call ---------------------------------------


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
    return f"'{name}': missing (expected: {_describe_expected(schema)})"


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


def _describe_expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(_quote(choice) for choice in schema['enum'])}"
    if "const" in schema:
        return _quote(schema["const"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(_describe_expected(choice) for choice in choices))
    return str(schema.get("type", "object" if "$ref" in schema else "any value"))


def _quote(value: JSONValue) -> str:
    text = msgspec.json.encode(value).decode()
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"
    )
