"""Which providers there are, and how a name such as `anthropic:NAME` becomes one of them."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any, NamedTuple, cast

from hookline.errors import BuildError
from hookline.providers.base import Provider


class _Entry(NamedTuple):
    module: str
    factory: str
    extra: str


_CATALOGUE = {
    "anthropic": _Entry("hookline.providers.anthropic", "AnthropicProvider", "anthropic"),
    "google": _Entry("hookline.providers.google", "GoogleProvider", "google"),
    "local": _Entry("hookline.providers.local", "LocalProvider", "local"),
    "openai": _Entry("hookline.providers.openai", "OpenAIProvider", "openai"),
}


class ModelName(NamedTuple):
    """The parts of a model's full name."""

    provider: str
    model: str


def provider_names() -> tuple[str, ...]:
    """The providers that ship with Hookline."""
    return tuple(_CATALOGUE)


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
            remedy=f'Run: pip install "hookline[{entry.extra}]".',
        ) from None
    return cast("Provider", factory(**settings))
