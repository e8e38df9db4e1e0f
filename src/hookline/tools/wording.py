"""What a model reads about a tool and its arguments, whoever worked out their types."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from hookline.state import FrozenDict, freeze_dict
from hookline.tools.arguments import Arguments, Codec, Defaults
from hookline.tools.signature import Parameter, Signature
from hookline.tools.tidy import tidied

_UNIONS = (typing.Union, types.UnionType)
_ODD_BLANK = re.compile(r"^[^\S\n]+$|\n\n\n", re.MULTILINE)
"""Blank lines of which the parser may make fewer: one with blanks in it, as a carriage return, or several."""
_HAS_SECTIONS = re.compile(r":\s*$|^\s*[:@.-]", re.MULTILINE)
"""Whether something in a docstring may begin a section, in any style. What has none is one description."""


class Compiled(msgspec.Struct, frozen=True):
    """What a signature becomes."""

    description: str
    parameters: FrozenDict
    """JSON schema of the arguments."""
    arguments: Arguments


def worded(
    signature: Signature, name: str, generated: dict[str, Any], codec: Codec, defaults: Defaults
) -> Compiled:
    """The schemas of the parameters as one schema, with all that is said about them."""
    description, texts = read_doc(signature.doc)
    for parameter in signature.parameters:
        _describe(generated["properties"][parameter.name], parameter, texts, defaults)
    parts: dict[str, Any] = {"type": "object", "properties": generated["properties"]}
    required = [one.name for one in signature.parameters if one.name not in defaults.values]
    if required:
        parts["required"] = required
    definitions = generated.get("$defs", {})
    schema = freeze_dict(tidied({**parts, "additionalProperties": False, "$defs": definitions}))
    return Compiled(description, schema, Arguments(name, schema["properties"], codec, defaults))


def read_doc(doc: str) -> tuple[str, dict[str, str]]:
    """The description and what is said about each parameter, in Google, NumPy, Sphinx or Epydoc style."""
    if not (_HAS_SECTIONS.search(doc) or _ODD_BLANK.search(doc)):
        return doc.strip(), {}
    import docstring_parser  # slow to import

    try:
        parsed = docstring_parser.parse(doc)
    except Exception:
        return doc.strip(), {}
    texts = {
        name.strip(): param.description
        for param in parsed.params
        for name in (param.arg_name or "").split(",")
        if param.description
    }
    # The parser keeps the line break in front of a section that follows a one-line summary.
    return (parsed.description or "").strip(), texts


def _describe(
    schema: dict[str, Any], parameter: Parameter, texts: dict[str, str], defaults: Defaults
) -> None:
    """Add what the signature and the docstring say. What is said at the annotation wins over the docstring."""
    for text in (*_said(parameter.annotation), texts.get(parameter.name)):
        if text:
            schema["description"] = text
            break
    if parameter.name in defaults.values and parameter.name not in defaults.opaque:
        schema["default"] = defaults.shown[parameter.name]


def _said(annotation: Any) -> Iterable[str | None]:
    """What is said at an annotation: by a Field first, then in plain words."""
    notes = list(notes_of(annotation))
    texts = [note for note in notes if isinstance(note, str)]
    return [*(getattr(note, "description", None) for note in notes if _is_field(note)), *texts]


def _is_field(note: Any) -> bool:
    """Whether it is pydantic's Field, without importing what has it."""
    return any(kind.__name__ == "FieldInfo" for kind in type(note).__mro__)


def notes_of(annotation: Any) -> list[Any]:
    """What `Annotated` says about a parameter: at the annotation itself first, then at the members of a union."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return [*parts[1:], *notes_of(parts[0])]
    return [note for part in parts for note in notes_of(part)] if origin in _UNIONS else []
