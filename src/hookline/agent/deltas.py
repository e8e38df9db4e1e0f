"""What a model said piece by piece and was held back, compared with its settled answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from hookline.journal import CallDelta, ReasoningDelta, TextDelta
from hookline.state import InferenceResponse, ToolCall

Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta


def still_said(held: Sequence[Delta], response: InferenceResponse) -> Iterator[Delta]:
    """The deltas of a settled answer, in order: what is as it was in its pieces, what was changed in one."""
    fields: dict[tuple[type[Delta], str], list[Delta]] = {}
    for delta in held:
        fields.setdefault(_field(delta), []).append(delta)
    left = {field: iter(_settled(pieces, response)) for field, pieces in fields.items()}
    for delta in held:
        yield from _next(left[_field(delta)])


def _field(delta: Delta) -> tuple[type[Delta], str]:
    return type(delta), delta.call_id if isinstance(delta, CallDelta) else ""


def _next(deltas: Iterator[Delta]) -> Iterator[Delta]:
    for delta in deltas:
        yield delta
        return


def _settled(pieces: list[Delta], response: InferenceResponse) -> list[Delta]:
    """What the answer says in the place of these pieces of one field."""
    last = pieces[-1]
    if isinstance(last, CallDelta):
        return _settled_call(last, pieces, response)
    said = response.text
    if isinstance(last, ReasoningDelta):
        said = "".join(part.text for part in response.reasoning)
    if said == "".join(piece.text for piece in pieces if not isinstance(piece, CallDelta)):
        return pieces
    return [msgspec.structs.replace(last, text=said)] if said else []


def _settled_call(last: CallDelta, pieces: list[Delta], response: InferenceResponse) -> list[Delta]:
    call = next((each for each in response.calls if each.id == last.call_id), None)
    if call is None:
        return []
    written = "".join(piece.arguments for piece in pieces if isinstance(piece, CallDelta))
    if ToolCall.from_json(last.call_id, last.name, written) == call:
        return pieces
    arguments = call.malformed or msgspec.json.encode(call.args).decode()
    return [msgspec.structs.replace(last, name=call.name, arguments=arguments)]
