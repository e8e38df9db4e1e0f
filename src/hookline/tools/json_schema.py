"""The check of arguments against a JSON schema, for tools that come with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]  # it ships no types
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

from hookline.errors import ToolArgumentsError, ToolDefinitionError
from hookline.state import FrozenDict, thaw
from hookline.tools.arguments import GivenArguments, missing_problem, refusal, suggestion

_LONGEST = 300
"""Characters of one complaint: some of them repeat what was given, which may be a whole file."""


class SchemaArguments(GivenArguments):
    """The check of one tool's arguments. They are handed on as they were given, as one dict named `arguments`."""

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        validator = _validator(schema)

        def check(given: FrozenDict) -> dict[str, Any]:
            try:
                complaints = _complaints(validator, given)
            except Unresolvable as error:
                raise ToolArgumentsError(
                    f"the call to '{tool}' was not run: its schema has a reference to something missing ({error}).",
                    remedy="Use another tool.",
                ) from None
            if complaints:
                raise refusal(tool, complaints)
            return {"arguments": thaw(given)}

        super().__init__(tool, check)


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """What keeps a value from fitting a schema."""
    try:
        return _complaints(_validator(schema), value)
    except (ToolDefinitionError, Unresolvable) as error:
        return [str(error)]


def schema_problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """The same; an invalid schema, or one with a missing reference, is a `ToolDefinitionError`."""
    try:
        return _complaints(_validator(schema), value)
    except Unresolvable as error:
        raise ToolDefinitionError(
            f"this schema has a reference to something missing ({error})."
        ) from None


def _validator(schema: Mapping[str, Any]) -> Any:
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ToolDefinitionError(f"this is not a JSON schema: {error.message}.") from None
    # An empty registry: what a schema refers to is in the schema, and nothing is fetched for it.
    return kind(schema, registry=Registry())


def _complaints(validator: Any, value: Any) -> list[str]:
    found = [text for error in validator.iter_errors(value) for text in _problem_texts(error)]
    return list(dict.fromkeys(found))


def _problem_texts(error: Any) -> list[str]:
    place = _place(error.absolute_path)
    known: Mapping[str, Any] = error.schema.get("properties", {})
    if error.validator == "required":
        absent = [name for name in error.validator_value if name not in error.instance]
        return [
            missing_problem(f"{place}.{name}".lstrip("."), known.get(name, {})) for name in absent
        ]
    if error.validator == "additionalProperties" and error.validator_value is False:
        extra = [name for name in error.instance if name not in known]
        names, inside = tuple(known), f"{place}." if place else ""
        hints = {name: suggestion(name, names) if names else "" for name in extra}
        return [f"'{inside}{name}': unknown{hint}" for name, hint in hints.items()]
    text = error.message
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}..."
    return [f"'{place}': {text}" if place else text]


def _place(path: Sequence[str | int]) -> str:
    """Keys and indices as a model would write them."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(
        "."
    )
