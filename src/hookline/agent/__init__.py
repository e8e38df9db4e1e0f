"""The muscle: the loop, the builder, and the agent they make."""

from hookline.agent.adapters import (
    ContinuationCriterionAdapter,
    StateProcessorAdapter,
    ToolMiddlewareAdapter,
)
from hookline.agent.agent import Agent
from hookline.agent.builder.builder import AgentBuilder
from hookline.agent.builder.capability import Capability
from hookline.agent.builder.hooks import hook, on
from hookline.agent.result import RunResult
from hookline.agent.stream import RunStream
from hookline.definition import Approver, Clock, Note
from hookline.inspection import Finding

__all__ = [
    "Agent",
    "AgentBuilder",
    "Approver",
    "Capability",
    "Clock",
    "ContinuationCriterionAdapter",
    "Finding",
    "Note",
    "RunResult",
    "RunStream",
    "StateProcessorAdapter",
    "ToolMiddlewareAdapter",
    "hook",
    "on",
]
