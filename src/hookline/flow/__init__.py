"""Go on, stop or retry: pure rules, and the ledger they are applied to."""

from hookline.flow.limits import STOP_REASONS, Ledger, Limits
from hookline.flow.policy import (
    ErrorAction,
    ErrorClass,
    ErrorDecision,
    ErrorPolicy,
    classify,
    wait_asked_for,
)

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
