"""Options that mean the same everywhere, in the words of each provider.

Five options are portable: they go with a request to whichever provider it is sent. Every other option is one
provider's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hookline.errors import ModelNotFoundError, ProviderToolError, UnsupportedError
from hookline.state import InferenceRequest

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
