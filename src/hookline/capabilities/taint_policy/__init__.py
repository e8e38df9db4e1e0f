"""Calls whose arguments come from what tools brought in, and not from the user, ask first."""

from hookline.capabilities.taint_policy.capability import TaintPolicy

__all__ = ["TaintPolicy"]
