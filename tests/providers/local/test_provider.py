from __future__ import annotations

import importlib.util
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from wires.local import ScriptedEngine

from hookline import AgentBuilder
from hookline.errors import BuildError, MalformedResponseError, ModelError, ModelNotFoundError
from hookline.providers import (
    CallPiece,
    EndPiece,
    Feature,
    Piece,
    Provider,
    TextPiece,
    make_provider,
)
from hookline.providers.local import Chunk, Completion, CompletionEngine, Done, LocalProvider
from hookline.state import InferenceRequest, ToolSpec, Usage, UserMessage
from hookline.testing import WireCall, WireTurn

NOW = ToolSpec("now", "Tell the time.", {"type": "object", "properties": {}})


class Engine:
    """Gives fixed answers."""

    def __init__(self, *items: Chunk | Done) -> None:
        self.items = items

    async def complete(self, completion: Completion) -> AsyncGenerator[Chunk | Done, None]:
        """All of it."""
        for item in self.items:
            yield item

    async def aclose(self) -> None:
        """Nothing."""


def asking(text: str = "Hi.", **fields: Any) -> InferenceRequest:
    """A short question."""
    return InferenceRequest(messages=[UserMessage(text)], **fields)


async def answer(
    provider: LocalProvider, request: InferenceRequest, *, streamed: bool
) -> list[Piece]:
    """All pieces of an answer."""
    async with aclosing(provider.ask(request, streamed=streamed)) as pieces:
        return [piece async for piece in pieces]


def test_it_is_a_provider_that_says_what_it_can_do() -> None:
    """Calls, one at a time, and answers of a given form. The rest is left out."""
    provider = LocalProvider(engine=ScriptedEngine())
    assert isinstance(provider, Provider)
    assert isinstance(ScriptedEngine(), CompletionEngine)
    assert provider.name == "local"
    assert provider.features == {Feature.TOOLS, Feature.TOOL_CHOICE, Feature.STRUCTURED_OUTPUT}
    assert isinstance(make_provider("local"), LocalProvider)


async def test_it_costs_nothing_and_counts_everything() -> None:
    """The price is known, and it is zero; the tokens from the cache are reported."""
    provider = LocalProvider(engine=Engine(Chunk("Hello"), Done(20, 3, 15)))
    end = (await answer(provider, asking(), streamed=False))[-1]
    assert end == EndPiece(Usage(20, 3, 1, 0.0, 0, 15), "smollm2", "")


async def test_running_out_of_tokens_is_reported() -> None:
    """What was said until then is kept."""
    provider = LocalProvider(engine=Engine(Chunk("Once upon"), Done(9, 2, is_cut=True)))
    first, end = await answer(provider, asking(), streamed=False)
    assert first == TextPiece("Once upon")
    assert isinstance(end, EndPiece)
    assert end.finish == "length"


@pytest.mark.parametrize("streamed", [False, True])
async def test_pieces_are_whole_unless_somebody_reads_along(streamed: bool) -> None:
    """One piece each for text and calls, or as many as there come."""
    turns = [WireTurn("A long enough answer."), WireTurn("", (WireCall("now"),))]
    provider = LocalProvider(engine=ScriptedEngine(turns))
    said = await answer(provider, asking(tools=(NOW,)), streamed=streamed)
    assert "".join(piece.text for piece in said if isinstance(piece, TextPiece)) == turns[0].text
    assert (len(said) > 2) is streamed
    called = await answer(provider, asking(tools=(NOW,)), streamed=streamed)
    assert called[0] == CallPiece(0, "", "now", "{}")


async def test_an_answer_without_an_end_is_malformed() -> None:
    """An engine that just stops has failed."""
    with pytest.raises(MalformedResponseError, match="no end"):
        await answer(LocalProvider(engine=Engine(Chunk("Well"))), asking(), streamed=True)


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (
            "smollm3",
            "there is no model 'smollm3' to fetch. Use local:smollm2, or local:/path/to.gguf",
        ),
        ("/no/such/file.gguf", "'/no/such/file.gguf' cannot be read: No such file"),
        ("~/no-such.gguf", "no-such.gguf' cannot be read"),
    ],
)
async def test_a_model_that_is_not_there_is_not_found(model: str, problem: str) -> None:
    """In one line that says what to write."""
    provider = LocalProvider()
    with pytest.raises(ModelNotFoundError, match=problem) as caught:
        await answer(provider, asking(model=model), streamed=False)
    assert caught.value.remedy
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\x03\x04", "is not a GGUF file"),
        (b"", "is not a GGUF file"),
        (b"GGUFnonsense", "not a model that llama.cpp"),
    ],
)
async def test_a_file_that_is_no_model_is_refused(
    tmp_path: Path, content: bytes, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its first bytes, or by llama.cpp."""
    path = tmp_path / "a model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelNotFoundError, match=problem):
        await answer(LocalProvider(), asking(model=str(path)), streamed=False)


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the agent is described, not when it runs."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else found(name)
    )
    with pytest.raises(BuildError, match=r"pip install .*'xllamacpp"):
        AgentBuilder().with_model("local:")


@pytest.mark.parametrize("settings", [{"threads": 0}, {"context": -1}, {"threads": "two"}])
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    """When the agent is described."""
    with pytest.raises(BuildError, match=next(iter(settings))):
        LocalProvider(**settings)


async def test_a_fetch_that_fails_ends_the_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that cannot get its model fails once; nothing is tried again and again."""
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(blocked))
    result = await AgentBuilder().with_model("local:").build().run("Hi.")
    assert isinstance(result.error, ModelError)
    assert "HOOKLINE_CACHE_DIR" in str(result.error)
    assert len(str(result.error).splitlines()) == 1


def test_the_default_model_says_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """One line, to be shown to a person."""
    assert "small demonstration model" in LocalProvider.notice
    assert "\n" not in LocalProvider.notice
    with caplog.at_level(logging.DEBUG):
        LocalProvider(engine=ScriptedEngine())
    assert caplog.records == []
