"""Snap-ons: tools and hooks that belong together. `builder.with_capability(Files(root))` installs one, by name, once.

None imports another, and each is loaded when its name is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookline.capabilities.approval import Approval, ApprovalMode
    from hookline.capabilities.redaction import Redaction
    from hookline.capabilities.skills import Skills
    from hookline.capabilities.subagents import Subagent, Subagents
    from hookline.capabilities.taint_policy import TaintPolicy
    from hookline.capabilities.tool_allow_list import ToolAllowList

_HOME: dict[str, str] = {
    "Approval": "approval",
    "ApprovalMode": "approval",
    "Redaction": "redaction",
    "Skills": "skills",
    "Subagent": "subagents",
    "Subagents": "subagents",
    "TaintPolicy": "taint_policy",
    "ToolAllowList": "tool_allow_list",
}
"""Where each name lives in this room."""

__all__ = [
    "Approval",
    "ApprovalMode",
    "Redaction",
    "Skills",
    "Subagent",
    "Subagents",
    "TaintPolicy",
    "ToolAllowList",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
