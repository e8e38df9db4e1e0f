"""What can be known of an agent before it runs: the plan, and what cannot be right about it."""

from hookline.inspection.explain import explain
from hookline.inspection.lint import Finding, lint

__all__ = ["Finding", "explain", "lint"]
