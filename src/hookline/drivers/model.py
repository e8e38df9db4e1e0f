"""Which model a driver asks: its own, or the one that a hook names for one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.errors import BuildError
from hookline.providers import ModelName, Provider, make_provider, provider_names, split_name
from hookline.providers.options import in_words_of, portable
from hookline.state import EMPTY, InferenceRequest, freeze_dict


class Models:
    """A driver's model and its provider, and the providers of models that hooks have named. Each is made once."""

    def __init__(
        self, model: str, provider: Provider | None = None, options: Mapping[str, Any] = EMPTY
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
        self._model = name.model
        self._provider = provider
        self._others: dict[str, Provider] = {}
        self._options = freeze_dict(dict(options), "an option of the model")

    @property
    def name(self) -> str:
        """The driver's own model, as `provider:model`."""
        return full_name(self._provider, self._model)

    def addressed(self, request: InferenceRequest) -> tuple[Provider, InferenceRequest]:
        """Who is asked, and the request as that provider reads it: with its model's bare name and the options it has.

        The driver's options are its own provider's; of them another provider is told those that are portable.
        """
        provider, model = self._named(request.model)
        own = self._options if provider is self._provider else portable(self._options)
        options = in_words_of(provider.name, own) | in_words_of(provider.name, request.options)
        return provider, msgspec.structs.replace(request, model=model, options=options)

    def _named(self, name: str) -> tuple[Provider, str]:
        """A model by the name a hook gave: `provider:model`, or a model of the driver's own provider."""
        if not name:
            return self._provider, self._model
        prefix, colon, model = name.partition(":")
        if not colon or prefix == self._provider.name:
            return self._provider, model or name
        if prefix not in provider_names():  # the colon belongs to the model's name
            return self._provider, name
        if prefix not in self._others:
            self._others[prefix] = new_provider(split_name(name).provider)
        return self._others[prefix], model

    async def aclose(self) -> None:
        """Close every provider."""
        others, self._others = self._others, {}
        for provider in (self._provider, *others.values()):
            await provider.aclose()


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
            remedy="What a model is told with each request (temperature, say) goes into options={...}.",
        ) from error
