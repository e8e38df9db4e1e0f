"""What a model says, piece by piece: handed on as it comes, or held back while a hook may still withhold it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from hookline.agent.hook_log import RunHookLog
from hookline.journal import CallDelta, Durable, ReasoningDelta, TextDelta
from hookline.state import InferenceResponse, ToolCall

Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta


class RunDeltas(RunHookLog):
    """The part of a run that drivers speak through."""

    __slots__ = ("_held", "durable", "holds_deltas", "pace")

    _held: list[Delta]
    durable: Durable
    holds_deltas: bool
    pace: Callable[[], Awaitable[None]] | None

    @property
    def is_streamed(self) -> bool:
        """Whether somebody reads along, piece by piece."""
        return self.durable.is_heard

    def emit_text(self, text: str) -> None:
        """Hand on a piece of the model's text, unless a hook may still withhold it."""
        self._emit(TextDelta(*self._place(), text, self.step_index or 0))

    def emit_reasoning(self, text: str) -> None:
        """Hand on a piece of the model's thinking, unless a hook may still withhold the response."""
        self._emit(ReasoningDelta(*self._place(), text, self.step_index or 0))

    def emit_call(self, call_id: str, name: str, arguments: str) -> None:
        """Hand on a piece of a call's arguments, unless a hook may still withhold the response."""
        self._emit(CallDelta(*self._place(), call_id, name, arguments, self.step_index or 0))

    def _emit(self, delta: Delta) -> None:
        if self.holds_deltas:
            self._held.append(delta)
        else:
            self.durable.tell(delta)

    def _place(self) -> tuple[str, int, float]:
        """Where and when a delta stands among the records, of which it is none."""
        self.clock()
        return self.run_id, len(self.durable.records), self.at

    async def keep_pace(self) -> None:
        """Wait until whoever reads the stream has caught up."""
        if self.pace is not None:
            await self.pace()

    def drop_deltas(self) -> None:
        """What was held back was said in vain, or is withheld: nobody hears it."""
        self._held.clear()

    def release_deltas(self, response: InferenceResponse) -> None:
        """The response is settled: what was held back goes out, as far as it is what the model still says."""
        held = tuple(self._held)
        self._held.clear()
        for delta in still_said(held, response):
            _, seq, at = self._place()
            self.durable.tell(msgspec.structs.replace(delta, seq=seq, at=at))


# --- what was held back -------------------------------------------------------------------------------


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
