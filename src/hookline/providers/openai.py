"""OpenAI, and everything that speaks its chat-completions protocol: Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
import openai

from hookline.errors import (
    ConnectionLostError,
    ContentFilterError,
    MalformedResponseError,
    ModelError,
    OverloadedError,
    RefusalError,
    UnsupportedError,
)
from hookline.providers.base import (
    CallPiece,
    EndPiece,
    Feature,
    Piece,
    ProviderToolPiece,
    ReasoningPiece,
    TextPiece,
)
from hookline.providers.failures import add_usage_to_errors, clean_text, end_sentence
from hookline.providers.http import GeneratedClientProvider
from hookline.providers.prices import UNCOUNTED, with_cost
from hookline.providers.request import check_provider_tools, check_request
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)


class OpenAIProvider(GeneratedClientProvider):
    """The chat-completions protocol, over the official client.

    The key is found in OPENAI_API_KEY and the address in OPENAI_BASE_URL, unless they are given. A server at another
    address may need no key; `api_key=""` keeps the one in the environment from being sent there. `timeout` is how
    many seconds may pass without a sign of life from a server that was reached. A `cassette` (see hookline.testing)
    records what is asked, or answers it.
    """

    _name = "openai"
    _home = "https://api.openai.com/v1"
    _address_variable = "OPENAI_BASE_URL"
    _key_variable = "OPENAI_API_KEY"
    _key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    _models_page = "https://platform.openai.com/docs/models"
    _address_hint = ", which usually ends in /v1"
    _library: ClassVar[Any] = openai
    _client: ClassVar[Any] = openai.AsyncOpenAI
    _path = "/chat/completions"

    @property
    def features(self) -> frozenset[Feature]:
        """All but files in results: a message of the role `tool` has text only."""
        return super().features - {Feature.RESULT_FILES}

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider."""
        body = request_body(request, streamed=streamed)
        answer = OpenAIAnswer(request.model, "" if self._is_home else self._url)
        with add_usage_to_errors(answer.usage):
            async with aclosing(self._events(body, streamed=streamed)) as events:
                async for event in events:
                    chunk = self._chunk(event, request.model)
                    if not streamed and not chunk.choices:
                        raise self._malformed_error("it has no choices")
                    for piece in answer.read(chunk):
                        yield piece
            yield answer.end(is_whole=not streamed)

    def _chunk(self, data: Any, model: str) -> OpenAIChunk:
        problem: ModelError
        try:
            if isinstance(data, bytes):
                chunk = msgspec.json.decode(data, type=OpenAIChunk)
            else:
                chunk = msgspec.convert(data, OpenAIChunk)
        except (ValueError, RecursionError) as error:
            problem = self._malformed_error(error)
        else:
            if not chunk.error:
                return chunk
            problem = self._reported_error(chunk.error, model)
        raise problem

    @property
    def _is_home(self) -> bool:
        return (urlsplit(self._url).hostname or "").endswith("api.openai.com")

    @property
    def _client_headers(self) -> dict[str, str]:
        # llama.cpp closes a connection after a stream without saying so, and the next request would be lost.
        # Without TLS the server is near, and a new connection costs nothing.
        is_near = self._url.startswith("http:")
        return {**self._headers, "Connection": "close"} if is_near else self._headers


class OllamaProvider(OpenAIProvider):
    """Ollama on this machine. No key is looked for, and no proxy is used."""

    _name = "ollama"
    _home = "http://127.0.0.1:11434/v1"
    _address_variable = ""
    _key_variable = ""
    _key_variables = ()

    @property
    def _is_direct(self) -> bool:
        return self._url == self._home


class LMStudioProvider(OllamaProvider):
    """LM Studio on this machine, likewise."""

    _name = "lmstudio"
    _home = "http://127.0.0.1:1234/v1"


# --- the request ---------------------------------------------------------------------------------

_OURS = frozenset({"messages", "model", "n", "stream"})
"""Not options: they follow from the request."""

_PDF = "application/pdf"
"""The one kind of file that the protocol carries."""

_WEB_SEARCH = "web_search"
_REASONING_FIELDS = frozenset({"reasoning", "reasoning_content"})


def request_body(request: InferenceRequest, *, streamed: bool) -> dict[str, Any]:
    """The body of the request. An option that is None is left out, also one that would be sent otherwise."""
    check_request("openai", request, _OURS)
    check_provider_tools("openai", request, _server_tools(request.options))
    body: dict[str, Any] = {"model": request.model, "messages": list(_messages(request))}
    if streamed:
        asked = request.options.get("stream_options") or {}
        body |= {"stream": True, "stream_options": {"include_usage": True, **asked}}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if (choice := _tool_choice(request)) is not None:
        body["tool_choice"] = choice
    if request.output_schema is not None:
        body["response_format"] = _response_format(request.output_schema)
    body |= {name: value for name, value in request.options.items() if name not in body}
    left_out = {name for name, value in request.options.items() if value is None}
    return {name: value for name, value in body.items() if name not in left_out}


def _server_tools(options: Mapping[str, Any]) -> Iterator[str]:
    """The tools in the options that the server runs: all that are no functions."""
    if options.get("web_search_options") is not None:
        yield _WEB_SEARCH
    for tool in options.get("tools") or ():
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind not in (None, "function", "custom"):
            yield str(kind)


def _messages(request: InferenceRequest) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    question = _last_question(request.messages)
    for position, message in enumerate(request.messages):
        if isinstance(message, AssistantMessage):
            yield _assistant(message, with_reasoning=position > question)
        elif isinstance(message, ToolMessage):
            yield {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        else:
            yield {"role": "user", "content": _content(message)}


def _last_question(messages: Sequence[Message]) -> int:
    """Where a person last spoke; what a hook says in between does not begin a new turn."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, UserMessage) and not message.by:
            return position
    return -1


def _content(message: UserMessage) -> str | list[dict[str, Any]]:
    if not message.attachments:
        return message.text
    parts = [_attachment(attachment) for attachment in message.attachments]
    return [{"type": "text", "text": message.text}, *parts] if message.text else parts


def _attachment(attachment: Attachment) -> dict[str, Any]:
    address = attachment.url or f"data:{attachment.media_type};base64,{attachment.data}"
    if attachment.is_image:
        return {"type": "image_url", "image_url": {"url": address}}
    if attachment.url:
        raise UnsupportedError(
            f"openai: a document cannot be given by URL ({attachment.url}).",
            remedy="Read it first, and give it as Attachment.from_bytes(content, media_type).",
        )
    if attachment.is_text:
        title = f"{attachment.name}:\n\n" if attachment.name else ""
        return {"type": "text", "text": f"{title}{attachment.text()}"}
    if attachment.media_type != _PDF:
        raise UnsupportedError(
            f"openai: a document of type {attachment.media_type} is not accepted.",
            remedy="Convert it to PDF or to text.",
        )
    name = attachment.name or "document.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": address}}


def _assistant(message: AssistantMessage, *, with_reasoning: bool) -> dict[str, Any]:
    """An answer of the model. Its thinking goes back only while the tools it called are being worked off.

    The servers that think in the open want it then, and some refuse it at any other time.
    """
    written: dict[str, Any] = {"role": "assistant", "content": message.text}
    if not message.calls:
        return written
    if not message.text:
        written["content"] = None
    written["tool_calls"] = [_call(call) for call in message.calls]
    if with_reasoning:
        for part in message.reasoning:
            if part.provider == "openai" and part.kind in _REASONING_FIELDS:
                written[part.kind] = written.get(part.kind, "") + part.text
    return written


def _call(call: ToolCall) -> dict[str, Any]:
    # Servers take the arguments apart again for the model's template: JSON even where the model's were not.
    args = {"not_json": call.malformed} if call.malformed else call.args
    arguments = msgspec.json.encode(args).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _tool_choice(request: InferenceRequest) -> Any:
    choice = request.tool_choice
    if choice == "auto" or (choice == "none" and not request.tools):
        return None
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title", "")))[:64] or "answer"
    described = {"name": name, "schema": schema, "strict": _is_closed(schema)}
    return {"type": "json_schema", "json_schema": described}


def _is_closed(schema: Any) -> bool:
    """Whether each object in a schema has exactly the fields it names: only then may it be asked for strictly."""
    if isinstance(schema, list):
        return all(_is_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        fields = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(fields):
            return False
    return all(_is_closed(part) for part in schema.values())


# --- the answer ----------------------------------------------------------------------------------

# What we read of the protocol. Everything may be missing or null: servers differ in what they leave out.


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    """A message, or what a chunk adds to it."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None
    annotations: list[Any] | None = None
    """What the answer cites: a web search has run."""
    executed_tools: list[Any] | None = None
    """The same of other tools, at some servers."""


class _Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Tokens(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class OpenAIChunk(msgspec.Struct, gc=False):
    """A chunk of a stream; a whole answer is one chunk too."""

    choices: list[_Choice] | None = None
    usage: _Tokens | None = None
    model: str | None = None
    error: Any = None


class OpenAIAnswer:
    """One answer while it is read. `url` is the server's, where that is not OpenAI's own."""

    def __init__(self, model: str, url: str) -> None:
        self._model = model
        self._url = url
        self._finish = ""
        self._refusal = ""
        self._tokens: _Tokens | None = None
        self._calls = _Calls()
        self._provider_tools = 0

    def read(self, chunk: OpenAIChunk) -> Iterator[Piece]:
        """The pieces in the next chunk."""
        self._model = chunk.model or self._model
        self._tokens = chunk.usage or self._tokens
        for choice in chunk.choices or ():
            if choice.index:
                continue  # one answer was asked for
            if choice.delta is not None:
                yield from self._read_message(choice.delta)
            elif choice.message is not None:
                _number(choice.message.tool_calls or [])
                yield from self._read_message(choice.message)
            self._finish = choice.finish_reason or self._finish

    def _read_message(self, message: _Message) -> Iterator[Piece]:
        if message.reasoning_content:
            yield ReasoningPiece(0, message.reasoning_content, kind="reasoning_content")
        elif message.reasoning:
            yield ReasoningPiece(0, message.reasoning, kind="reasoning")
        if message.content:
            yield TextPiece(message.content)
        for call in message.tool_calls or ():
            yield from self._calls.read(call)
        if message.annotations:
            yield self._run_by_server(_WEB_SEARCH, {"annotations": message.annotations})
        for use in message.executed_tools or ():
            kind = use.get("type") if isinstance(use, dict) else None
            yield self._run_by_server(str(kind or "executed_tools"), {"executed_tool": use})
        self._refusal += message.refusal or ""

    def _run_by_server(self, name: str, data: dict[str, Any]) -> Piece:
        self._provider_tools += 1
        return ProviderToolPiece(self._provider_tools, name, data)

    def end(self, *, is_whole: bool) -> EndPiece:
        """The last piece; an error without an answer, or with half of one: a stream says when it is over."""
        if not self._finish and not is_whole:
            raise ConnectionLostError(
                f"openai: the answer of model '{self._model}' ended too early.",
                remedy="Try again.",
            )
        if self._refusal:
            raise RefusalError(
                end_sentence(
                    f"openai: model '{self._model}' declined to answer: {clean_text(self._refusal)}"
                ),
                remedy="Ask for something else, or ask in another way.",
            )
        if self._finish == "content_filter":
            raise ContentFilterError(
                f"openai: the content filter withheld the answer of model '{self._model}'.",
                remedy="Change what is asked for.",
            )
        if self._finish == "error":  # some gateways say so, of a failure behind them
            raise OverloadedError(
                f"openai: model '{self._model}' failed in the middle of its answer.",
                remedy="Try again.",
            )
        self._calls.check()
        finish = "length" if self._finish == "length" else ""
        return EndPiece(self._usage(), self._model, finish)

    def usage(self) -> Usage | None:
        """What it used so far; None while the server has not counted."""
        return None if self._tokens is None else self._usage()

    def _usage(self) -> Usage:
        tokens = self._tokens
        if tokens is None:
            return UNCOUNTED
        cached = tokens.prompt_tokens_details or _CachedTokens()
        usage = Usage(
            input_tokens=tokens.prompt_tokens or 0,
            output_tokens=tokens.completion_tokens or 0,
            requests=1,
            cache_read_tokens=min(cached.cached_tokens or 0, tokens.prompt_tokens or 0),
            cache_write_tokens=cached.cache_write_tokens or 0,
        )
        return with_cost(usage, "openai", self._model, url=self._url)


class _CallInParts(msgspec.Struct):
    """A call of which more may come."""

    index: int
    id: str = ""
    is_named: bool = False
    held: str = ""
    """Arguments that came before the name."""


class _Calls:
    """Assigns each piece to its call, also where the server numbers calls badly or not at all."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[int, _CallInParts] = {}
        self._last = 0

    def read(self, call: _Call) -> Iterator[CallPiece]:
        """What is new of this call. It is kept until it has a name."""
        function = call.function or _Function()
        opened = self._find(call, has_name=bool(function.name))
        opened.id = opened.id or call.id or ""
        opened.held += _json_text(function.arguments)
        if opened.is_named:
            if opened.held:
                yield CallPiece(opened.index, arguments=opened.held)
        elif function.name:
            opened.is_named = True
            yield CallPiece(opened.index, opened.id, function.name, opened.held)
        else:
            return
        opened.held = ""

    def check(self) -> None:
        """Refuse an answer with a call that never got a name."""
        if any(not opened.is_named for opened in self._open.values()):
            raise MalformedResponseError(
                "openai: the answer has a tool call that names no tool.", remedy="Try again."
            )

    def _find(self, call: _Call, *, has_name: bool) -> _CallInParts:
        """The call that a piece belongs to: by its number, or else by its id and name."""
        number = self._last if call.index is None else call.index
        known = self._open.get(number)
        if known is not None:
            differs = call.id != known.id if call.id else call.index is None
            if not (has_name and known.is_named and differs):
                self._last = number
                return known
            if call.index is None:
                number = max(self._open) + 1
        self._last = number
        opened = self._open[number] = _CallInParts(self._count)
        self._count += 1
        return opened


def _number(calls: list[_Call]) -> None:
    """The calls of a whole message are each a call, whatever their ids say."""
    for position, call in enumerate(calls):
        call.index = position


def _json_text(arguments: str | dict[str, Any] | None) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
