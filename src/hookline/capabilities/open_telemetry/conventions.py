"""The names of the conventions for generative AI, in their last version before they moved to a repository of their own.

They are written here because the package `opentelemetry-semantic-conventions` marks them as deprecated since that move.
A test compares them with it.
"""

from __future__ import annotations

VERSION = "1.41.1"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

# Content: only if it is asked for.
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

PROVIDERS = {"google": "gcp.gemini"}
"""Providers of ours that the conventions know by another name."""
OTHER = "_OTHER"
OPTIONS = (
    "frequency_penalty",
    "max_tokens",
    "presence_penalty",
    "seed",
    "temperature",
    "top_k",
    "top_p",
)
"""Options of a request that are attributes: `gen_ai.request.` and the name."""

TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_BOUNDS = tuple(4**power for power in range(14))
DURATION_BOUNDS = tuple(0.01 * 2**power for power in range(14))
