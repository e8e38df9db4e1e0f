"""What an agent is made of, once it is built: frozen, and shared by all its runs."""

from hookline.definition.definition import (
    SYSTEM_CLOCK,
    Approver,
    CancelSource,
    Clock,
    Definition,
    Doubt,
    InDoubt,
    Note,
    OnInDoubt,
    Plans,
)
from hookline.definition.guards import SOURCE, default_guards, for_child

__all__ = [
    "SOURCE",
    "SYSTEM_CLOCK",
    "Approver",
    "CancelSource",
    "Clock",
    "Definition",
    "Doubt",
    "InDoubt",
    "Note",
    "OnInDoubt",
    "Plans",
    "default_guards",
    "for_child",
]
