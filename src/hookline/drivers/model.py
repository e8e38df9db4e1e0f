"""The driver for models that call tools natively, and what it shares with the driver for those that cannot."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from hookline.drivers.base import Turn
from hookline.errors import (
    BuildError,
    ConnectionLostError,
    ModelError,
    ProviderToolError,
    UnsupportedError,
)
from hookline.providers import (
    CallPiece,
    EndPiece,
    Feature,
    ModelName,
    Piece,
    Provider,
    ProviderToolPiece,
    ReasoningPiece,
    TextPiece,
    make_provider,
    provider_names,
    split_name,
)
from hookline.providers.json_text import LetterStream, join_halves
from hookline.providers.prices import UNCOUNTED
from hookline.providers.request import fit_result, portable, translate_options
from hookline.state import (
    EMPTY,
    Attachment,
    InferenceRequest,
    InferenceResponse,
    ProviderToolUse,
    Reasoning,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    freeze_dict,
)


class ModelDriver:
    """A driver's model and provider, and the providers of models that hooks have named. Each is made once."""

    def __init__(
        self,
        model: str,
        *,
        provider: Provider | None = None,
        options: Mapping[str, Any] = EMPTY,
        tool_choice: str = "auto",
    ) -> None:
        if not isinstance(model, str):
            raise BuildError(
                f"the model's name is text, not {model!r}.", remedy="Write provider:NAME."
            )
        if provider is None:
            name = split_name(model)
            provider = new_provider(name.provider)
        elif isinstance(provider, Provider) and not isinstance(provider, type):
            name = ModelName(provider.name, model.removeprefix(f"{provider.name}:"))
        else:
            raise BuildError(
                f"{provider!r} is not a provider.",
                remedy="Use hookline.providers.make_provider(...), or an object with ask(...) and features.",
            )
        check_options(options)
        self._name = name.model
        self._provider = provider
        self._others: dict[str, Provider] = {}
        self._options = freeze_dict(dict(options), "an option of the model")
        self._tool_choice = tool_choice

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def model(self) -> str:
        """The model it asks, as `provider:model`."""
        return full_name(self._provider, self._name)

    async def aclose(self) -> None:
        """Close its providers."""
        others, self._others = self._others, {}
        for provider in (self._provider, *others.values()):
            await provider.aclose()

    def _address(self, request: InferenceRequest) -> tuple[Provider, InferenceRequest]:
        """Who is asked, and the request for that provider: with its model's bare name, its options and a tool choice.

        The driver's options are its own provider's; another provider gets those that are portable.
        """
        provider, model = self._find_provider(request.model)
        own = self._options if provider is self._provider else portable(self._options)
        options = translate_options(provider.name, own) | translate_options(
            provider.name, request.options
        )
        choice = request.tool_choice
        if choice == "auto" and self._tool_choice != "auto" and not _has_used_tool(request):
            choice = self._tool_choice
        request = msgspec.structs.replace(request, model=model, options=options, tool_choice=choice)
        _check_choice(request)
        return provider, request

    def _find_provider(self, name: str) -> tuple[Provider, str]:
        """The provider of a model that a hook named: `provider:model`, or a model of the driver's own provider."""
        if not name:
            return self._provider, self._name
        prefix, colon, model = name.partition(":")
        if not colon or prefix == self._provider.name:
            return self._provider, model or name
        if prefix not in provider_names():  # the colon belongs to the model's name
            return self._provider, name
        if prefix not in self._others:
            self._others[prefix] = new_provider(split_name(name).provider)
        return self._others[prefix], model


def _has_used_tool(request: InferenceRequest) -> bool:
    """Whether a tool was used since the last prompt."""
    for message in reversed(request.messages):
        if isinstance(message, ToolMessage):
            return True
        if isinstance(message, UserMessage) and not message.by:
            return False
    return False


def _check_choice(request: InferenceRequest) -> None:
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice in ("auto", "none") or choice in names or (choice == "required" and names):
        return
    raise ModelError(
        f"tool_choice={choice!r} asks for a tool that is not offered.",
        remedy=f"Offered: {', '.join(names) or 'none'}; or use 'auto', 'none' or 'required'.",
    )


def check_features(provider: Provider, request: InferenceRequest) -> None:
    """Refuse what the provider does not say it can do, before anything is sent."""
    needs: dict[Feature, str] = {}
    if request.tools:
        needs[Feature.TOOLS] = "Use a ReActDriver, or another model."
    if request.tool_choice not in ("auto", "none"):
        needs[Feature.TOOL_CHOICE] = "Leave tool_choice at 'auto'."
    if request.output_schema is not None:
        needs[Feature.STRUCTURED_OUTPUT] = "Ask for the form in words, or use another model."
    for message in request.messages:
        if isinstance(message, UserMessage):
            for attachment in message.attachments:
                kind = Feature.IMAGES if attachment.is_image else Feature.DOCUMENTS
                needs[kind] = "Leave it out, or use another model."
    for feature, remedy in needs.items():
        if feature not in provider.features:
            model = f" '{request.model}'" if request.model else ""
            raise UnsupportedError(
                f"model{model} is asked for {feature.value}, "
                f"and provider '{provider.name}' does not have that.",
                remedy=remedy,
            )


def fit_results(
    provider: Provider, request: InferenceRequest, accepts: Callable[[Attachment], bool]
) -> InferenceRequest:
    """The request with results of tools whose files this provider accepts."""
    if not any(isinstance(each, ToolMessage) and each.attachments for each in request.messages):
        return request
    return request.with_messages(
        [
            fit_result(provider.name, each, accepts) if isinstance(each, ToolMessage) else each
            for each in request.messages
        ]
    )


def check_options(options: object) -> None:
    """Refuse options that are not names with values."""
    if not isinstance(options, Mapping):
        raise BuildError(
            f"the options of a model map names to values, not {options!r}.",
            remedy='Write options={"temperature": 0}, or leave them out.',
        )


def full_name(provider: Provider, model: str) -> str:
    """A model's name with its provider."""
    return f"{provider.name}:{model}" if model else provider.name


def new_provider(name: str, **settings: Any) -> Provider:
    """A provider with these settings; refuses settings it does not have."""
    try:
        return make_provider(name, **settings)
    except TypeError as error:
        if not settings:
            raise
        raise BuildError(
            f"provider '{name}' does not take these settings: {error}.",
            remedy="Settings of a request, such as temperature, go into options={...}.",
        ) from error


# --- the driver for models that call tools natively ---------------------------------------------


class ToolCallingDriver(ModelDriver):
    """One turn is one request to the provider: it is offered the tools, and calls them in its own way.

    `model` is `provider:model`; with a `provider` of your own, the model's name alone. `options` go with every
    request. `tool_choice` (`required`, or a tool's name) holds until a tool was used since the last prompt: a
    model that must always call one could never answer.
    """

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Ask the model."""
        provider, request = self._address(request)
        check_features(provider, request)
        if Feature.RESULT_FILES not in provider.features:
            request = fit_results(provider, request, lambda _: False)
        return await ask(provider, request, turn)


# --- one question to a provider: the pieces of its answer, put together, and passed on as they come ---


async def ask(
    provider: Provider,
    request: InferenceRequest,
    turn: Turn,
    emit_text: Callable[[str], None] | None = None,
) -> InferenceResponse:
    """Ask a model; its whole answer. `emit_text` takes the text as it comes, in place of the turn.

    Whatever ends this, the generator is closed, and with it the connection.
    """
    builder = _AnswerBuilder(turn, provider.name, request, emit_text or turn.emit_text)
    try:
        async with aclosing(provider.ask(request, streamed=turn.is_streamed)) as pieces:
            async for piece in pieces:
                try:
                    builder.add(piece)
                    await turn.keep_pace()
                except (ModelError, CancelledError) as error:
                    with suppress(StopAsyncIteration):
                        await pieces.athrow(error)  # closing it would not say what it has used
                    raise
    except (ModelError, CancelledError) as error:
        usage = getattr(error, "usage", None)
        if isinstance(usage, Usage):
            turn.charge(usage)
        elif isinstance(error, CancelledError):
            turn.charge(UNCOUNTED)
        raise
    return builder.response(request.model)


class _AnswerBuilder:
    def __init__(
        self,
        turn: Turn,
        provider: str,
        request: InferenceRequest,
        emit_text: Callable[[str], None],
    ) -> None:
        self._turn = turn
        self._allowed = request.provider_tools
        self._provider_tools: dict[int, ProviderToolUse] = {}
        self._provider = provider
        self._text = LetterStream(emit_text)
        self._reasoning: dict[int, _ReasoningBuilder] = {}
        self._calls: dict[int, _CallBuilder] = {}
        self._end: EndPiece | None = None

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        if isinstance(piece, TextPiece):
            self._text.add(piece.text)
        elif isinstance(piece, CallPiece):
            self._add_call(piece)
        elif isinstance(piece, ReasoningPiece):
            self._add_reasoning(piece)
        elif isinstance(piece, ProviderToolPiece):
            if piece.name not in self._allowed:
                problem = "the answer has used"
                raise ProviderToolError(self._provider, piece.name, problem, self._allowed)
            use = ProviderToolUse(name=piece.name, data=piece.data, provider=self._provider)
            self._provider_tools[piece.index] = use
        else:
            self._end = piece

    def _add_call(self, piece: CallPiece) -> None:
        call = self._calls.get(piece.index)
        if call is None:
            call = self._calls[piece.index] = _CallBuilder(self._new_id(piece.id), piece.name)
        elif not call.name:
            call.name = piece.name
        call.arguments.append(piece.arguments)
        self._turn.emit_call(call.id, call.name, piece.arguments)

    def _new_id(self, given: str) -> str:
        """The id from the wire, or one of our own: a call without an id of its own cannot be answered."""
        taken = {call.id for call in self._calls.values()}
        if given and given not in taken:
            return given
        position = len(taken) + 1
        while (made := f"call_{len(self._turn.state.steps) + 1}_{position}") in taken:
            position += 1
        return made

    def _add_reasoning(self, piece: ReasoningPiece) -> None:
        part = self._reasoning.get(piece.index)
        if part is None:
            part = self._reasoning[piece.index] = _ReasoningBuilder(self._turn.emit_reasoning)
        part.text.add(piece.text)
        part.signature += piece.signature
        part.kind = piece.kind or part.kind
        part.call_id = piece.call_id or part.call_id

    def response(self, model: str) -> InferenceResponse:
        """The whole answer. One that has no end was cut off."""
        if self._end is None:
            raise ConnectionLostError(
                f"the answer of '{self._provider}' ended too early.",
                remedy="Try again; the default error policy does so.",
            )
        return InferenceResponse(
            text=self._text.finish(),
            calls=tuple(call.build() for call in self._calls.values()),
            usage=self._end.usage,
            model=f"{self._provider}:{self._end.model or model}",
            reasoning=tuple(part.build(self._provider) for part in self._reasoning.values()),
            finish=self._end.finish,
            provider_tool_uses=tuple(self._provider_tools.values()),
        )


class _CallBuilder:
    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.arguments: list[str] = []

    def build(self) -> ToolCall:
        return ToolCall.from_json(self.id, self.name, join_halves("".join(self.arguments)))


class _ReasoningBuilder:
    def __init__(self, emit: Callable[[str], None]) -> None:
        self.text = LetterStream(emit)
        self.signature = self.kind = self.call_id = ""

    def build(self, provider: str) -> Reasoning:
        return Reasoning(
            text=self.text.finish(),
            signature=self.signature,
            provider=provider,
            kind=self.kind,
            call_id=self.call_id,
        )
