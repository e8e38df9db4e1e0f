"""A request as a provider takes it: options in its own words, files in the results of tools, schemas that are joined.

Five options are portable: they go with a request to whichever provider it is sent. Every other option is one
provider's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from hookline.errors import ModelNotFoundError, ProviderToolError, UnsupportedError
from hookline.state import Attachment, InferenceRequest, ToolMessage

PORTABLE = ("max_tokens", "temperature", "top_p", "stop", "seed")
"""What may be said to every provider. `stop` is a text or a list of texts."""

_WORDS: dict[str, dict[str, str]] = {
    "anthropic": {"stop": "stop_sequences", "seed": ""},
    "google": {"max_tokens": "max_output_tokens", "stop": "stop_sequences"},
}
"""What a provider calls a portable option, where it has another name; nothing where it has no such option."""
_LISTS = frozenset({"anthropic", "google", "local"})
"""Those that take only a list where others take a text to stop at, too."""


def portable(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options among these that may be said to every provider."""
    return {name: value for name, value in options.items() if name in PORTABLE}


def translate_options(provider: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as that provider names them; what it names itself wins, and what it does not have is left out."""
    words = _WORDS.get(provider, {})
    said: dict[str, Any] = {}
    for name, value in options.items():
        if name == "stop" and provider in _LISTS and isinstance(value, str):
            value = [value]
        word = words.get(name, name) if name in PORTABLE else name
        if word and (word == name or word not in options):
            said[word] = value
    return said


def check_provider_tools(provider: str, request: InferenceRequest, names: Iterable[str]) -> None:
    """Refuse a request that switches on a tool which the provider runs, and which the agent does not allow."""
    for name in names:
        if name not in request.provider_tools:
            raise ProviderToolError(provider, name, "the options switch on", request.provider_tools)


def check_request(provider: str, request: InferenceRequest, ours: frozenset[str]) -> None:
    """Refuse a request without a model, and invalid options. The runtime sets the options in `ours` itself."""
    if not request.model:
        raise ModelNotFoundError(
            f"{provider}: the request does not name a model.", remedy=f"Write {provider}:NAME."
        )
    for name in ours.intersection(request.options):
        raise UnsupportedError(
            f"{provider}: '{name}' is not an option: it follows from the request.",
            remedy=f"Remove '{name}' from the options.",
        )


def fit_result(
    provider: str, message: ToolMessage, accepts: Callable[[Attachment], bool]
) -> ToolMessage:
    """A result as this provider can be sent it.

    A text file becomes part of the text. With a file that is not accepted, the result is an error that says so: the
    model would otherwise answer as if it had seen the file. To put the file into a message of the user was
    rejected: what a tool returns would then speak with the user's voice.
    """
    if not message.attachments:
        return message
    texts, files, refused = [message.text] if message.text else [], [], []
    for each in message.attachments:
        if each.is_text and each.data:
            texts.append(f"{each.name}:\n\n{each.text()}" if each.name else each.text())
        elif accepts(each):
            files.append(each)
        else:
            name = f" '{each.name}'" if each.name else ""
            refused.append(f"{each.media_type}{name}{' by its address' if each.url else ''}")
    if not refused:
        return msgspec.structs.replace(message, text="\n\n".join(texts), attachments=tuple(files))
    problem = (
        f"Error: tool '{message.name}' returned {', '.join(refused)}, and provider '{provider}' does not "
        "accept that in the result of a tool. You have not seen it."
    )
    return ToolMessage(message.call_id, message.name, "\n\n".join((problem, *texts)), is_error=True)


def move_definitions(
    schema: Mapping[str, Any], prefix: str, definitions: dict[str, Any]
) -> dict[str, Any]:
    """A schema as a part of another: its `$defs` move into `definitions`, under names with a prefix."""
    moved: dict[str, Any] = _rename_references(schema, prefix)
    for name, definition in moved.pop("$defs", {}).items():
        definitions[f"{prefix}{name}"] = definition
    return moved


def _rename_references(value: Any, prefix: str) -> Any:
    if isinstance(value, Mapping):
        return {
            key: f"#/$defs/{prefix}{item.removeprefix('#/$defs/')}"
            if key == "$ref" and isinstance(item, str) and item.startswith("#/$defs/")
            else _rename_references(item, prefix)
            for key, item in value.items()
        }
    return (
        [_rename_references(item, prefix) for item in value] if isinstance(value, list) else value
    )
