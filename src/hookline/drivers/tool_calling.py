"""The driver for models that call tools natively."""

from __future__ import annotations

from hookline.drivers.answer import ask
from hookline.drivers.base import Turn
from hookline.drivers.model import ModelDriver, check_features
from hookline.state import InferenceRequest, InferenceResponse


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
        return await ask(provider, request, turn)
