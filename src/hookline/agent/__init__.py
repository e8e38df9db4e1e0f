"""The agent, the builder that makes it and the loop that runs it."""

from hookline.agent.agent import Agent
from hookline.agent.builder import AgentBuilder
from hookline.agent.capability import Capability
from hookline.agent.registration import hook, on
from hookline.agent.result import RunResult
from hookline.agent.stream import RunStream
from hookline.definition import Approver, Clock
from hookline.definition.definition import Note
from hookline.inspection import Finding

__all__ = [
    "Agent",
    "AgentBuilder",
    "Approver",
    "Capability",
    "Clock",
    "Finding",
    "Note",
    "RunResult",
    "RunStream",
    "hook",
    "on",
]
