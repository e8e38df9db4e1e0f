"""Capabilities: tools and hooks that belong together. `builder.with_capability(Files(root))` installs one.

None imports another, and each is loaded when its name is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookline import lazy

if TYPE_CHECKING:
    from hookline.capabilities.approval import Approval, ApprovalMode
    from hookline.capabilities.bash import Bash
    from hookline.capabilities.cancellation import Cancellation
    from hookline.capabilities.files import Files
    from hookline.capabilities.hooks import Hooks
    from hookline.capabilities.limits import ErrorHandling, Limits
    from hookline.capabilities.metadata import Metadata
    from hookline.capabilities.open_telemetry import OpenTelemetry
    from hookline.capabilities.redaction import Redaction
    from hookline.capabilities.run_log import JsonLines, RunLog
    from hookline.capabilities.self_critique import Critique, Draft, SelfCritique
    from hookline.capabilities.skills import Skills
    from hookline.capabilities.structured_output import StructuredOutput
    from hookline.capabilities.subagents import Subagent, Subagents
    from hookline.capabilities.summarization import Summarization
    from hookline.capabilities.taint_policy import TaintPolicy
    from hookline.capabilities.task_planning import Task, TaskPlanning, TaskStatus
    from hookline.capabilities.tool_allow_list import ToolAllowList
    from hookline.capabilities.tool_registry import ToolRegistry

_HOME = {
    "approval": "Approval ApprovalMode",
    "bash": "Bash",
    "cancellation": "Cancellation",
    "files": "Files",
    "hooks": "Hooks",
    "limits": "ErrorHandling Limits",
    "metadata": "Metadata",
    "open_telemetry": "OpenTelemetry",
    "redaction": "Redaction",
    "run_log": "JsonLines RunLog",
    "self_critique": "Critique Draft SelfCritique",
    "skills": "Skills",
    "structured_output": "StructuredOutput",
    "subagents": "Subagent Subagents",
    "summarization": "Summarization",
    "taint_policy": "TaintPolicy",
    "task_planning": "Task TaskPlanning TaskStatus",
    "tool_allow_list": "ToolAllowList",
    "tool_registry": "ToolRegistry",
}
"""The names of each module."""

__all__ = [
    "Approval",
    "ApprovalMode",
    "Bash",
    "Cancellation",
    "Critique",
    "Draft",
    "ErrorHandling",
    "Files",
    "Hooks",
    "JsonLines",
    "Limits",
    "Metadata",
    "OpenTelemetry",
    "Redaction",
    "RunLog",
    "SelfCritique",
    "Skills",
    "StructuredOutput",
    "Subagent",
    "Subagents",
    "Summarization",
    "TaintPolicy",
    "Task",
    "TaskPlanning",
    "TaskStatus",
    "ToolAllowList",
    "ToolRegistry",
]

__getattr__ = lazy.names_from(__name__, _HOME)
