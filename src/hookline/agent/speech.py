"""What a model says, piece by piece: handed on as it comes, or held back while a hook may still withhold it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from hookline.agent.held import Delta, still_said
from hookline.agent.trail import RunTrail
from hookline.journal import CallDelta, Durable, ReasoningDelta, TextDelta
from hookline.state import InferenceResponse


class RunSpeech(RunTrail):
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
