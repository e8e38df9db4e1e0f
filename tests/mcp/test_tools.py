from __future__ import annotations

import mcp_types as types
import pytest

from hookline.errors import ToolError
from hookline.mcp.tools import resource_result, tool_result
from hookline.state import Attachment


def test_text_is_what_the_model_reads() -> None:
    """Several pieces are lines; what is structured is kept beside them."""
    result = tool_result(
        types.CallToolResult(
            content=[types.TextContent(text="one"), types.TextContent(text="two")],
            structured_content={"count": 2},
        )
    )
    assert result.text == "one\ntwo"
    assert result.metadata == {"structured": {"count": 2}}


def test_without_text_the_structured_value_is_read() -> None:
    """As JSON, like the value of any other tool."""
    result = tool_result(types.CallToolResult(content=[], structured_content={"count": 2}))
    assert result.result == {"count": 2}
    assert result.text == '{"count":2}'


def test_what_is_no_text_is_an_attachment() -> None:
    """An image is an attachment of the result, and nothing of it is in the text."""
    image = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
    result = tool_result(types.CallToolResult(content=[image]))
    assert result.text == ""
    assert result.attachments == (Attachment("image/png", "aGVsbG8="),)


def test_invalid_data_is_named_as_invalid() -> None:
    """A server that sends nonsense does not make the call fail."""
    image = types.ImageContent(data="%%", mime_type="image/png")
    assert "not base64" in tool_result(types.CallToolResult(content=[image])).text


def test_an_error_is_an_error() -> None:
    """With the server's own words."""
    failed = types.CallToolResult(content=[types.TextContent(text="no such file")], is_error=True)
    with pytest.raises(ToolError, match=r"^no such file$"):
        tool_result(failed)
    with pytest.raises(ToolError, match="without a reason"):
        tool_result(types.CallToolResult(content=[], is_error=True))


def test_half_a_character_does_no_harm() -> None:
    """Text that UTF-8 cannot hold can still be kept."""
    half = types.CallToolResult(content=[types.TextContent(text="a\ud800")])
    assert tool_result(half).text == "a?"


def test_a_resource_is_read_with_its_address() -> None:
    """Text as text, everything else as an attachment."""
    contents: list[types.TextResourceContents | types.BlobResourceContents] = [
        types.TextResourceContents(uri="file:///a", text="hello"),
        types.BlobResourceContents(uri="file:///b", blob="aGVsbG8="),
    ]
    result = resource_result(types.ReadResourceResult(contents=contents))
    assert result.text.splitlines() == ["[resource file:///a]", "hello"]
    (blob,) = result.attachments
    assert (blob.media_type, blob.name) == ("application/octet-stream", "file:///b")
