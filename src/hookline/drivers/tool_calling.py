"""The driver for models that call tools natively."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookline.drivers.base import Turn
from hookline.drivers.features import check_features
from hookline.drivers.fold import ask
from hookline.drivers.model import Models
from hookline.drivers.tool_choice import check_choice, choosing
from hookline.providers import Provider
from hookline.state import EMPTY, InferenceRequest, InferenceResponse


class ToolCallingDriver:
    """One turn is one question to the provider: it is offered the tools, and calls them in its own way.

    `model` is `provider:model`; with a `provider` of your own, the model's name alone. `options` go with every
    request. `tool_choice` (`required`, or a tool's name) holds until a tool was used since the last prompt: a
    model that must always call one could never answer.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: Provider | None = None,
        options: Mapping[str, Any] = EMPTY,
        tool_choice: str = "auto",
    ) -> None:
        self._models = Models(model, provider, options)
        self._tool_choice = tool_choice

    @property
    def model(self) -> str:
        """The model it asks, as `provider:model`."""
        return self._models.name

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Ask the model."""
        provider, request = self._models.addressed(request)
        request = choosing(request, self._tool_choice)
        check_choice(request)
        check_features(provider, request)
        return await ask(provider, request, turn)

    async def aclose(self) -> None:
        """Close its providers."""
        await self._models.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"
