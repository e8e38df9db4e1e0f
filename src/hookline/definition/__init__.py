"""What an agent is made of, once it is built: frozen, and shared by all its runs."""

from hookline.definition.definition import (
    Approver,
    CancelSource,
    Clock,
    Definition,
    Doubt,
    InDoubt,
    OnInDoubt,
)
from hookline.definition.guards import for_child

__all__ = [
    "Approver",
    "CancelSource",
    "Clock",
    "Definition",
    "Doubt",
    "InDoubt",
    "OnInDoubt",
    "for_child",
]
