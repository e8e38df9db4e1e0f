"""What an agent is made of, once it is built: frozen, and shared by all its runs."""

from hookline.blueprint.clock import SYSTEM_CLOCK, Clock
from hookline.blueprint.definition import Approver, CancelSource, Definition, Note, Plans
from hookline.blueprint.doubt import Doubt, InDoubt, OnInDoubt
from hookline.blueprint.guards import SOURCE, default_guards, for_child

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
