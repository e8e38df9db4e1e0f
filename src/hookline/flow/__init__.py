"""Limits, the error policy, and the ledger of what a run has used. Pure functions."""

from hookline.flow.error_policy import ErrorAction, ErrorClass, ErrorDecision, ErrorPolicy, classify
from hookline.flow.limits import STOP_REASONS, Ledger, RunLimits

__all__ = [
    "STOP_REASONS",
    "ErrorAction",
    "ErrorClass",
    "ErrorDecision",
    "ErrorPolicy",
    "Ledger",
    "RunLimits",
    "classify",
]
