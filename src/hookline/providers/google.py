"""Gemini, through the official `google-genai` client."""

from __future__ import annotations

import base64
import difflib
import json
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import httpx2
from google import genai
from google.genai import errors, types
from pydantic import BaseModel, ValidationError

from hookline.errors import (
    ConnectionLostError,
    ContentFilterError,
    MalformedResponseError,
    ModelError,
    UnsupportedError,
)
from hookline.providers.base import (
    CallPiece,
    EndPiece,
    Piece,
    ProviderToolPiece,
    ReasoningPiece,
    TextPiece,
)
from hookline.providers.failures import (
    ErrorReport,
    add_usage_to_errors,
    clean_text,
    end_sentence,
    failure,
    retry_after,
)
from hookline.providers.http import CONNECT_TIMEOUT, HTTPProvider
from hookline.providers.prices import UNCOUNTED, with_cost
from hookline.providers.request import check_provider_tools, fit_result
from hookline.state import (
    NO_USAGE,
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Message,
    Reasoning,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

NAME = "google"
_KEY_HEADER = "x-goog-api-key"
_CONNECTIONS = httpx2.Limits(max_keepalive_connections=100, keepalive_expiry=60.0)
"""As many as there are agents; kept for as long as a tool may take between two steps."""

_Opened: TypeAlias = list[httpx2.Response]
_opened: ContextVar[_Opened | None] = ContextVar("hookline_google_opened", default=None)
"""Where the answers that are being opened are noted, so that they can be closed without the client's help."""


class _Client(NamedTuple):
    """The client, and the connections it was given. It has no others."""

    client: genai.Client
    connections: httpx2.AsyncClient
    unused: httpx2.Client


class GoogleProvider(HTTPProvider[_Client]):
    """Models of the Gemini API, over the official client.

    The key is found in GOOGLE_API_KEY or GEMINI_API_KEY and the address in GOOGLE_GEMINI_BASE_URL, unless they are
    given. A server at another address may need no key; `api_key=""` keeps the one in the environment from being
    sent there. `timeout` is how many seconds may pass without a sign of life. A `cassette` (see
    hookline.testing) records what is asked, or answers it.
    """

    _name = NAME
    _home = "https://generativelanguage.googleapis.com"
    _address_variable = "GOOGLE_GEMINI_BASE_URL"
    _key_variable = "GEMINI_API_KEY"
    _key_variables = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    _models_page = "https://ai.google.dev/gemini-api/docs/models"
    _models_path = "/v1beta/models"

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model. An answer too long for one request is asked for in several."""
        contents, config = contents_of(request), config_of(request)
        answer = GoogleAnswer(request)
        token: bytes | None = None
        with add_usage_to_errors(answer.usage):
            while True:
                asked = {"model": request.model, "contents": contents, "config": config}
                async with aclosing(self._chunks(asked, streamed=streamed)) as chunks:
                    async for chunk in chunks:
                        for piece in answer.read(chunk):
                            yield piece
                if not answer.is_over:
                    raise _unfinished_error(streamed)
                token = answer.next_token(token)
                if token is None:
                    break
                config = config.model_copy(update={"continuation_token": token})
        yield answer.end()

    async def _chunks(
        self, asked: dict[str, Any], *, streamed: bool
    ) -> AsyncGenerator[types.GenerateContentResponse, None]:
        """What the client reads, with its exceptions as ours. Leaving early hangs up at once."""
        models = (await self._clients.get()).client.aio.models
        opened: _Opened = []
        stream: AsyncIterator[types.GenerateContentResponse] | None = None
        failure: ModelError | None = None
        try:
            if streamed:
                stream = await models.generate_content_stream(**asked)
                while (chunk := await _next(stream, opened)) is not None:
                    yield chunk
            else:
                with _note_client(opened):
                    chunk = await models.generate_content(**asked)
                yield chunk
        except Exception as error:
            failure = self._failure(error, asked["model"], is_answered=bool(opened))
        finally:
            await _hang_up(opened, stream)
        if failure is not None:
            raise failure

    def _failure(self, error: Exception, model: str, *, is_answered: bool) -> ModelError:
        if isinstance(error, errors.APIError):
            return self._api_failure(error, model)
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | httpx2.StreamError | OSError):
            return self._transport_failure(error)
        if is_answered:
            return self._malformed_error(error)
        problem = clean_text(str(error), self._secrets).rstrip(".")
        return UnsupportedError(
            f"google: the client does not take this request ({problem}).",
            remedy="Correct the model's name, the messages or the options.",
        )

    def _api_failure(self, error: errors.APIError, model: str) -> ModelError:
        details = tuple(_details(error.details))
        message = clean_text(str(error.message or error.status or ""), self._secrets)
        if error.status == "FAILED_PRECONDITION":
            return ModelError(
                end_sentence(f"google: {message}"),
                remedy="Check the account's billing, and where it may be used.",
            )
        is_bad_key = any(each.get("reason") == "API_KEY_INVALID" for each in details)
        report = ErrorReport(
            status=401 if is_bad_key else error.code,
            message=message,
            wait=_wait(error, details),
            remedy=_quota_remedy(details),
        )
        return failure(report, self._server(model))

    def _find_key(self, given: str | None) -> str:
        for name in [name for name in self._headers if name.lower() == _KEY_HEADER]:
            own = self._headers.pop(name)
            given = given or own
        return super()._find_key(given)

    def _make_client(self, transport: httpx2.AsyncBaseTransport | None) -> _Client:
        # The client is given its connections: those it would make follow a redirection with the key to any host,
        # and where aiohttp is installed they retry.
        trusted = httpx2.create_ssl_context()
        hooks: dict[str, list[Callable[..., Any]]] = {
            "request": [self._prepare],
            "response": [_note],
        }
        connections = httpx2.AsyncClient(
            verify=trusted,
            event_hooks=hooks,
            limits=_CONNECTIONS,
            transport=transport,
        )
        unused = httpx2.Client(verify=trusted)
        options = types.HttpOptions(
            base_url=self._url,
            headers=self._headers,
            timeout=max(1, round(self._timeout * 1000)),
            httpx_async_client=connections,
            httpx_client=unused,
            async_client_args={"ssl": trusted},  # for web sockets: it takes long to make another
        )
        # The client insists on a key; where there is none, its header is taken off each request.
        client = genai.Client(vertexai=False, api_key=self._key or "none", http_options=options)
        return _Client(client, connections, unused)

    async def _close_client(self, client: _Client) -> None:
        client.unused.close()
        await client.connections.aclose()

    async def _prepare(self, request: httpx2.Request) -> None:
        # The client has one time for reaching a host and for waiting for its model.
        waits = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {**waits, "connect": min(CONNECT_TIMEOUT, self._timeout)}
        if not self._key:
            del request.headers[_KEY_HEADER]


async def _note(response: httpx2.Response) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)


@contextmanager
def _note_client(opened: _Opened) -> Iterator[None]:
    before = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(before)


async def _next(
    stream: AsyncIterator[types.GenerateContentResponse], opened: _Opened
) -> types.GenerateContentResponse | None:
    with _note_client(opened):
        return await anext(stream, None)


async def _hang_up(
    opened: _Opened, stream: AsyncIterator[types.GenerateContentResponse] | None
) -> None:
    """Close the connection of an answer that may not be over.

    The client would leave that to the garbage collector: its generators do not close the ones they read from. They
    come to their ends by finding the connection closed.
    """
    for response in opened:
        await response.aclose()
    if opened and stream is not None:
        with suppress(Exception):
            while await anext(stream, None) is not None:
                pass


def _quota_remedy(details: Iterable[Mapping[str, Any]]) -> str:
    """A quota per day does not come back in seconds, whatever the server says about retrying."""
    quotas = [
        str(violation.get("quotaId", ""))
        for each in details
        for violation in each.get("violations") or ()
        if isinstance(violation, dict)
    ]
    if any("PerDay" in quota for quota in quotas):
        return "The quota of the day is used up: wait for tomorrow, or ask for a larger one."
    return "Wait before the next request, or ask for a larger quota."


def _wait(error: errors.APIError, details: Iterable[Mapping[str, Any]]) -> float | None:
    """How long to wait: RetryInfo says so in the body, as `34.5s`, and a proxy perhaps in a header."""
    for each in details:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(each.get("retryDelay", "")), re.ASCII)
        if match:
            return float(match[1])
    headers = getattr(error.response, "headers", None)
    return retry_after(headers) if headers is not None else None


def _details(body: Any) -> Iterator[Mapping[str, Any]]:
    inner = body.get("error", body) if isinstance(body, dict) else None
    details = inner.get("details") if isinstance(inner, dict) else None
    yield from (each for each in details or () if isinstance(each, dict))


def _unfinished_error(streamed: bool) -> ModelError:
    if streamed:
        return ConnectionLostError(
            "google: the stream ended before the end of the answer.", remedy="Try again."
        )
    return MalformedResponseError("google: the response has no answer.", remedy="Try again.")


# --- the request ---------------------------------------------------------------------------------

THOUGHT = "thought"
"""The kind of a signature that came on a part of the thinking itself."""
CALL = "call"
"""The kind of a signature that came on a call."""
OWN_ID = "hookline-"
"""How the id of a call begins that was made here, because Gemini gave none."""

_STRICT = re.compile(r"(models/)?gemini-(?![12]\b)")
"""Models that refuse a step of calls without a signature: all Gemini from the third generation on."""
_IN_A_RESULT = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
"""What these models, and no older ones, accept in the result of a function."""
_UNSIGNED = b"skip_thought_signature_validator"
"""What Google documents for calls that another model made, or a hook: there never was a signature on them."""

_OURS = {
    "automatic_continuation": "the provider continues by itself",
    "automatic_function_calling": "the agent runs the tools",
    "candidate_count": "an agent continues from one answer",
    "continuation_token": "the provider continues by itself",
    "http_options": "headers, timeout and base_url belong to the provider",
    "should_return_http_response": "the provider reads the answer",
    "system_instruction": "it is the system prompt of the request",
}


# --- the conversation ---------------------------------------------------------------------------


def contents_of(request: InferenceRequest) -> list[types.Content]:
    """The conversation. All results of one step go into one content, in the order of their calls."""
    contents: list[types.Content] = []
    order: dict[str, int] = {}
    for is_result, group in groupby(request.messages, lambda each: isinstance(each, ToolMessage)):
        if is_result:
            parts = _results(group, order, request.model)
            contents.append(types.Content(role="user", parts=parts))
            continue
        for message in group:
            if isinstance(message, AssistantMessage):
                order = {call.id: number for number, call in enumerate(message.calls)}
                parts = _assistant_parts(message, request.model)
                role = "model"
            elif isinstance(message, UserMessage):
                parts, role = _user_parts(message), "user"
            if parts:  # the API refuses a content without any
                contents.append(types.Content(role=role, parts=parts))
    return contents


def _user_parts(message: UserMessage) -> list[types.Part]:
    text = [types.Part(text=message.text)] if message.text or not message.attachments else []
    return [*map(_attachment_part, message.attachments), *text]


def _attachment_part(attachment: Attachment) -> types.Part:
    kind = attachment.media_type
    if attachment.url:
        return types.Part(file_data=types.FileData(file_uri=attachment.url, mime_type=kind))
    return types.Part(inline_data=types.Blob(data=attachment.content(), mime_type=kind))


def _results(messages: Iterable[Message], order: dict[str, int], model: str) -> list[types.Part]:
    """Calls without an id differ by their order alone, so the results must keep it."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    results.sort(key=lambda message: order.get(message.call_id, len(order)))
    return [_result(message, model) for message in results]


def _result(message: ToolMessage, model: str) -> types.Part:
    accepted = _IN_A_RESULT if _STRICT.match(model) else frozenset()
    message = fit_result(NAME, message, lambda each: each.media_type in accepted and not each.url)
    return types.Part(
        function_response=types.FunctionResponse(
            id=_their_id(message.call_id),
            name=message.name,
            response={"error" if message.is_error else "output": message.text},
            parts=[_in_result(each) for each in message.attachments] or None,
        )
    )


def _in_result(attachment: Attachment) -> types.FunctionResponsePart:
    blob = types.FunctionResponseBlob(
        data=attachment.content(),
        mime_type=attachment.media_type,
        display_name=attachment.name or None,
    )
    return types.FunctionResponsePart(inline_data=blob)


def _assistant_parts(message: AssistantMessage, model: str) -> list[types.Part]:
    """What the model said, with each signature back on the part it came with."""
    signed = [part for part in message.reasoning if part.provider == NAME and part.signature]
    thoughts = [
        types.Part(text=part.text, thought=True, thought_signature=_signature(part))
        for part in signed
        if part.kind == THOUGHT
    ]
    uses = [
        types.Part.model_validate_json(json.dumps(use.data))
        for use in message.provider_tool_uses
        if use.provider == NAME and not use.data.keys() & _NO_PARTS
    ]
    said = _text_parts(message.text, signed)
    return [*thoughts, *uses, *said, *_calls(message.calls, signed, model)]


def _calls(
    calls: tuple[ToolCall, ...], signed: list[Reasoning], model: str
) -> Iterator[types.Part]:
    signatures = {part.call_id: _signature(part) for part in signed if part.call_id}
    if calls and signatures.keys().isdisjoint(call.id for call in calls) and _STRICT.match(model):
        signatures[calls[0].id] = _UNSIGNED
    for call in calls:
        function = types.FunctionCall(id=_their_id(call.id), name=call.name, args=call.args)
        yield types.Part(function_call=function, thought_signature=signatures.get(call.id))


def _text_parts(text: str, signed: Iterable[Reasoning]) -> Iterator[types.Part]:
    """The text in its parts, as far as signatures separate them. One on text that is gone is dropped."""
    position = 0
    for part in signed:
        start, end = _span(part.kind)
        if not position <= start <= end <= len(text):
            continue
        if position < start:
            yield types.Part(text=text[position:start])
        yield types.Part(text=text[start:end], thought_signature=_signature(part))
        position = end
    if position < len(text):
        yield types.Part(text=text[position:])


def kind_of_text(start: int, end: int) -> str:
    """The kind of a signature that came on a part of the answer's text: where in the text that part is."""
    return f"text:{start}:{end}"


def _span(kind: str) -> tuple[int, int]:
    """Where in the text the part with this signature is; nowhere when the signature was on something else."""
    match = re.fullmatch(r"text:(\d+):(\d+)", kind, re.ASCII)
    return (int(match[1]), int(match[2])) if match else (-1, -1)


def _signature(part: Reasoning) -> bytes:
    return base64.b64decode(part.signature)


def _their_id(call_id: str) -> str | None:
    """The id that Gemini gave; None for one that was made here."""
    return None if call_id.startswith(OWN_ID) else call_id


# --- the configuration --------------------------------------------------------------------------


def config_of(request: InferenceRequest) -> types.GenerateContentConfig:
    """Options, under what the request itself says. Tools of Google's own may come with the options."""
    fields = dict(request.options)
    for option in fields:
        _check_option(option)
    if request.system:
        fields["system_instruction"] = request.system
    if request.tools:
        fields["tools"] = [_tool(request.tools), *(fields.get("tools") or ())]
        if request.tool_choice != "auto":
            fields["tool_config"] = _tool_config(request.tool_choice)
    if request.output_schema is not None:
        fields["response_mime_type"] = "application/json"
        fields["response_json_schema"] = request.output_schema
    fields["automatic_function_calling"] = types.AutomaticFunctionCallingConfig(disable=True)
    fields["automatic_continuation"] = False
    try:
        config = types.GenerateContentConfig(**fields)
        check_provider_tools(NAME, request, _provider_tools(config))
        return config
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(step) for step in problem["loc"])
    raise UnsupportedError(
        f"google: the option '{where}' has a wrong value: {problem['msg']}.",
        remedy="Options are fields of GenerateContentConfig: correct it, or leave it out.",
    )


def _provider_tools(config: types.GenerateContentConfig) -> Iterator[str]:
    """The tools that Gemini runs."""
    for tool in config.tools or ():
        given = tool.model_dump(exclude_none=True) if isinstance(tool, types.Tool) else {}
        yield from given.keys() - _RUN_HERE


def _check_option(option: str) -> None:
    known = types.GenerateContentConfig.model_fields
    if option in _OURS:
        raise UnsupportedError(
            f"google: '{option}' cannot be set as an option: {_OURS[option]}.",
            remedy="Leave it out.",
        )
    if option not in known:
        close = [name for name in known if name.startswith(option) and name not in _OURS]
        close += difflib.get_close_matches(option, known.keys() - _OURS, n=1)
        raise UnsupportedError(
            f"google: there is no option '{option}'.",
            remedy=f"Did you mean '{close[0]}'?"
            if close
            else "Options are fields of GenerateContentConfig, such as temperature.",
        )


def _tool(specs: Iterable[ToolSpec]) -> types.Tool:
    return types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name=spec.name,
                description=spec.description,
                parameters_json_schema=spec.parameters,
            )
            for spec in specs
        ]
    )


def _tool_config(choice: str) -> types.ToolConfig:
    named = {"mode": types.FunctionCallingConfigMode.ANY, "allowed_function_names": [choice]}
    modes: dict[str, dict[str, Any]] = {
        "none": {"mode": types.FunctionCallingConfigMode.NONE},
        "required": {"mode": types.FunctionCallingConfigMode.ANY},
    }
    rule = types.FunctionCallingConfig(**modes.get(choice, named))
    return types.ToolConfig(function_calling_config=rule)


# --- the answer ----------------------------------------------------------------------------------

_RUN_HERE = {"function_declarations", "computer_use"}
"""The tools whose calls come to us."""
_NO_PARTS = {"grounding_metadata", "url_context_metadata", "inline_data"}
"""What is kept of Gemini's own tools, and is not sent back."""
_WEB = (
    *("google_search", "google_search_retrieval", "enterprise_web_search"),
    *("parallel_ai_search", "exa_ai_search"),
)
_FILES = ("file_search", "retrieval")
_TOOL_TYPES = {"GOOGLE_SEARCH_WEB": "google_search", "GOOGLE_SEARCH_IMAGE": "google_search"}
"""Types whose tools have another name in the options."""
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
        self._allowed = request.provider_tools
        self._uses: dict[str, int] = {}

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
            raise _filter_error("prompt", chunk.prompt_feedback.block_reason.name)
        if not chunk.candidates:
            return
        candidate = chunk.candidates[0]
        for part in (candidate.content and candidate.content.parts) or ():
            yield from self._part(part)
        yield from self._metadata(candidate)
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

    def usage(self) -> Usage | None:
        """What it used so far; None while Gemini has not counted."""
        if self._counts is not None:
            self._settle()
        return self._spent if self._spent.requests else None

    def _part(self, part: types.Part) -> Iterator[Piece]:
        signature = base64.b64encode(part.thought_signature or b"").decode()
        if part.thought:
            yield from self._add_thinking(part.text or "", signature)
            return
        self._is_thinking = False
        if part.function_call is not None:
            yield from self._call(part.function_call, signature)
        elif name := self._run_by_google(part):
            yield self._use(name, f"part {len(self._uses)}", _keep_part(part))
        elif part.text is not None or not (other := part.model_fields_set - _ON_ANY_PART):
            yield from self._text(part.text or "", signature)
        else:
            raise UnsupportedError(
                f"google: the model answered with '{min(other)}', which is not supported here.",
                remedy="Ask for text and tool calls only: leave out response_modalities and code execution.",
            )

    def _run_by_google(self, part: types.Part) -> str:
        """The name of the tool that a part is about, if Gemini runs it."""
        if part.executable_code is not None or part.code_execution_result is not None:
            return "code_execution"
        if part.inline_data is not None and "code_execution" in self._allowed:
            return "code_execution"  # what the code has drawn
        used = part.tool_call or part.tool_response
        if used is None:
            return ""
        kind = used.tool_type.name if used.tool_type is not None else "tool_call"
        return _TOOL_TYPES.get(kind, kind.lower())

    def _metadata(self, candidate: types.Candidate) -> Iterator[Piece]:
        """What an answer says of a search beside its parts. A later chunk has all that an earlier one had."""
        found = candidate.grounding_metadata
        if found is not None and any(found.model_dump(exclude_none=True).values()):
            for name in self._grounds(found):
                yield self._use(name, name, {"grounding_metadata": _dump(found)})
        read = candidate.url_context_metadata
        if read is not None and read.url_metadata:
            yield self._use("url_context", "url_context", {"url_context_metadata": _dump(read)})

    def _grounds(self, found: types.GroundingMetadata) -> Iterator[str]:
        """The tools that metadata is from. Several search the web: it is the one that is allowed."""
        chunks = found.grounding_chunks or []
        is_of_maps = bool(found.google_maps_widget_context_token) or any(c.maps for c in chunks)
        is_of_files = bool(found.retrieval_queries) or any(c.retrieved_context for c in chunks)
        if is_of_maps:
            yield "google_maps"
        if is_of_files:
            yield next((name for name in _FILES if name in self._allowed), _FILES[0])
        if found.web_search_queries or not (is_of_maps or is_of_files):
            yield next((name for name in _WEB if name in self._allowed), _WEB[0])

    def _use(self, name: str, key: str, data: dict[str, Any]) -> ProviderToolPiece:
        return ProviderToolPiece(self._uses.setdefault(key, len(self._uses)), name, data)

    def _add_thinking(self, text: str, signature: str) -> Iterator[Piece]:
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


def _dump(part: BaseModel) -> dict[str, Any]:
    dumped: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    return dumped


def _keep_part(part: types.Part) -> dict[str, Any]:
    """A part as it is kept; of a file that code has made, that there is one."""
    if part.inline_data is None:
        return _dump(part)
    size = len(part.inline_data.data or b"")
    return {"inline_data": {"mime_type": part.inline_data.mime_type or "", "size": size}}


def _check_finish(reason: str) -> None:
    """Refuse an answer that did not end because it was done, or as long as it may be."""
    if reason in _FILTERED:
        raise _filter_error("answer", reason)
    if reason in _MALFORMED:
        raise MalformedResponseError(
            f"google: the answer of the model cannot be read ({reason}).",
            remedy="Try again, or give the tools simpler parameters.",
        )
    if reason not in _FINE:
        raise ModelError(
            f"google: the model stopped before it was done ({reason}).",
            remedy="Try again, or ask in another way.",
        )


def _filter_error(what: str, reason: str) -> ContentFilterError:
    return ContentFilterError(
        f"google: the filter withheld the {what} ({reason}).",
        remedy="Change what the conversation says, or set safety_settings in the options.",
    )


def _usage(counts: types.GenerateContentResponseUsageMetadata | None, model: str) -> Usage:
    """What one request used. Thinking is paid like the answer; what Google's own tools read, like the prompt."""
    if counts is None:
        return UNCOUNTED
    usage = Usage(
        input_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
        output_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
        requests=1,
        cache_read_tokens=counts.cached_content_token_count or 0,
    )
    return with_cost(usage, NAME, model)
