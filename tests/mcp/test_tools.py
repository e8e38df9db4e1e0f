from __future__ import annotations

import mcp_types as types
import pytest

from hookline.errors import ToolError
from hookline.mcp.tools import resource_result, tool_result


def test_text_is_what_the_model_reads() -> None:
    """Several pieces are lines; what is structured is kept beside them."""
    result = tool_result(
        types.CallToolResult(
            content=[types.TextContent(text="one"), types.TextContent(text="two")],
            structured_content={"count": 2},
        )
    )
    assert result.text() == "one\ntwo"
    assert result.metadata == {"structured": {"count": 2}}


def test_without_text_the_structured_value_is_read() -> None:
    """As JSON, like the value of any other tool."""
    result = tool_result(types.CallToolResult(content=[], structured_content={"count": 2}))
    assert result.result == {"count": 2}
    assert result.text() == '{"count":2}'


def test_content_that_is_no_text_is_named_and_kept() -> None:
    """An image is named with its size, and its bytes are an attachment of the result."""
    image = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
    result = tool_result(types.CallToolResult(content=[image]))
    assert result.text() == "[image/png, 5 bytes: not shown here]"
    assert result.metadata["attachments"] == [
        {"media_type": "image/png", "data": "aGVsbG8=", "name": ""}
    ]


def test_invalid_data_is_named_as_invalid() -> None:
    """A server that sends nonsense does not make the call fail."""
    image = types.ImageContent(data="%%", mime_type="image/png")
    assert "not valid base64" in tool_result(types.CallToolResult(content=[image])).text()


def test_an_error_is_an_error() -> None:
    """With the server's own words."""
    failed = types.CallToolResult(content=[types.TextContent(text="no such file")], is_error=True)
    with pytest.raises(ToolError, match=r"^no such file$"):
        tool_result(failed)
    with pytest.raises(ToolError, match="not why"):
        tool_result(types.CallToolResult(content=[], is_error=True))


def test_half_a_character_does_no_harm() -> None:
    """Text that UTF-8 cannot hold can still be kept."""
    half = types.CallToolResult(content=[types.TextContent(text="a\ud800")])
    assert tool_result(half).text() == "a?"


def test_a_resource_is_read_with_its_address() -> None:
    """Text as text, everything else as an attachment."""
    contents: list[types.TextResourceContents | types.BlobResourceContents] = [
        types.TextResourceContents(uri="file:///a", text="hello"),
        types.BlobResourceContents(uri="file:///b", blob="aGVsbG8="),
    ]
    result = resource_result(types.ReadResourceResult(contents=contents))
    assert result.text().splitlines() == [
        "[resource file:///a]",
        "hello",
        "[application/octet-stream of file:///b, 5 bytes: not shown here]",
    ]
    assert result.metadata["attachments"][0]["name"] == "file:///b"
