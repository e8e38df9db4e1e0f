"""The driver for models that cannot call tools: they reason and act in text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.drivers.answer_stream import AnswerStream
from hookline.drivers.base import Turn
from hookline.drivers.features import check_features
from hookline.drivers.fold import ask
from hookline.drivers.model import Models, full_name
from hookline.drivers.protocol import Spoken, read
from hookline.drivers.react_prompt import THOUGHT, as_text
from hookline.drivers.tool_choice import check_choice, choosing
from hookline.errors import BuildError, MalformedResponseError
from hookline.providers import Feature, Provider
from hookline.state import (
    EMPTY,
    NO_USAGE,
    AssistantMessage,
    InferenceRequest,
    InferenceResponse,
    Reasoning,
    ToolCall,
    UserMessage,
)


class ReActDriver:
    """One turn is a JSON object the model writes: a thought, and calls or an answer.

    The model is constrained to that object where its provider can do so (`constrained=False` says not to). A
    turn that cannot be understood is answered with what is wrong with it, at most `corrections` times; after
    that it is a MalformedResponseError. What is streamed is the answer alone, never the protocol around it.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: Provider | None = None,
        options: Mapping[str, Any] = EMPTY,
        tool_choice: str = "auto",
        constrained: bool = True,
        corrections: int = 2,
    ) -> None:
        if not isinstance(corrections, int) or corrections < 0:
            raise BuildError(f"corrections={corrections!r} is not a number of at least zero.")
        self._models = Models(model, provider, options)
        self._tool_choice = tool_choice
        self._constrained = constrained
        self._corrections = corrections

    @property
    def model(self) -> str:
        """The model it asks, as `provider:model`."""
        return self._models.name

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Ask the model, and ask again where it did not keep to the protocol."""
        provider, request = self._models.addressed(request)
        request = choosing(request, self._tool_choice)
        check_choice(request)
        check_features(provider, msgspec.structs.replace(request, tools=(), tool_choice="auto"))
        wanted = self._constrained or request.output_schema is not None
        constrained = wanted and Feature.STRUCTURED_OUTPUT in provider.features
        asked = as_text(request, constrained=constrained)
        if not request.tools or request.tool_choice == "none":
            return await ask(provider, asked, turn)
        return await self._converse(provider, request, asked, turn)

    async def _converse(
        self, provider: Provider, request: InferenceRequest, asked: InferenceRequest, turn: Turn
    ) -> InferenceResponse:
        usage, problem = NO_USAGE, ""
        try:
            for _ in range(self._corrections + 1):
                hearing = _Hearing(request, turn)
                response = await ask(provider, asked, turn, hearing.feed)
                usage = usage + response.usage
                spoken = hearing.spoken(response.text)
                problem = _problem(request, response, spoken)
                if not problem:
                    whole, usage = msgspec.structs.replace(response, usage=usage), NO_USAGE
                    return hearing.response(whole, spoken)
                asked = _corrected(asked, response, problem)
        finally:
            if usage is not NO_USAGE:
                turn.charge(usage)
        raise MalformedResponseError(
            f"'{full_name(provider, asked.model)}' does not keep to the text protocol for tools: {problem}",
            remedy="Use a model that can, or one that calls tools natively.",
        )

    async def aclose(self) -> None:
        """Close its providers."""
        await self._models.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


def _problem(request: InferenceRequest, response: InferenceResponse, spoken: Spoken) -> str:
    """What is wrong with a turn, or missing from it."""
    choice = request.tool_choice
    if spoken.problem and response.finish == "length":
        return "It was cut off, because it became too long."
    if spoken.problem:
        return spoken.problem
    if choice == "required" and not spoken.calls:
        return "You must call a tool."
    if choice not in ("auto", "required") and choice not in {call.tool for call in spoken.calls}:
        return f"You must call the tool {choice}."
    return ""


def _corrected(
    asked: InferenceRequest, response: InferenceResponse, problem: str
) -> InferenceRequest:
    """The request once more, with the turn that was not understood and what is wrong with it."""
    note = f"{problem} Answer with one JSON object, as you were told."
    said = AssistantMessage(response.text or "{}")
    return asked.with_messages([*asked.messages, said, UserMessage(note)])


class _Hearing:
    """One answer as it is heard: streamed as far as it may be, and understood as a whole."""

    def __init__(self, request: InferenceRequest, turn: Turn) -> None:
        self._turn = turn
        self._stream = AnswerStream(turn.emit_text, turn.emit_reasoning)
        # Where a call is asked for, an answer may not be the end of it: it is not handed on before that is known.
        self._may_stream = request.tool_choice == "auto"

    def feed(self, text: str) -> None:
        if self._may_stream:
            self._stream.feed(text)

    def spoken(self, text: str) -> Spoken:
        """What was said. An answer that was streamed stands as it was streamed, however the turn ended."""
        spoken, answer = read(text), self._stream.answer
        if not answer:
            return spoken
        return Spoken(self._stream.thought or spoken.thought, spoken.calls, answer)

    def response(self, response: InferenceResponse, spoken: Spoken) -> InferenceResponse:
        """The answer as the loop reads it; what was not streamed of it yet is handed on now."""
        turn, stream = self._turn, self._stream
        if spoken.thought and not stream.thought:
            turn.emit_reasoning(spoken.thought)
        if spoken.answer and stream.answer is None:
            turn.emit_text(spoken.answer)
        calls = list(response.calls)
        for call in spoken.calls:
            call_id = f"call_{len(turn.state.steps) + 1}_{len(calls) + 1}"
            turn.emit_call(call_id, call.tool, call.args)
            calls.append(ToolCall.from_json(call_id, call.tool, call.args))
        thoughts = (Reasoning(spoken.thought, "", THOUGHT),) if spoken.thought else ()
        return msgspec.structs.replace(
            response,
            text=spoken.answer or "",
            calls=tuple(calls),
            reasoning=(*response.reasoning, *thoughts),
        )
