"""Limits, the error policy, and the ledger of what a run has used. Pure functions."""

from hookline.flow.error_policy import (
    ErrorAction,
    ErrorClass,
    ErrorDecision,
    ErrorPolicy,
    classify,
    wait_asked_for,
)
from hookline.flow.limits import STOP_REASONS, Ledger, Limits

__all__ = [
    "STOP_REASONS",
    "ErrorAction",
    "ErrorClass",
    "ErrorDecision",
    "ErrorPolicy",
    "Ledger",
    "Limits",
    "classify",
    "wait_asked_for",
]
