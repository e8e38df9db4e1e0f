"""Answers of providers, as tests ask for them and read them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing

import pytest

from hookline.providers import EndPiece, Piece, Provider, TextPiece
from hookline.state import InferenceRequest

BOTH_WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


async def heard(
    provider: Provider, request: InferenceRequest, streamed: bool = True
) -> list[Piece]:
    """All the pieces of one answer."""
    async with aclosing(provider.ask(request, streamed=streamed)) as pieces:
        return [piece async for piece in pieces]


def text_of(pieces: Iterable[Piece]) -> str:
    """The text of an answer."""
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def end_of(pieces: list[Piece]) -> EndPiece:
    """The last piece of an answer."""
    assert isinstance(pieces[-1], EndPiece)
    return pieces[-1]
