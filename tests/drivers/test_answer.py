from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.drivers.model import ask
from hookline.errors import ConnectionLostError, RateLimitError
from hookline.providers import (
    CallPiece,
    EndPiece,
    Feature,
    Piece,
    Provider,
    ReasoningPiece,
    TextPiece,
)
from hookline.providers.json_text import LetterStream, join_halves
from hookline.state import InferenceRequest, Reasoning, Usage

REQUEST = InferenceRequest(model="m")


class Plays:
    """A provider that yields pieces, raises what is an exception, and notes when its generator is closed."""

    name = "plays"
    features = frozenset(Feature)

    def __init__(self, *pieces: Piece | Exception) -> None:
        self.pieces = pieces
        self.closed = 0
        self.streamed: bool | None = None

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        self.streamed = streamed
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed += 1

    async def aclose(self) -> None:
        pass


async def test_pieces_become_an_answer_and_are_handed_on(turn: Any) -> None:
    """Text, thinking and calls, each in the order they came, with usage and the model that answered."""
    provider = Plays(
        ReasoningPiece(0, "Hm", kind="thinking"),
        ReasoningPiece(0, "m.", signature="seal"),
        ReasoningPiece(1, signature="encrypted", call_id="a"),
        TextPiece("Let "),
        TextPiece("me see."),
        CallPiece(0, "a", "add"),
        CallPiece(0, arguments='{"x":'),
        CallPiece(1, "b", "sub", "{}"),
        CallPiece(0, arguments=" 1}"),
        EndPiece(Usage(7, 3, 1), "m-2024", "length"),
    )
    response = await ask(provider, REQUEST, turn)
    assert isinstance(provider, Provider)
    assert response.text == "Let me see."
    assert response.calls == (ToolCall("a", "add", {"x": 1}), ToolCall("b", "sub"))
    assert response.reasoning == (
        Reasoning("Hmm.", "seal", "plays", "thinking"),
        Reasoning("", "encrypted", "plays", "", "a"),
    )
    assert (response.usage, response.finish) == (Usage(7, 3, 1), "length")
    assert response.model == "plays:m-2024"
    assert turn.text == ["Let ", "me see."]
    assert turn.reasoning == ["Hm", "m."]
    assert turn.calls == [
        ("a", "add", ""),
        ("a", "add", '{"x":'),
        ("b", "sub", "{}"),
        ("a", "add", " 1}"),
    ]
    assert turn.waited == len(provider.pieces)
    assert provider.closed == 1
    assert provider.streamed is True


async def test_an_answer_without_an_end_was_cut_off(turn: Any) -> None:
    """Half an answer is no answer."""
    with pytest.raises(ConnectionLostError, match="'plays' ended too early"):
        await ask(Plays(TextPiece("half")), REQUEST, turn)


async def test_the_generator_is_closed_when_the_provider_fails(turn: Any) -> None:
    """What it raises comes through as it is."""
    provider = Plays(TextPiece("half"), RateLimitError("slow"))
    with pytest.raises(RateLimitError):
        await ask(provider, REQUEST, turn)
    assert provider.closed == 1


async def test_the_generator_is_closed_when_the_reader_fails(turn: Any) -> None:
    """A listener of the text may fail too, and the connection is closed."""
    provider = Plays(TextPiece("a"), TextPiece("b"), EndPiece())

    def hear(text: str) -> None:
        raise ValueError(text)

    with pytest.raises(ValueError, match="a"):
        await ask(provider, REQUEST, turn, hear)
    assert provider.closed == 1


@pytest.mark.parametrize(
    ("given_ids", "ids"),
    [
        (["", ""], ["call_1_1", "call_1_2"]),
        (["x", "x"], ["x", "call_1_2"]),
        (["call_1_2", "", "call_1_2"], ["call_1_2", "call_1_3", "call_1_4"]),
    ],
)
async def test_every_call_has_an_id_of_its_own(
    turn: Any, given_ids: list[str], ids: list[str]
) -> None:
    """Ids that are missing or come twice are made, the same ones each time."""
    pieces = [CallPiece(index, id, "add", "{}") for index, id in enumerate(given_ids)]
    response = await ask(Plays(*pieces, EndPiece()), REQUEST, turn)
    assert [call.id for call in response.calls] == ids
    assert [call_id for call_id, _, _ in turn.calls] == ids


async def test_arguments_that_are_no_json_are_kept(turn: Any) -> None:
    """The loop shows the model what it wrote."""
    pieces = [CallPiece(0, "a", "add", '{"x": '), EndPiece()]
    response = await ask(Plays(*pieces), REQUEST, turn)
    assert response.calls[0].malformed == '{"x": '


async def test_a_name_may_come_after_the_id(turn: Any) -> None:
    """Some servers send them apart."""
    pieces = [CallPiece(0, "a"), CallPiece(0, name="add"), CallPiece(0, arguments="{}"), EndPiece()]
    response = await ask(Plays(*pieces), REQUEST, turn)
    assert response.calls == (ToolCall("a", "add"),)


@given(st.text(), st.integers(1, 5))
def test_letters_arrive_whole(text: str, size: int) -> None:
    """However a text is cut, also through the middle of a letter, it arrives as it was."""
    encoded = text.encode("utf-16-le")
    halves = [
        encoded[n : n + 2].decode("utf-16-le", "surrogatepass") for n in range(0, len(encoded), 2)
    ]
    heard: list[str] = []
    letters = LetterStream(heard.append)
    for start in range(0, len(halves), size):
        letters.add("".join(halves[start : start + size]))
    assert letters.finish() == text
    assert "".join(heard) == text
    for piece in heard:
        piece.encode()


@given(st.text(st.characters(categories=None)))
def test_any_text_can_be_join_halves(text: str) -> None:
    """What is left is text that can be written down."""
    join_halves(text).encode()
