"""The JSON schema and the check of a signature that is not plain, by pydantic.

Pydantic is slow to import: this module is imported when the first such tool is made, or the first argument is coerced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, ValidationError
from typing_extensions import TypedDict

from hookline.errors import ToolDefinitionError
from hookline.tools.arguments import ArgumentProblem, ArgumentsRefused, Codec, settle_defaults
from hookline.tools.schema import CompiledSchema, add_descriptions, exact_types, notes_of
from hookline.tools.signature import NO_DEFAULT, Parameter, Signature

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)


def compile_signature(signature: Signature, name: str) -> CompiledSchema:
    """Compile a signature for the tool called `name`, or say which parameter cannot be used."""
    for parameter in signature.parameters:
        _refuse_field_tricks(parameter, signature.origin)
    adapter, generated = _adapt(signature)
    codec = _codec(adapter, signature.parameters)
    given = {one.name: one.default for one in signature.parameters if one.default is not NO_DEFAULT}
    return add_descriptions(signature, name, generated, codec, settle_defaults(codec, given))


def codec_of(signature: Signature) -> Codec:
    """The check alone, for a signature whose schema is known."""
    return _codec(_adapt(signature)[0], signature.parameters)


# --- pydantic: types in, validator and schema out -----------------------------------------------


def _adapt(signature: Signature) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    fields = {parameter.name: parameter.annotation for parameter in signature.parameters}
    try:
        return _adapter(fields)
    except Exception as error:
        unfit = [
            f"'{name}' of type {_type_name(fields[name])}"
            for name in fields
            if not _has_schema(fields[name])
        ]
        reason = str(error).split(". ")[0].splitlines()[0]
        raise ToolDefinitionError(
            f"{signature.origin}: a model cannot fill in parameter {' and '.join(unfit)} ({reason}).",
            remedy="Use a type with a JSON form (scalars, lists, dicts, enums, dates, dataclasses, pydantic models), "
            "or fill the parameter in yourself with functools.partial.",
        ) from error


def _adapter(fields: dict[str, Any]) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """A typed dict of the parameters: its fields may have any name, and validating one makes no object.

    No field is required here. Which arguments are required, and what stands for one that is absent,
    is decided by `Arguments`, since a default may be something that no type admits.
    """
    make: Any = TypedDict
    shape = make("Arguments", fields, total=False)
    shape.__pydantic_config__ = _CONFIG
    adapter: TypeAdapter[Any] = TypeAdapter(shape)
    return adapter, adapter.json_schema(schema_generator=_Generator)


def _has_schema(annotation: Any) -> bool:
    try:
        _adapter({"it": annotation})
    except Exception:
        # Pydantic, pydantic-core and the author's own types each raise what they like.
        return False
    return True


def _refuse_field_tricks(parameter: Parameter, origin: str) -> None:
    where = f"{origin}: parameter '{parameter.name}'"
    if isinstance(parameter.default, FieldInfo):
        raise ToolDefinitionError(
            f"{where} has a Field(...) as its default, which a plain call of the function would receive.",
            remedy=f"Write `{parameter.name}: Annotated[type, Field(...)] = default`.",
        )
    for field in notes_of(parameter.annotation):
        if not isinstance(field, FieldInfo):
            continue
        if not field.is_required():
            raise ToolDefinitionError(
                f"{where} has a default inside Field(...), which a plain call of the function would not know.",
                remedy=f"Write `{parameter.name}: ... = default` in the signature.",
            )
        if field.alias or field.validation_alias or field.serialization_alias:
            raise ToolDefinitionError(
                f"{where} has an alias: hooks, journal and function would see different names.",
                remedy="Rename the parameter instead.",
            )


class _Generator(GenerateJsonSchema):
    """Pydantic's schema without titles made from field names, silent about defaults that are not JSON,
    and without two types that it describes but that no validated argument can be of.
    """

    def generator_schema(self, schema: Any) -> NoReturn:  # noqa: ARG002 - no iterator is taken, of whatever
        raise TypeError(
            "an iterator would be validated only while the function reads it: take a list or a Sequence"
        )

    def is_subclass_schema(self, schema: Any) -> NoReturn:  # noqa: ARG002 - no class is taken, of whatever base
        raise TypeError("JSON has no classes")

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the answer is always the same
        return False

    def emit_warning(self, kind: Any, detail: str) -> None: ...


def _codec(adapter: TypeAdapter[Any], parameters: tuple[Parameter, ...]) -> Codec:
    return Codec(
        _parser(adapter.validator.validate_json),
        _dumper(adapter.serializer.to_python),
        exact_types(parameters),
    )


def _parser(validate_json: Callable[[bytes], Any]) -> Callable[[bytes], dict[str, Any]]:
    def parse(data: bytes) -> dict[str, Any]:
        try:
            return validate_json(data)  # type: ignore[no-any-return]
        except ValidationError as error:
            raise ArgumentsRefused(problems_of(error)) from None
        except Exception as error:  # a validator the author wrote has crashed
            raise ArgumentsRefused(
                [
                    ArgumentProblem(
                        (), "crash", f"could not be checked ({type(error).__name__}: {error})"
                    )
                ]
            ) from error

    return parse


def problems_of(error: ValidationError, around: tuple[str, ...] = ()) -> list[ArgumentProblem]:
    """What pydantic complains about. `around` are keys that the model wrote around what was checked."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [ArgumentProblem((*around, *each["loc"]), each["type"], each["msg"]) for each in found]


def _dumper(to_python: Callable[..., Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def dump(values: dict[str, Any]) -> dict[str, Any]:
        try:
            return to_python(values, mode="json", by_alias=True, round_trip=True, warnings=False)  # type: ignore[no-any-return]
        except PydanticSerializationError:
            return {}

    return dump


def _type_name(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
