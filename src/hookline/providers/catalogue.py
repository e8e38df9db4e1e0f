"""Which providers there are, and how a name such as `anthropic:NAME` becomes one of them."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

from hookline.errors import BuildError
from hookline.extras import install_command
from hookline.providers.base import Provider


class _Entry(NamedTuple):
    module: str
    factory: str
    extra: str
    client: str
    """The module that the extra installs."""
    keys: tuple[str, ...] = ()
    """Where the provider looks for a key in the environment."""
    prefix: str = ""
    """How the names of its models begin, where other agents write them without a provider."""


_CATALOGUE = {
    "anthropic": _Entry(
        "hookline.providers.anthropic",
        "AnthropicProvider",
        "anthropic",
        "anthropic",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        prefix="claude-",
    ),
    "google": _Entry(
        "hookline.providers.google",
        "GoogleProvider",
        "google",
        "google.genai",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    "lmstudio": _Entry("hookline.providers.openai", "LMStudioProvider", "openai", "openai"),
    "local": _Entry("hookline.providers.local", "LocalProvider", "local", "xllamacpp"),
    "ollama": _Entry("hookline.providers.openai", "OllamaProvider", "openai", "openai"),
    "openai": _Entry(
        "hookline.providers.openai", "OpenAIProvider", "openai", "openai", ("OPENAI_API_KEY",)
    ),
}


class ModelName(NamedTuple):
    """The parts of a model's full name."""

    provider: str
    model: str


def provider_names() -> tuple[str, ...]:
    """The providers that ship with Hookline."""
    return tuple(_CATALOGUE)


def missing_extra(provider: str) -> str:
    """The extra that a provider needs and that is not installed; empty if it is. Nothing is imported."""
    entry = _CATALOGUE[provider]
    try:
        is_here = find_spec(entry.client) is not None
    except (ImportError, ValueError):
        is_here = False
    return "" if is_here else entry.extra


def key_variables(provider: str) -> tuple[str, ...]:
    """The variables in which a provider looks for a key. Nothing is imported."""
    return _CATALOGUE[provider].keys


def full_name(model: str) -> str:
    """The name of a model with its provider, for one that other agents write without; any other as it is."""
    for provider, entry in _CATALOGUE.items():
        if entry.prefix and model.startswith(entry.prefix):
            return f"{provider}:{model}"
    return model


def split_name(name: str, also: tuple[str, ...] = ()) -> ModelName:
    """The parts of `provider:model`; refuses a provider that does not exist. The model may be left out of `local`.

    `also` are further words that may stand in the place of a provider.
    """
    provider, _, model = name.partition(":")
    if provider not in _CATALOGUE:
        _refuse_slash(name)
        known = (*_CATALOGUE, *also)
        close = difflib.get_close_matches(provider, known, n=1)
        raise BuildError(
            f"there is no provider '{provider}' (in model {name!r}).",
            remedy=f"Did you mean '{close[0]}:{model}'?"
            if close
            else f"Write provider:model, with one of: {', '.join(known)}.",
        )
    if not model and provider != "local":
        raise BuildError(
            f"the model {name!r} has no name after the provider.",
            remedy=f"Write {provider}:NAME, as the provider calls the model.",
        )
    return ModelName(provider, model)


def _refuse_slash(name: str) -> None:
    """Others write provider/model: say how to write it here."""
    provider, slash, model = name.partition("/")
    if slash and provider in _CATALOGUE:
        raise BuildError(
            f"the model {name!r} has a slash after the provider.",
            remedy=f"Did you mean '{provider}:{model}'?",
        )


def make_provider(name: str, **settings: Any) -> Provider:
    """The provider of that name. Its library is imported now, and not before."""
    entry = _CATALOGUE[name]
    try:
        factory = getattr(import_module(entry.module), entry.factory)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("hookline"):
            raise
        raise BuildError(
            f"provider '{name}' needs the package '{error.name}', which is not installed.",
            remedy=f"Run: {install_command(entry.extra)}",
        ) from None
    return cast("Provider", factory(**settings))
