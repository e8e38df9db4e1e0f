"""An answer of Gemini as it comes in: chunks go in, pieces come out."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator

from google.genai import types

from hookline.errors import (
    ContentFilterError,
    MalformedResponseError,
    ModelError,
    UnsupportedError,
)
from hookline.providers.base import CallPiece, EndPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.google_request import CALL, NAME, OWN_ID, THOUGHT, kind_of_text
from hookline.providers.prices import with_cost
from hookline.state import NO_USAGE, AssistantMessage, InferenceRequest, Usage

_CONTINUED = types.FinishReason.CONTINUATION.name
_ON_ANY_PART = {"thought", "thought_signature", "part_metadata"}
_FINE = {"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "CONTINUATION"}
_FILTERED = {
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
}
_MALFORMED = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"}


class GoogleAnswer:
    """One answer, over as many requests as Gemini takes for it."""

    def __init__(self, request: InferenceRequest) -> None:
        self._model = request.model.removeprefix("models/")
        self._used_ids = {
            call.id
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        }
        self._spent = NO_USAGE
        self._counts: types.GenerateContentResponseUsageMetadata | None = None
        self._response_id = ""
        self._token: bytes | None = None
        self._reason = ""
        self._length = 0
        self._calls = 0
        self._thoughts = 0
        self._is_thinking = False

    @property
    def is_over(self) -> bool:
        """Whether Gemini said that this was all, or all of it for one request."""
        return bool(self._reason)

    def read(self, chunk: types.GenerateContentResponse) -> Iterator[Piece]:
        """The pieces in the next chunk."""
        self._response_id = chunk.response_id or self._response_id
        self._model = chunk.model_version or self._model
        self._counts = chunk.usage_metadata or self._counts  # each chunk counts from the beginning
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            raise _filtered("prompt", chunk.prompt_feedback.block_reason.name)
        if not chunk.candidates:
            return
        candidate = chunk.candidates[0]
        for part in (candidate.content and candidate.content.parts) or ():
            yield from self._part(part)
        self._token = candidate.continuation_token or self._token
        if candidate.finish_reason is not None:
            self._reason = candidate.finish_reason.name
            _check_finish(self._reason)

    def next_token(self, after: bytes | None) -> bytes | None:
        """The token that asks for the rest, if there is more than came `after` that token; None when this was all."""
        if self._reason != _CONTINUED or self._token in (None, after):
            return None
        self._settle()
        self._reason = ""
        return self._token

    def end(self) -> EndPiece:
        """The last piece, once everything is read."""
        self._settle()
        finish = "length" if self._reason in ("MAX_TOKENS", _CONTINUED) else ""
        return EndPiece(self._spent, self._model, finish)

    def used(self) -> Usage | None:
        """What it used so far; None while Gemini has not counted."""
        if self._counts is not None:
            self._settle()
        return self._spent if self._spent.requests else None

    def _part(self, part: types.Part) -> Iterator[Piece]:
        signature = base64.b64encode(part.thought_signature or b"").decode()
        if part.thought:
            yield from self._thought(part.text or "", signature)
            return
        self._is_thinking = False
        if part.function_call is not None:
            yield from self._call(part.function_call, signature)
        elif part.text is not None or not (other := part.model_fields_set - _ON_ANY_PART):
            yield from self._text(part.text or "", signature)
        else:
            raise UnsupportedError(
                f"google: the model answered with '{min(other)}', "
                "which a message here cannot carry.",
                remedy="Ask for text and tool calls only: leave out response_modalities and code execution.",
            )

    def _thought(self, text: str, signature: str) -> Iterator[Piece]:
        """Chunks of thinking that follow each other are one part, up to and with its signature."""
        if not self._is_thinking:
            self._thoughts += 1
        yield ReasoningPiece(self._thoughts - 1, text, signature, THOUGHT)
        self._is_thinking = not signature

    def _text(self, text: str, signature: str) -> Iterator[Piece]:
        start = self._length
        self._length += len(text)
        if text:
            yield TextPiece(text)
        if signature:
            yield self._signature_piece(signature, kind_of_text(start, self._length))

    def _call(self, call: types.FunctionCall, signature: str) -> Iterator[Piece]:
        if not call.name:
            raise MalformedResponseError(
                "google: a function call came without a name.", remedy="Try again."
            )
        call_id = self._unique(call.id)
        if signature:
            yield self._signature_piece(signature, CALL, call_id)
        arguments = json.dumps(call.args or {}, ensure_ascii=False)
        yield CallPiece(self._calls, call_id, call.name, arguments)
        self._calls += 1

    def _signature_piece(self, signature: str, kind: str, call_id: str = "") -> ReasoningPiece:
        self._thoughts += 1
        return ReasoningPiece(self._thoughts - 1, "", signature, kind, call_id)

    def _unique(self, given: str | None) -> str:
        """The id Gemini gave; or one made of the answer's own id, so that it is the same whenever this is read."""
        own = self._response_id and f"{OWN_ID}{self._response_id}-{self._calls}"
        for call_id in (given, own):
            if call_id and call_id not in self._used_ids:
                break
        else:
            call_id = f"{OWN_ID}{uuid.uuid4().hex}"
        self._used_ids.add(call_id)
        return call_id

    def _settle(self) -> None:
        self._spent += _usage(self._counts, self._model)
        self._counts = None


def _check_finish(reason: str) -> None:
    """Refuse an answer that did not end because it was done, or as long as it may be."""
    if reason in _FILTERED:
        raise _filtered("answer", reason)
    if reason in _MALFORMED:
        raise MalformedResponseError(
            f"google: the model wrote something that cannot be read ({reason}).",
            remedy="Try again, or give the tools simpler parameters.",
        )
    if reason not in _FINE:
        raise ModelError(
            f"google: the model stopped before it was done ({reason}).",
            remedy="Try again, or ask in another way.",
        )


def _filtered(what: str, reason: str) -> ContentFilterError:
    return ContentFilterError(
        f"google: the filter withheld the {what} ({reason}).",
        remedy="Change what the conversation says, or set safety_settings in the options.",
    )


def _usage(counts: types.GenerateContentResponseUsageMetadata | None, model: str) -> Usage:
    """What one request used. Thinking is paid like the answer; what Google's own tools read, like the prompt."""
    if counts is None:
        return Usage(requests=1, unpriced_requests=1)
    usage = Usage(
        input_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
        output_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
        requests=1,
        cache_read_tokens=counts.cached_content_token_count or 0,
    )
    return with_cost(usage, NAME, model)
