"""What a server answers, as what a tool gives: text for the model, the rest beside it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any

import mcp_types as types

from hookline.errors import ToolError
from hookline.state import ToolResult, valid_text

ATTACHMENTS = "attachments"
STRUCTURED = "structured"


def tool_result(
    result: types.CallToolResult, hide: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """The result of a call; raises what the server calls an error, without the keys that `hide` hides.

    The model reads the text. What is structured is in the result's metadata, and so are images and files, which a
    tool message cannot carry: the text says that they are there.
    """
    text, attachments = rendered(result.content)
    if result.is_error:
        raise ToolError(hide(text) or "the server says that it failed, and not why.")
    metadata: dict[str, Any] = {ATTACHMENTS: attachments} if attachments else {}
    if result.structured_content is not None:
        metadata[STRUCTURED] = valid_text(result.structured_content)
    value = text if result.content else metadata.get(STRUCTURED, "")
    return ToolResult(value, metadata=metadata)


def resource_result(result: types.ReadResourceResult) -> ToolResult:
    """The contents of a resource."""
    blocks = [types.EmbeddedResource(resource=each) for each in result.contents]
    text, attachments = rendered(blocks)
    return ToolResult(text, metadata={ATTACHMENTS: attachments} if attachments else {})


def rendered(blocks: Iterable[types.ContentBlock]) -> tuple[str, list[dict[str, str]]]:
    """Content as text, and what of it is no text as attachments: media type, base64 data, name."""
    texts: list[str] = []
    attachments: list[dict[str, str]] = []
    for block in blocks:
        text, attachment = _rendered(block)
        texts.append(valid_text(text))
        if attachment is not None:
            attachments.append(attachment)
    return "\n".join(texts), attachments


def _rendered(block: types.ContentBlock) -> tuple[str, dict[str, str] | None]:
    if isinstance(block, types.TextContent):
        return block.text, None
    if isinstance(block, types.ResourceLink):
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.uri} ({block.name}){about}]", None
    if isinstance(block, types.EmbeddedResource):
        held = block.resource
        if isinstance(held, types.TextResourceContents):
            return f"[resource {held.uri}]\n{held.text}", None
        kind = held.mime_type or "application/octet-stream"
        return _attached(kind, held.blob, str(held.uri))
    return _attached(block.mime_type, block.data, "")


def _attached(media_type: str, data: str, name: str) -> tuple[str, dict[str, str]]:
    try:
        size = f"{len(base64.b64decode(data, validate=True)):,} bytes"
    except binascii.Error:
        size = "not valid base64"
    of = f" of {name}" if name else ""
    attachment = {"media_type": media_type, "data": data, "name": name}
    return f"[{media_type}{of}, {size}: not shown here]", attachment
