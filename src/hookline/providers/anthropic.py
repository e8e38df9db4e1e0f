"""Anthropic's models, and whatever else speaks its messages protocol."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, TypeAlias, TypeVar

import anthropic
import msgspec
from anthropic import transform_schema

from hookline.errors import (
    ContextOverflowError,
    MalformedResponseError,
    RefusalError,
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
from hookline.providers.connections import TransportSource
from hookline.providers.failures import add_usage_to_errors, clean_text
from hookline.providers.http import GeneratedClientProvider
from hookline.providers.prices import with_cost
from hookline.providers.request import check_provider_tools, check_request, fit_result
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

T = TypeVar("T")
Block: TypeAlias = dict[str, Any]

NAME = "anthropic"
REDACTED = "redacted_thinking"
_LONGEST_UNSTREAMED = 21_333
"""Tokens beyond which an answer may take ten minutes: a connection that is silent for so long does not hold."""
_MOST_PAUSES = 16
"""How often an answer may be continued. Each time is a request that no limit of the run has seen yet."""


class AnthropicProvider(GeneratedClientProvider):
    """The messages protocol, over the official client.

    The key is found in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN and the address in ANTHROPIC_BASE_URL, unless they
    are given. A server at another address may need no key; `api_key=""` keeps the one in the environment from being
    sent there. `timeout` is how many seconds may pass without a sign of life. `cache=False` leaves out the marks
    that have the provider keep the conversation for the next request. A `cassette` (see hookline.testing) records
    what is asked, or answers it.
    """

    _name = NAME
    _home = "https://api.anthropic.com"
    _address_variable = "ANTHROPIC_BASE_URL"
    _key_variable = "ANTHROPIC_API_KEY"
    _key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    _key_headers = ("authorization", "x-api-key")
    _models_page = "https://platform.claude.com/docs/en/about-claude/models"
    _models_path = "/v1/models"
    _address_hint = ", which ends before /v1"
    _library: ClassVar[Any] = anthropic
    _client: ClassVar[Any] = anthropic.AsyncAnthropic
    _path = "/v1/messages"

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        cache: bool = True,
        cassette: TransportSource | None = None,
    ) -> None:
        super().__init__(
            api_key=api_key, base_url=base_url, timeout=timeout, headers=headers, cassette=cassette
        )
        self._cache = cache

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Ask the model; see Provider. An answer that the server pauses is continued where it stopped."""
        body = request_body(request, cache=self._cache)
        streamed = streamed or _is_long(body)
        if streamed:
            body["stream"] = True
        answers: list[AnthropicAnswer] = []
        with add_usage_to_errors(lambda: self._failed_usage(answers)):
            while True:
                answer = AnthropicAnswer(answers[-1] if answers else None)
                answers.append(answer)
                read = answer.read_event if streamed else answer.read
                async with aclosing(self._events(body, streamed=streamed)) as events:
                    async for event in events:
                        for piece in read(event):
                            yield piece
                if not answer.is_over:
                    raise self._transport_failure(EOFError())
                answer.check()
                if not answer.is_paused or len(answers) == _MOST_PAUSES:
                    break
                so_far = {"role": "assistant", "content": answer.blocks()}
                body["messages"] = [*body["messages"], so_far]
        yield EndPiece(self._usage(answers), answer.model, answer.finish)

    def _usage(self, answers: list[AnthropicAnswer]) -> Usage:
        """What these answers used, at the price of the server that gave them."""
        url = "" if self._is_home else self._url
        costs = (with_cost(each.usage(), NAME, each.model, url=url) for each in answers)
        return sum(costs, NO_USAGE)

    def _failed_usage(self, answers: list[AnthropicAnswer]) -> Usage | None:
        """What was used by answers that failed; None when the server has counted nothing."""
        counted = [each for each in answers if each.is_counted]
        return self._usage(counted) if counted else None


def _is_long(body: dict[str, Any]) -> bool:
    most = body["max_tokens"]
    return isinstance(most, int) and most > _LONGEST_UNSTREAMED


# --- the request ---------------------------------------------------------------------------------

_OURS = frozenset({"messages", "model", "stream"})
"""Not options: they follow from the request."""
_MAX_TOKENS = 16_384
"""Tokens for an answer when nobody says how many: every model of today has them, and no stream is needed for them."""
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_VALUES = ("const", "default", "enum", "examples")
"""The parts of a schema that are values, not schemas."""
_RUN_HERE = ("custom", "bash_", "text_editor_", "memory_", "computer_", "browser_")
"""How the types of those tools begin whose calls come to us."""
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_CACHED = {"type": "ephemeral"}


def request_body(request: InferenceRequest, *, cache: bool) -> dict[str, Any]:
    """The body of the request. Options are sent as they are; one that is None is left out."""
    check_request(NAME, request, _OURS)
    options = {name: value for name, value in request.options.items() if value is not None}
    budget = _option(options, "thinking", dict).get("budget_tokens", 0)
    body: dict[str, Any] = {
        # thinking counts as part of the answer: room is left for the rest
        "max_tokens": _MAX_TOKENS + (budget if isinstance(budget, int) else 0),
        **options,
        "model": request.model,
        "messages": _conversation(request.messages),
    }
    if system := _text(request.system):
        body["system"] = system
    if tools := [*map(_tool, request.tools), *_option(options, "tools", list)]:
        body["tools"] = tools
    check_provider_tools(NAME, request, _provider_tools(options))
    if request.tools and (choice := _tool_choice(request.tool_choice)):
        body["tool_choice"] = {**_option(options, "tool_choice", dict), **choice}
    if request.output_schema is not None:
        form = {"type": "json_schema", "schema": _schema(request.output_schema)}
        body["output_config"] = {**_option(options, "output_config", dict), "format": form}
    if cache and "cache_control" not in options:
        _mark_for_cache(body)
    return body


def _option(options: dict[str, Any], name: str, kind: type[T]) -> T:
    """An option that we add to; empty when it is not set."""
    value = options.get(name, kind())
    if isinstance(value, kind):
        return value
    raise UnsupportedError(
        f"anthropic: the option '{name}' is {value!r}.",
        remedy=f"Write it as a {kind.__name__}, as the messages API describes it.",
    )


def _provider_tools(options: dict[str, Any]) -> Iterator[str]:
    """The tools in the options that the API runs. It leaves some of its own to us, and those are recognised here."""
    for tool in _option(options, "tools", list):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and not kind.startswith(_RUN_HERE):
            yield _of_server(tool.get("mcp_server_name")) or str(tool.get("name", kind))
    for server in _option(options, "mcp_servers", list):
        yield _of_server(server.get("name") if isinstance(server, dict) else "")


def _of_server(name: object) -> str:
    """What allows the tools of an MCP server that the API connects to."""
    return f"mcp:{name}" if name else ""


def _mark_for_cache(body: dict[str, Any]) -> None:
    """Mark where the prompt is to be cached up to: tools, system, and twice in the conversation.

    The last message is marked for the next request, and the user's message before it because the last request
    ended there: what lies between may be more blocks than the cache looks back.
    """
    asked = [message for message in body["messages"] if message["role"] == "user"]
    for blocks in (body.get("tools"), body.get("system"), *(m["content"] for m in asked[-2:])):
        if blocks and isinstance(blocks, list):
            blocks[-1] = {**blocks[-1], "cache_control": _CACHED}


def _tool(spec: ToolSpec) -> Block:
    tool: Block = {"name": spec.name, "input_schema": {"type": "object", **spec.parameters}}
    if spec.description:
        tool["description"] = spec.description
    return tool


def _tool_choice(choice: str) -> Block | None:
    """None leaves it to the model, which is also what the API does."""
    named: Block = {"type": "tool", "name": choice}
    return {"auto": None, "none": {"type": "none"}, "required": {"type": "any"}}.get(choice, named)


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema in the part of JSON schema that the API can hold an answer to; the rest becomes descriptions."""
    if not _has_open_object(schema):
        try:
            return transform_schema(schema)
        except (AssertionError, AttributeError, TypeError, ValueError):
            pass  # what the client says about it names none of its parts
    raise UnsupportedError(
        "anthropic: this output schema has a part that cannot be enforced.",
        remedy="Name the fields of every object, and give every part one type or a choice of schemas.",
    )


def _has_open_object(schema: object) -> bool:
    """Whether an object in a schema may have fields that it does not name. The client would forbid them all."""
    if isinstance(schema, list):
        return any(map(_has_open_object, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        others = schema.get("additionalProperties", "properties" not in schema)
        if others is not False:
            return True
    return any(_has_open_object(part) for name, part in schema.items() if name not in _VALUES)


def _conversation(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages in turns: all results of one step, and what is said after them, are one turn of the user."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[Block]:
    if isinstance(message, AssistantMessage):
        return _assistant_blocks(message)
    if isinstance(message, ToolMessage):
        return [_result(message)]
    return _user_blocks(message)


def _user_blocks(message: UserMessage) -> list[Block]:
    return [*map(_attachment_block, message.attachments), *_text(message.text)]


def _text(text: str) -> list[Block]:
    """No block for blank text: the API refuses it."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _assistant_blocks(message: AssistantMessage) -> list[Block]:
    """Thinking comes back as it was, before the text, or before the call it led to."""
    ids = {call.id for call in message.calls}
    ahead: list[Block] = []
    before: dict[str, list[Block]] = {}
    for part in message.reasoning:
        if part.provider == NAME and part.signature:
            place = before.setdefault(part.call_id, []) if part.call_id in ids else ahead
            place.append(_thinking_block(part))
    uses = message.provider_tool_uses
    said = [*(dict(use.data) for use in uses if use.provider == NAME), *_text(message.text)]
    for call in message.calls:
        said += [*before.pop(call.id, ()), _call_block(call)]
    return [*ahead, *said] if said else []  # thinking alone is refused


def _thinking_block(part: Reasoning) -> Block:
    if part.kind == REDACTED:
        return {"type": REDACTED, "data": part.signature}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _call_block(call: ToolCall) -> Block:
    # An input must be an object; this is how the API's documentation shows a model the broken JSON it wrote.
    args = {"INVALID_JSON": call.malformed} if call.malformed else call.args
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": args}


def _result(message: ToolMessage) -> Block:
    message = fit_result(NAME, message, _is_accepted)
    files = [_attachment_block(each) for each in message.attachments]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": _id(message.call_id),
        "content": [*_text(message.text), *files] if files else message.text,
    }
    if message.is_error:
        block["is_error"] = True
        block["content"] = message.text or "The call failed."  # an error must not be empty
    return block


def _id(call_id: str) -> str:
    """An id in the letters the API allows: a conversation may have begun with another provider."""
    return _NOT_IN_AN_ID.sub("_", call_id)


def _is_accepted(attachment: Attachment) -> bool:
    return attachment.media_type in (*_IMAGES, "application/pdf")


def _attachment_block(attachment: Attachment) -> Block:
    return _image(attachment) if attachment.is_image else _document(attachment)


def _image(image: Attachment) -> Block:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    if image.media_type not in _IMAGES:
        raise _attachment_error(image, "Convert it to PNG or JPEG.")
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _document(document: Attachment) -> Block:
    block: Block = {"type": "document", "source": _source(document)}
    if document.name:
        block["title"] = document.name
    return block


def _source(document: Attachment) -> Block:
    kind = document.media_type
    if kind == "application/pdf":
        if document.url:
            return {"type": "url", "url": document.url}
        return {"type": "base64", "media_type": kind, "data": document.data}
    if document.url:
        raise _attachment_error(document, "Only PDFs can be given by URL: attach the content.")
    if document.is_text:
        return {"type": "text", "media_type": "text/plain", "data": document.text()}
    raise _attachment_error(document, "Convert it to PDF or to text.")


def _attachment_error(attachment: Attachment, remedy: str) -> UnsupportedError:
    what = f"'{attachment.name}' " if attachment.name else ""
    return UnsupportedError(
        f"anthropic: an attachment {what}of type {attachment.media_type} is not accepted.",
        remedy=remedy,
    )


# --- the answer ----------------------------------------------------------------------------------

# As much of the protocol as is used is checked here: the client builds its own objects without checking them. Kinds of
# blocks, deltas and events that are not known here are ignored, as the protocol asks.

_KIND_OF_DELTA = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""The kind of block that a delta belongs to."""
_PARTS_OF_TOOLS = {
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
"""What the server calls parts of a tool that is allowed by one name."""
_REQUIRED = {
    "text": ("text",),
    REDACTED: ("data",),
    "tool_use": ("id", "name"),
    "text_delta": ("text",),
    "citations_delta": ("citation",),
    "input_json_delta": ("partial_json",),
    "message_start": ("message",),
    "content_block_start": ("content_block",),
    "content_block_delta": ("delta",),
    "message_delta": ("delta",),
}
"""The fields that a part of each kind must have."""


class _Content(msgspec.Struct):
    """A block, or a delta that adds to it."""

    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    partial_json: str = ""
    citation: Block | None = None

    @property
    def arguments(self) -> str:
        """The input as JSON text. Some servers send the text that the model wrote."""
        if isinstance(self.input, str):
            return self.input
        return json.dumps(self.input) if self.input else ""


class _AnswerTokens(msgspec.Struct):
    """Counts as they are now; one that is missing is as it was."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class _Stop(msgspec.Struct):
    """Why the model stopped."""

    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _AnswerMessage(_Stop, kw_only=True):
    """A whole answer, or the empty one that a stream starts with."""

    model: str
    content: list[Block]
    usage: _AnswerTokens = msgspec.field(default_factory=_AnswerTokens)


class _Event(msgspec.Struct):
    """An event of a stream."""

    type: str
    index: int = 0
    message: _AnswerMessage | None = None
    content_block: Block = {}
    delta: Block = {}
    usage: _AnswerTokens = msgspec.field(default_factory=_AnswerTokens)


class _BlockInParts:
    """A block while it arrives: as it started, and what was added to it since."""

    def __init__(self, raw: Block) -> None:
        self.raw = raw
        self.block = _convert(raw, _Content)
        self._added: list[_Content] = []

    def add(self, raw: Block) -> _Content | None:
        """A delta, if it fits here. Tools that the server runs itself are not known, and stream their input too."""
        delta = _convert(raw, _Content)
        kind = _KIND_OF_DELTA.get(delta.type)
        is_unknown = self.block.type not in ("text", "thinking", REDACTED, "tool_use")
        if kind == self.block.type or (kind == "tool_use" and is_unknown):
            self._added.append(delta)
            return delta
        return None

    def whole(self) -> Block:
        """The block as it would have come in one piece."""
        block: dict[str, Any] = dict(self.raw)
        inputs = []
        for delta in self._added:
            if delta.type == "input_json_delta":
                inputs.append(delta.partial_json)
            elif delta.type == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta.citation]
            elif delta.type == "text_delta":
                block["text"] += delta.text
            else:
                block["thinking"] = block.get("thinking", "") + delta.thinking
                block["signature"] = delta.signature or block.get("signature", "")
        if inputs:
            block["input"] = _decode("".join(inputs) or "{}", dict[str, Any])
        return block


class AnthropicAnswer:
    """One answer while it arrives. `before` is the part of it that came before the server paused."""

    def __init__(self, before: AnthropicAnswer | None = None) -> None:
        self.model = ""
        self.is_over = False
        self._stop = _Stop()
        self._first = 0 if before is None else before.next_index
        self._used: dict[str, str] = {} if before is None else before._used
        """The tools that the server runs, by the ids of their calls."""
        self._blocks: dict[int, _BlockInParts] = {}
        self._counts: dict[str, int] = {}
        self._has_spoken = False
        self._late_thoughts: list[int] = []

    @property
    def next_index(self) -> int:
        """The index after its last block."""
        return self._first + max(self._blocks, default=-1) + 1

    @property
    def is_paused(self) -> bool:
        """Whether the server wants to continue from here: it does while it runs tools of its own."""
        return self._stop.stop_reason == "pause_turn" and bool(self._blocks)

    @property
    def finish(self) -> str:
        """Why the model stopped, unless it was done."""
        return {"max_tokens": "length", "pause_turn": "pause"}.get(self._stop.stop_reason or "", "")

    def read(self, content: bytes) -> list[Piece]:
        """The pieces of an answer that came whole."""
        message = _decode(content, _AnswerMessage)
        self._open(message)
        self.is_over = True
        blocks = enumerate(message.content)
        pieces = [piece for index, block in blocks for piece in self._begin(index, block)]
        return [*pieces, *self._server_uses()]

    def read_event(self, raw: object) -> list[Piece]:
        """The pieces in the next event of a stream."""
        event = _convert(raw, _Event)
        if event.message is not None and event.type == "message_start":
            self._open(event.message)
        elif event.type == "content_block_start":
            return self._begin(event.index, event.content_block)
        elif event.type == "content_block_delta":
            return self._add(event.index, event.delta)
        elif event.type == "message_delta":
            self._stop = _convert({"type": "stop", **event.delta}, _Stop)
            self._count(event.usage)
        elif event.type == "message_stop":
            self.is_over = True
            return [*self._server_uses()]
        return []

    @property
    def is_counted(self) -> bool:
        """Whether the server has said what it uses."""
        return bool(self._counts)

    def usage(self) -> Usage:
        """What it used; input counts all that was read, cached or not."""
        written = self._counts.get("cache_creation_input_tokens", 0)
        read = self._counts.get("cache_read_input_tokens", 0)
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0) + written + read,
            output_tokens=self._counts.get("output_tokens", 0),
            requests=1,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )

    def check(self) -> None:
        """Refuse an answer without content."""
        if self._stop.stop_reason == "refusal":
            details = self._stop.stop_details or _StopDetails()
            reasons = (reason for reason in (details.category, details.explanation) if reason)
            why = clean_text(": ".join(reasons)) or "it gave no reason"
            raise RefusalError(
                f"anthropic: {self.model} declined to answer ({why}).",
                remedy="Ask in other words, leave out what was refused, or use another model.",
            )
        if self._stop.stop_reason == "model_context_window_exceeded":
            raise ContextOverflowError(
                f"anthropic: the conversation and its answer are too long for {self.model}.",
                remedy="Shorten the conversation, or have it summarised.",
            )

    def blocks(self) -> list[Block]:
        """Its blocks, to be sent back when the server wants to continue. Empty text would be refused."""
        whole = (block.whole() for _, block in sorted(self._blocks.items()))
        return [block for block in whole if block.get("text") != ""]

    def _open(self, message: _AnswerMessage) -> None:
        self.model = message.model
        self._stop = message
        self._count(message.usage)

    def _count(self, tokens: _AnswerTokens) -> None:
        counts = msgspec.structs.asdict(tokens)
        self._counts |= {name: count for name, count in counts.items() if count is not None}

    def _begin(self, position: int, raw: Block) -> list[Piece]:
        self._blocks[position] = _BlockInParts(raw)
        block, index = self._blocks[position].block, self._first + position
        if block.type in ("thinking", REDACTED):
            # Thinking after text or a call belongs to the call that follows, so that it can go back to its place.
            if self._has_spoken:
                self._late_thoughts.append(index)
            return [
                ReasoningPiece(index, block.thinking, block.signature or block.data, block.type)
            ]
        if name := self._run_by_server(raw):
            self._has_spoken = True
            return [ProviderToolPiece(index, name)]
        if block.type not in ("text", "tool_use"):
            return []
        self._has_spoken = True
        thoughts, self._late_thoughts = self._late_thoughts, []
        if block.type == "text":
            return [TextPiece(block.text)] if block.text else []
        led_here = [ReasoningPiece(thought, call_id=block.id) for thought in thoughts]
        return [*led_here, CallPiece(index, block.id, block.name, block.arguments)]

    def _run_by_server(self, block: Block) -> str:
        """The name of the tool that a block is about, if the server runs it: its call, or its result."""
        kind = block["type"]
        if kind in ("server_tool_use", "mcp_tool_use"):
            own = str(block.get("name", ""))
            name = _of_server(block.get("server_name")) or _PARTS_OF_TOOLS.get(own, own)
            self._used[str(block.get("id"))] = name
            return name or kind
        if kind == "container_upload":
            return "code_execution"
        if not kind.endswith("_tool_result"):
            return ""
        own = kind.removesuffix("_tool_result")
        return self._used.get(str(block.get("tool_use_id"))) or _PARTS_OF_TOOLS.get(own, own)

    def _server_uses(self) -> Iterator[Piece]:
        """What the server says of its tools, now that all of it is here."""
        for position, parts in sorted(self._blocks.items()):
            if name := self._run_by_server(parts.raw):
                yield ProviderToolPiece(self._first + position, name, parts.whole())

    def _add(self, position: int, raw: Block) -> list[Piece]:
        parts = self._blocks.get(position)
        if parts is None:
            raise _malformed_error(f"block {position} continues before it started")
        delta = parts.add(raw)
        if delta is None:
            return []
        index = self._first + position
        if delta.type in ("thinking_delta", "signature_delta"):
            return [ReasoningPiece(index, delta.thinking, delta.signature)]
        if delta.partial_json and parts.block.type == "tool_use":
            return [CallPiece(index, arguments=delta.partial_json)]
        return [TextPiece(delta.text)] if delta.text else []


def _decode(content: str | bytes, form: type[T]) -> T:
    """JSON in this form, or an error that says where it differs."""
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = str(error)
    raise _malformed_error(problem)


def _convert(part: object, form: type[T]) -> T:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise _malformed_error("a part of it does not say what it is")
    missing = [name for name in _REQUIRED.get(kind, ()) if name not in part]
    try:
        if not missing:
            # Of a kind that is not known, nothing is known about its fields.
            known = part if kind in _KINDS else {"type": kind}
            return msgspec.convert(known, form)
        problem = f"{kind} has no {missing[0]}"
    except msgspec.MsgspecError as error:
        problem = f"{kind}: {error}"
    raise _malformed_error(problem)


_KINDS = {*_REQUIRED, *_KIND_OF_DELTA, "thinking", "message_stop", "stop"}


def _malformed_error(problem: str) -> MalformedResponseError:
    return MalformedResponseError(
        f"anthropic: the answer is not what the protocol says: {clean_text(problem)}.",
        remedy="Try again, and check that base_url is a messages API.",
    )
