"""The check of a tool's arguments: from the JSON of a model to the values of a function."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Protocol

import msgspec

from hookline.errors import NotJSONError
from hookline.state import FrozenDict, JSONValue, freeze, freeze_dict
from hookline.tools.problems import ArgumentProblem, complaints, missing_problem, refusal


class Validated(msgspec.Struct, frozen=True):
    """Arguments that fit."""

    args: FrozenDict
    """As JSON: coerced, defaults filled in, read-only. Hooks and approvals see these, the journal keeps them."""
    values: dict[str, Any]
    """What the function gets. Private: never shown to a hook."""


class ArgumentCheck(Protocol):
    """What a tool needs of the check of its arguments."""

    def validate(self, args: Mapping[str, Any]) -> Validated:
        """Check arguments, or raise `ToolArgumentsError`. Validating `Validated.args` again changes nothing."""
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

    def validate(self, args: Mapping[str, Any]) -> Validated:
        """Check, or raise a `ToolArgumentsError` that a model can act on."""
        given = _freeze_args(args, self._tool)
        return Validated(given, self._check(given))


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

    def validate(self, args: Mapping[str, Any]) -> Validated:
        """Check and coerce, or raise `ToolArgumentsError`. Validating `Validated.args` again changes nothing."""
        if type(args) is FrozenDict and self._is_exact(args):
            filled = (
                args if len(args) == len(self._template) else FrozenDict({**self._template, **args})
            )
            return Validated(filled, filled)
        given = self._freeze_given(args)
        values = self._parse(given)
        view = self._view(given, values)
        whole = {**self._defaults.values, **values}
        for name, default in self._mutable.items():
            if name not in values:  # a function may change its arguments, and never its defaults
                whole[name] = copy.deepcopy(default)
        return Validated(FrozenDict({**self._template, **view}), whole)

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
