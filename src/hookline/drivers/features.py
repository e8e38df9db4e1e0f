"""What a provider says it can do, checked before anything is sent to it."""

from __future__ import annotations

from hookline.errors import UnsupportedError
from hookline.providers import Feature, Provider
from hookline.state import InferenceRequest, UserMessage


def check_features(provider: Provider, request: InferenceRequest) -> None:
    """Refuse what the provider does not say it can do."""
    if request.tools:
        _require(provider, request, Feature.TOOLS, "Use a ReActDriver, or another model.")
    if request.tool_choice not in ("auto", "none"):
        _require(provider, request, Feature.TOOL_CHOICE, "Leave tool_choice at 'auto'.")
    if request.output_schema is not None:
        remedy = "Ask for the form in words, or use another model."
        _require(provider, request, Feature.STRUCTURED_OUTPUT, remedy)
    for message in request.messages:
        if isinstance(message, UserMessage) and message.attachments:
            for attachment in message.attachments:
                what = Feature.IMAGES if attachment.is_image else Feature.DOCUMENTS
                _require(provider, request, what, "Leave it out, or use another model.")


def _require(provider: Provider, request: InferenceRequest, feature: Feature, remedy: str) -> None:
    if feature not in provider.features:
        model = f" '{request.model}'" if request.model else ""
        raise UnsupportedError(
            f"model{model} is asked for {feature.value}, "
            f"and provider '{provider.name}' does not have that.",
            remedy=remedy,
        )
