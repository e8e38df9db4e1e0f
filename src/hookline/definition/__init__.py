"""What an agent is made of, once it is built: frozen, and shared by all its runs."""

from hookline.definition.definition import Approver, Clock, Definition, Doubt, InDoubt
from hookline.definition.guards import for_child

__all__ = [
    "Approver",
    "Clock",
    "Definition",
    "Doubt",
    "InDoubt",
    "for_child",
]
