"""Approval: rules for tool calls, and the modes that change what happens to the rest."""

from hookline.capabilities.approval.capability import Approval
from hookline.capabilities.approval.modes import ApprovalMode

__all__ = ["Approval", "ApprovalMode"]
