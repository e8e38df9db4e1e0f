"""Connections to the models of each vendor. Each is an extra and is imported when it is used."""

from hookline.providers.base import (
    CallPiece,
    EndPiece,
    Feature,
    Piece,
    Provider,
    ProviderToolPiece,
    ReasoningPiece,
    TextPiece,
)
from hookline.providers.catalogue import ModelName, make_provider, provider_names, split_name

__all__ = [
    "CallPiece",
    "EndPiece",
    "Feature",
    "ModelName",
    "Piece",
    "Provider",
    "ProviderToolPiece",
    "ReasoningPiece",
    "TextPiece",
    "make_provider",
    "provider_names",
    "split_name",
]
