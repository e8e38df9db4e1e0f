"""The tools, resources and prompts of a server as tools of an agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from hookline.errors import NotJSONError, ToolDefinitionError, ToolError, UsageError
from hookline.mcp.connection import Connection, all_pages
from hookline.mcp.server import distinct_name, tool_name, tool_names
from hookline.state import Attachment, ToolResult, ToolSpec, freeze_dict
from hookline.state.frozen import valid_text
from hookline.tools import AnyTool, Effect, Tool, ToolContext, tool
from hookline.tools.json_schema import SchemaArguments

_log = logging.getLogger("hookline.mcp")


def offered_tools(connection: Connection) -> Iterator[tuple[str, AnyTool]]:
    """The tools of a server, each with the server's own name for it."""
    names = tool_names(connection.server.name, connection.tools)
    for offered in connection.tools.values():
        tool = _make_tool(connection, offered, names[offered.name])
        if tool is not None:
            yield offered.name, tool


def _make_tool(connection: Connection, offered: types.Tool, name: str) -> AnyTool | None:
    server = connection.server

    async def use(arguments: dict[str, Any], context: ToolContext | None = None) -> ToolResult:
        result = await connection.call(offered.name, arguments, context)
        return tool_result(result, server.hide)

    try:
        # Providers require properties, even if there are none.
        schema = freeze_dict({"properties": {}, **offered.input_schema}, "the schema of a tool")
        arguments = SchemaArguments(name, schema)
    except (ToolDefinitionError, NotJSONError) as error:
        _log.warning("%s: its tool '%s' is ignored: %s", server.name, offered.name, error)
        return None
    return Tool(
        function=use,
        spec=ToolSpec(name, offered.description or offered.title or "", schema),
        arguments=arguments,
        origin=f"tool '{offered.name}' of MCP server '{server.name}'",
        context_name="context",
        effect=_effect(offered.annotations),
        timeout=server.timeout,
        served_by=server.target.words,
    )


def _effect(hints: types.ToolAnnotations | None) -> Effect:
    """The effect according to the hints of the server; without hints, a second run matters."""
    if hints is not None and hints.read_only_hint:
        return Effect.PURE
    if hints is not None and hints.idempotent_hint:
        return Effect.IDEMPOTENT
    return Effect.ONCE


# --- resources and prompts ---------------------------------------------------------------------


def readers(connection: Connection, taken: Collection[str]) -> Iterator[AnyTool]:
    """The tools that list and read resources and prompts, if the server may show and has them."""
    server, offers = connection.server, connection.capabilities
    functions: list[Callable[..., Any]] = []
    if server.resources and offers.resources is not None:
        functions += _resource_readers(connection)
    if server.prompts and offers.prompts is not None:
        functions += _prompt_readers(connection)
    for function in functions:
        name = tool_name(server.name, function.__name__)
        yield tool(
            function,
            name=distinct_name(server.name, f"/{function.__name__}") if name in taken else name,
            effect="pure",
            timeout=server.timeout,
        )


def _resource_readers(connection: Connection) -> list[Callable[..., Any]]:
    async def list_resources(context: ToolContext) -> list[dict[str, str]]:
        """List the resources that this MCP server can show: their URIs, and templates of URIs."""
        resources: list[types.Resource] = await connection.request(
            lambda client: _list_all(client.list_resources, "resources"), "its resources", context
        )
        templates: list[types.ResourceTemplate] = await connection.request(
            lambda client: _list_all(client.list_resource_templates, "resource_templates"),
            "its resources",
            context,
        )
        return [
            *[_describe(each, uri=str(each.uri)) for each in resources],
            *[_describe(each, uri_template=each.uri_template) for each in templates],
        ]

    async def read_resource(uri: str, context: ToolContext) -> ToolResult:
        """Read a resource of this MCP server.

        Args:
            uri: Its URI as it was listed, or made of a URI template.
        """
        return resource_result(
            await connection.request(
                lambda client: client.read_resource(uri), f"resource '{uri}'", context
            )
        )

    return [list_resources, read_resource]


def _prompt_readers(connection: Connection) -> list[Callable[..., Any]]:
    async def list_prompts(context: ToolContext) -> list[dict[str, Any]]:
        """List the prompts that this MCP server has written, and the arguments they take."""
        prompts: list[types.Prompt] = await connection.request(
            lambda client: _list_all(client.list_prompts, "prompts"), "its prompts", context
        )
        return [
            {
                **_describe(each),
                "arguments": [_describe(argument) for argument in each.arguments or ()],
            }
            for each in prompts
        ]

    async def get_prompt(
        name: str, context: ToolContext, arguments: dict[str, str] | None = None
    ) -> ToolResult:
        """Read a prompt of this MCP server.

        Args:
            name: Its name as it was listed.
            arguments: What to fill it in with.
        """
        prompt = await connection.request(
            lambda client: client.get_prompt(name, arguments or {}), f"prompt '{name}'", context
        )
        read = [(message.role, *render_content([message.content])) for message in prompt.messages]
        text = "\n\n".join(f"{role}: {text}" for role, text, _ in read)
        return ToolResult(text, attachments=tuple(each for _, _, files in read for each in files))

    return [list_prompts, get_prompt]


async def _list_all(page: Callable[..., Awaitable[Any]], field: str) -> list[Any]:
    """All pages of a list; none, if the server does not know this kind of list."""
    try:
        return await all_pages(page, field)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return []


def _describe(thing: Any, **more: str) -> dict[str, str]:
    described = {"name": thing.name, **more, "description": thing.description}
    return {key: value for key, value in described.items() if value}


# --- answers of a server -----------------------------------------------------------------------


STRUCTURED = "structured"


def tool_result(
    result: types.CallToolResult, hide: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """The result of a call; raises what the server calls an error, without the keys that `hide` hides.

    The model reads the text, and gets images and files as attachments. What is structured is in the result's metadata.
    """
    text, attachments = render_content(result.content)
    if result.is_error:
        raise ToolError(hide(text) or "the server reports a failure without a reason.")
    metadata: dict[str, Any] = {}
    if result.structured_content is not None:
        metadata[STRUCTURED] = valid_text(result.structured_content)
    value = text if result.content else metadata.get(STRUCTURED, "")
    return ToolResult(value, metadata=metadata, attachments=attachments)


def resource_result(result: types.ReadResourceResult) -> ToolResult:
    """The contents of a resource."""
    blocks = [types.EmbeddedResource(resource=each) for each in result.contents]
    text, attachments = render_content(blocks)
    return ToolResult(text, attachments=attachments)


def render_content(blocks: Iterable[types.ContentBlock]) -> tuple[str, tuple[Attachment, ...]]:
    """Content as text, and images and files as attachments."""
    parts = [_render_block(block) for block in blocks]
    texts = (valid_text(part) for part in parts if isinstance(part, str))
    return "\n".join(texts), tuple(part for part in parts if isinstance(part, Attachment))


def _render_block(block: types.ContentBlock) -> str | Attachment:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ResourceLink):
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.uri} ({block.name}){about}]"
    if isinstance(block, types.EmbeddedResource):
        held = block.resource
        if isinstance(held, types.TextResourceContents):
            return f"[resource {held.uri}]\n{held.text}"
        kind = held.mime_type or "application/octet-stream"
        return _render_attachment(kind, held.blob, str(held.uri))
    return _render_attachment(block.mime_type, block.data, "")


def _render_attachment(media_type: str, data: str, name: str) -> str | Attachment:
    try:
        return Attachment(valid_text(media_type), data, name=valid_text(name))
    except UsageError:  # a server may call anything a file
        of = f" of {name}" if name else ""
        return f"[{media_type}{of}: what the server sent is empty, or not base64]"
