"""Images and files in the results of tools, over the wire of every provider."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from wires.anthropic import AnthropicWire
from wires.google import GoogleWire
from wires.openai import OpenAIWire

from hookline import AgentBuilder, RunStatus
from hookline.drivers import ReActDriver, ToolCallingDriver
from hookline.mcp import McpServer, McpServers
from hookline.providers import Feature
from hookline.state import Attachment, UserMessage
from hookline.testing import ScriptedProvider, WireCall, WireTurn

pytestmark = pytest.mark.usefixtures("no_settings")
PICTURE = Attachment.from_bytes(b"\x89PNG\r\n-a-picture-", "image/png", "a.png")
PAPER = Attachment.from_bytes(b"%PDF-1.4", "application/pdf", "a.pdf")
NOTES = Attachment.from_bytes(b"Buy milk.", "text/plain", "notes.txt")
SOUND = Attachment.from_bytes(b"RIFF....", "audio/wav")
LINKED = Attachment("image/png", url="https://example.com/a.png")
SERVER = Path(__file__).parents[1] / "support" / "sdk_mcp_server.py"


class Gemini3Wire(GoogleWire):
    """A far end with a model that accepts files in results."""

    model = "gemini-3-pro-preview"


def draw(what: str) -> Any:
    """Draw something."""
    made = {"picture": PICTURE, "paper": PAPER, "notes": NOTES, "sound": SOUND, "link": LINKED}
    return ["Here:", made[what]]


async def sent(wire: Any, what: str) -> Any:
    """The body in which a provider is sent the result of the tool."""
    turns = [WireTurn(calls=(WireCall("draw", {"what": what}),)), WireTurn("Nice.")]
    async with wire.provider(turns) as provider:
        driver = ToolCallingDriver(wire.model, provider=provider)
        result = await AgentBuilder().with_driver(driver).with_tools(draw).build().run("Draw.")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "Nice.")
    return wire.requests[1]


@pytest.mark.parametrize(("what", "kind"), [("picture", "image"), ("paper", "document")])
async def test_anthropic_gets_images_and_papers(what: str, kind: str) -> None:
    """As blocks of the result, beside its text."""
    body = await sent(AnthropicWire(), what)
    (block,) = (each for each in body["messages"][-1]["content"] if each["type"] == "tool_result")
    text, file = block["content"]
    assert text == {"type": "text", "text": "Here:"}
    given = PICTURE if what == "picture" else PAPER
    assert (file["type"], file["source"]["data"]) == (kind, given.data)
    assert "is_error" not in block


@pytest.mark.parametrize(("what", "given"), [("picture", PICTURE), ("paper", PAPER)])
async def test_gemini_gets_images_and_papers(what: str, given: Attachment) -> None:
    """From the third generation on, as parts of the response of the function."""
    body = await sent(Gemini3Wire(), what)
    response = body["contents"][-1]["parts"][0]["functionResponse"]
    assert response["response"] == {"output": "Here:"}
    (part,) = response["parts"]
    blob = part["inline_data"]  # this client writes some names in snake case
    assert (blob["data"].replace("-", "+").replace("_", "/"), blob["mime_type"]) == (
        given.data,
        given.media_type,
    )


REFUSED = [
    (OpenAIWire, "picture", "image/png", "openai"),
    (OpenAIWire, "paper", "application/pdf", "openai"),
    (GoogleWire, "picture", "image/png", "google"),
    (AnthropicWire, "sound", "audio/wav", "anthropic"),
    (Gemini3Wire, "sound", "audio/wav", "google"),
]


@pytest.mark.parametrize(("wire", "what", "media_type", "provider"), REFUSED)
async def test_what_is_not_accepted_is_an_error_and_never_base64(
    wire: type[Any], what: str, media_type: str, provider: str
) -> None:
    """The result names tool, media type and provider, and has the text that came with the file."""
    body = str(await sent(wire(), what))
    assert f"tool 'draw' returned {media_type}" in body.replace("\\'", "'")
    assert f"provider '{provider}' does not accept" in body.replace("\\'", "'")
    assert "Here:" in body
    for given in (PICTURE, PAPER, SOUND):
        assert given.data not in body


async def test_a_refused_address_is_said_to_be_one() -> None:
    """Gemini accepts such an image, but not by its address. Anthropic reads it there."""
    body = str(await sent(Gemini3Wire(), "link"))
    assert "returned image/png by its address, and provider 'google'" in body.replace("\\'", "'")
    assert "https://example.com/a.png" in str(await sent(AnthropicWire(), "link"))


@pytest.mark.parametrize("wire", [AnthropicWire, GoogleWire, OpenAIWire])
async def test_a_text_file_is_text_for_everyone(wire: type[Any]) -> None:
    """It needs no feature of a provider."""
    body = str(await sent(wire(), "notes"))
    assert "Buy milk." in body
    assert NOTES.data not in body


@pytest.mark.parametrize("wire", [AnthropicWire, Gemini3Wire, OpenAIWire])
async def test_images_of_an_mcp_server(wire: type[Any]) -> None:
    """They go the same way."""
    far = wire()
    turns = [WireTurn(calls=(WireCall("mcp__sdk__picture", {}),)), WireTurn("Nice.")]
    server = McpServer.stdio(sys.executable, [SERVER], name="sdk")
    async with far.provider(turns) as provider, McpServers(server) as mcp:
        driver = ToolCallingDriver(far.model, provider=provider)
        agent = AgentBuilder().with_driver(driver).with_capability(mcp)
        agent.with_approver(lambda _: True)
        await agent.build().run("Look.")
    body = str(far.requests[1]).replace("\\'", "'")
    if wire is OpenAIWire:
        assert "tool 'mcp__sdk__picture' returned image/png, and provider 'openai'" in body
    else:
        assert "image/png" in body
        assert "does not accept" not in body


async def test_a_provider_that_knows_nothing_of_files_is_sent_none() -> None:
    """The driver makes the result an error: such a provider would drop the file without a word."""
    features = frozenset(Feature) - {Feature.RESULT_FILES}
    turns = [WireTurn(calls=(WireCall("draw", {"what": "picture"}),)), WireTurn("Nice.")]
    provider = ScriptedProvider(turns, features=features)
    driver = ToolCallingDriver("m", provider=provider)
    await AgentBuilder().with_driver(driver).with_tools(draw).build().run("Draw.")
    message = provider.requests[1].messages[-1]
    assert "provider 'scripted' does not accept" in message.text
    assert not message.attachments  # type: ignore[union-attr]


@pytest.mark.parametrize("features", [frozenset({Feature.IMAGES}), frozenset[Feature]()])
async def test_a_model_without_tool_calls_gets_them_with_the_message(
    features: frozenset[Feature],
) -> None:
    """The text protocol writes results into messages of the user, and images go with them if it has images."""
    turns = [
        WireTurn('{"calls": [{"tool": "draw", "args": {"what": "picture"}}]}'),
        WireTurn('{"answer": "Nice."}'),
    ]
    provider = ScriptedProvider(turns, features=features)
    driver = ReActDriver("m", provider=provider)
    await AgentBuilder().with_driver(driver).with_tools(draw).build().run("Draw.")
    message = provider.requests[1].messages[-1]
    assert isinstance(message, UserMessage)
    assert message.attachments == ((PICTURE,) if features else ())
    assert ("does not accept" in message.text) is (not features)
