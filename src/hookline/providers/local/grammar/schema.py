"""From JSON schemas to a grammar in llama.cpp's notation: whatever the model writes fits the schema.

What a grammar cannot say well (patterns, multiples, bounds of fractions) is left to the check that every tool call and
every structured answer passes anyway.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hookline.errors import UnsupportedError
from hookline.providers.local.grammar.integers import between

_MOST_REPEATS = 256
"""Repetitions are spelled out inside llama.cpp: more would be slow, and it refuses some thousands."""
_MOST_ALTERNATIVES = 512

_COMMON = {
    # No `\u0000`: every letter can be written as it is, and half a letter must not be written at all.
    "char": r'[^"\\\x00-\x1F\x7F] | "\\" ["\\/bfnrt]',
    "string": r'"\"" char* "\""',
    "integer": '"-"? ( "0" | [1-9] [0-9]{0,15} )',
    "number": '"-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,15} )?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "object": r'"{" ( string ": " value ( ", " string ": " value )* )? "}"',
    "array": '"[" ( value ( ", " value )* )? "]"',
    "value": "object | array | string | number | boolean | null",
}
"""Rules for JSON as such. One that names others brings them along."""
_NEEDS = {
    "string": ("char",),
    "object": ("string", "value"),
    "array": ("value",),
    "value": ("object", "array", "string", "number", "boolean", "null"),
}

_FORMATS = {
    "date": r'"\"" date "\""',
    "time": r'"\"" time "\""',
    "date-time": r'"\"" date "T" time "\""',
    "uuid": r'"\"" hex{8} ( "-" hex{4} ){3} "-" hex{12} "\""',
}
_YEAR = '( [12] [0-9]{3} | "9999" )'
_LEAP_YEAR = (
    '( [12] [0-9] ( "0" [48] | [2468] [048] | [13579] [26] ) | ( "1" [26] | "2" [048] ) "00" )'
)
_DAYS = (
    '( ( "0" [13578] | "1" [02] ) "-" ( "0" [1-9] | [12] [0-9] | "3" [01] )'
    ' | ( "0" [469] | "11" ) "-" ( "0" [1-9] | [12] [0-9] | "30" )'
    ' | "02-" ( "0" [1-9] | "1" [0-9] | "2" [0-8] ) )'
)
_OFFSET = '( "Z" | [+-] ( "0" [0-9] | "1" [0-4] ) ":" [0-5] [0-9] )'
_FORMAT_RULES = {
    "date": f'{_YEAR} "-" {_DAYS} | {_LEAP_YEAR} "-02-29"',
    "time": f'( [01] [0-9] | "2" [0-3] ) ( ":" [0-5] [0-9] ){{2}} ( "." [0-9]{{1,6}} )? {_OFFSET}',
    "hex": "[0-9a-f]",
}
_FORMAT_NEEDS = {
    "date": ("date",),
    "time": ("time",),
    "date-time": ("date", "time"),
    "uuid": ("hex",),
}


class Grammar:
    """A grammar in the making: rules by name, of which `root` is written last."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}

    def text(self, root: str) -> str:
        """The grammar whose texts are those of `root`."""
        return "".join(
            f"{name} ::= {body}\n" for name, body in {"root": root, **self._rules}.items()
        )

    def named(self, name: str, body: str) -> str:
        """Give an expression a name of its own, and use it by that."""
        self._rules[name] = body
        return name

    def reserved(self, kind: str) -> str:
        """A name for a rule that is written later."""
        name = f"{kind}-{len(self._rules)}"
        self._rules[name] = ""
        return name

    def schema(self, schema: Mapping[str, Any] | bool) -> str:
        """An expression for the JSON texts that fit a schema."""
        root = schema if isinstance(schema, Mapping) else {}
        return _Reader(self, root).expression(schema)

    def properties(self, schema: Mapping[str, Any]) -> list[tuple[str, bool]]:
        """The properties of an object's schema, each an expression with its key, and whether it is required."""
        reader = _Reader(self, schema)
        return reader.properties(reader.resolved(schema))

    def common(self, name: str) -> str:
        """A rule for JSON as such."""
        if name not in self._rules:
            self._rules[name] = _COMMON[name]
            for needed in _NEEDS.get(name, ()):
                self.common(needed)
        return name

    def format(self, name: str) -> str:
        """A string in a format of JSON schema."""
        for needed in _FORMAT_NEEDS[name]:
            self._rules[needed] = _FORMAT_RULES[needed]
        return self.named(f"{name}-string", _FORMATS[name])


def literal(text: str) -> str:
    """A text that is written as it stands."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def json_literal(value: object) -> str:
    """A JSON value that is written as it stands."""
    return literal(json.dumps(value, ensure_ascii=False))


def repeated(expression: str, least: int, most: int | None) -> str:
    """An expression so many times; bounds too large to spell out are left to the check of the whole."""
    least = min(least, _MOST_REPEATS)
    if most is None or most > _MOST_REPEATS:
        return f"{expression}{{{least},}}"
    return f"{expression}{{{least},{max(least, most)}}}"


class _Reader:
    """Reads one schema, with the definitions in it."""

    def __init__(self, grammar: Grammar, root: Mapping[str, Any]) -> None:
        self._grammar = grammar
        self._root = root
        self._references: dict[str, str] = {}

    def expression(self, schema: Mapping[str, Any] | bool) -> str:
        """What may be written for a schema."""
        if schema is True or schema == {}:
            return self._grammar.common("value")
        if not isinstance(schema, Mapping):
            raise _unsupported(f"{schema!r} allows nothing")
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return json_literal(schema["const"])
        if "enum" in schema:
            return self._either(schema["enum"], json_literal)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._either(self._choices(schema, key), self.expression)
        if "allOf" in schema:
            return self.expression(self.resolved(schema))
        return self._typed(schema)

    def _typed(self, schema: Mapping[str, Any]) -> str:
        kind = schema.get("type") or ("object" if "properties" in schema else None)
        if kind is None:
            return self._grammar.common("value")
        if isinstance(kind, Sequence) and not isinstance(kind, str):
            return self._either(kind, lambda each: self._typed({**schema, "type": each}))
        write = _WRITERS.get(kind)
        if write is None:
            raise _unsupported(f"there is no type {kind!r}")
        return write(self, schema)

    def _either(self, each: Sequence[Any], write: Callable[[Any], str]) -> str:
        if not each:
            raise _unsupported("a choice between nothing")
        if len(each) > _MOST_ALTERNATIVES:
            raise _unsupported(f"a choice of {len(each)}, where {_MOST_ALTERNATIVES} are the most")
        written = list(dict.fromkeys(write(one) for one in each))
        return written[0] if len(written) == 1 else f"( {' | '.join(written)} )"

    # --- references -------------------------------------------------------------------------------

    def _reference(self, pointer: str) -> str:
        """A rule of its own for what is referred to: it may refer to itself."""
        if pointer not in self._references:
            name = self._references[pointer] = self._grammar.reserved("ref")
            self._grammar.named(name, self.expression(self._found(pointer)))
        return self._references[pointer]

    def _found(self, pointer: str) -> Mapping[str, Any]:
        found: Any = self._root
        path, _, inner = pointer.partition("#")
        for part in inner.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if path or not isinstance(found, Mapping) or key not in found:
                raise _unsupported(f"{pointer!r} leads nowhere")
            found = found[key]
        if not isinstance(found, Mapping | bool):
            raise _unsupported(f"{pointer!r} leads to no schema")
        return found  # type: ignore[return-value]

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A schema with what it refers to, and all that must hold together, put into one."""
        for _ in range(len(self._root.get("$defs", ())) + 1):
            if "$ref" not in schema:
                break
            schema = self._found(schema["$ref"])
        if "allOf" not in schema:
            return schema
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in map(self.resolved, schema["allOf"]):
            merged = {
                **part,
                **merged,
                "properties": {**part.get("properties", {}), **merged.get("properties", {})},
                "required": [*part.get("required", ()), *merged.get("required", ())],
            }
        return {key: value for key, value in merged.items() if value not in ({}, [])}

    def _choices(self, schema: Mapping[str, Any], key: str) -> Sequence[Any]:
        """What there is to choose from. What stands beside the choice holds for each."""
        beside = self.resolved({name: value for name, value in schema.items() if name != key})
        choices = [each if isinstance(each, Mapping) else {} for each in schema[key]]
        if "properties" in beside:
            return [_refined(beside, self.resolved(each)) for each in choices]
        if "type" in beside:
            return [each if "$ref" in each else {**beside, **each} for each in choices]
        return list(schema[key])

    # --- kinds of values ----------------------------------------------------------------------------

    def string(self, schema: Mapping[str, Any]) -> str:
        """Text, in a format or within bounds of length."""
        if schema.get("format") in _FORMATS:
            return self._grammar.format(schema["format"])
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if not least and most is None:
            return self._grammar.common("string")
        self._grammar.common("char")
        return rf'"\"" {repeated("char", least, most)} "\""'

    def integer(self, schema: Mapping[str, Any]) -> str:
        """A whole number within its bounds."""
        lower = [math.ceil(schema["minimum"])] if "minimum" in schema else []
        upper = [math.floor(schema["maximum"])] if "maximum" in schema else []
        if "exclusiveMinimum" in schema:
            lower.append(math.floor(schema["exclusiveMinimum"]) + 1)
        if "exclusiveMaximum" in schema:
            upper.append(math.ceil(schema["exclusiveMaximum"]) - 1)
        if not lower and not upper:
            return self._grammar.common("integer")
        least, most = max(lower, default=None), min(upper, default=None)
        bounds = between(least, most)
        if not bounds:
            raise _unsupported(f"there is no integer from {least} to {most}")
        return f"( {bounds} )"

    def number(self, schema: Mapping[str, Any]) -> str:
        """A number; of its bounds only the sign is told."""
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        number = self._grammar.common("number")
        if least is not None and least >= 0:
            return self._grammar.named("positive-number", _COMMON["number"].removeprefix('"-"? '))
        return number

    def array(self, schema: Mapping[str, Any]) -> str:
        """A list: each place with its own schema, then as many more as there may be."""
        first = [self.expression(one) for one in schema.get("prefixItems", ())]
        rest = schema.get("items", not first)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if rest is False:
            most = len(first)
        first = first[: max(least, len(first)) if most is None else most]
        if not first:
            return self._list(self.expression(rest), least, most)
        more = ""
        if rest is not False and (most is None or most > len(first)):
            others = None if most is None else most - len(first)
            more = repeated(f'( ", " {self.expression(rest)} )', max(0, least - len(first)), others)
        return f'"[" {(" {} ".format(literal(", "))).join(first)} {more} "]"'

    def _list(self, item: str, least: int, most: int | None) -> str:
        if most == 0:
            return '"[]"'
        others = repeated(f'( ", " {item} )', max(0, least - 1), None if most is None else most - 1)
        filled = f"{item} {others}"
        return f'"[" {filled} "]"' if least else f'"[" ( {filled} )? "]"'

    def object(self, schema: Mapping[str, Any]) -> str:
        """An object: what is required first, in order; then, in order, any of the rest."""
        properties = self.properties(schema)
        if not properties:
            return self._map(schema.get("additionalProperties", "properties" not in schema))
        required = [each for each, is_required in properties if is_required]
        optional = [each for each, is_required in properties if not is_required]
        if required:
            return f'"{{" {joined(required)}{following(optional)} "}}"'
        return f'"{{" ( {self._any_of(optional)} )? "}}"'

    def _any_of(self, optional: list[str]) -> str:
        """At least one of these, in order: whichever comes first has no comma before it."""
        starts = [f"{each}{following(optional[n + 1 :])}" for n, each in enumerate(optional)]
        return " | ".join(starts)

    def _map(self, values: Mapping[str, Any] | bool) -> str:
        if values is False:
            return '"{}"'
        entry = f'{self._grammar.common("string")} ": " {self.expression(values)}'
        return f'"{{" ( {entry} ( ", " {entry} )* )? "}}"'

    def properties(self, schema: Mapping[str, Any]) -> list[tuple[str, bool]]:
        """Each property, with its key and a name of its own; and whether it must be there."""
        required = schema.get("required", ())
        found = []
        for key, value in schema.get("properties", {}).items():
            name = self._grammar.reserved("property")
            body = f"{literal(json.dumps(key, ensure_ascii=False) + ': ')} {self.expression(value)}"
            found.append((self._grammar.named(name, body), key in required))
        return found


_WRITERS: dict[str, Callable[[_Reader, Mapping[str, Any]], str]] = {
    "string": _Reader.string,
    "integer": _Reader.integer,
    "number": _Reader.number,
    "boolean": lambda reader, _: reader._grammar.common("boolean"),
    "null": lambda reader, _: reader._grammar.common("null"),
    "array": _Reader.array,
    "object": _Reader.object,
}


def joined(each: Sequence[str]) -> str:
    """Expressions with a comma between them."""
    return f" {literal(', ')} ".join(each)


def following(optional: Sequence[str]) -> str:
    """Any of these, in order, after something else."""
    return "".join(f" ( {literal(', ')} {each} )?" for each in optional)


def _refined(schema: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object's schema with what else must hold for it."""
    properties = dict(schema["properties"])
    for name, value in more.get("properties", {}).items():
        both = isinstance(value, Mapping) and isinstance(properties.get(name), Mapping)
        properties[name] = {**properties[name], **value} if both else value
    required = [*schema.get("required", ()), *more.get("required", ())]
    return {**schema, **more, "properties": properties, "required": required}


def _unsupported(problem: str) -> UnsupportedError:
    return UnsupportedError(
        f"local: a schema cannot be made into a grammar: {problem}.",
        remedy="Use a simpler schema, or another model.",
    )
