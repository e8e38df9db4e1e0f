"""Programs that end with us: a keeper starts them, knows what they start, and ends it, also when we are killed.

`keeper.py` is a program of its own; `kept.py` is our side of it."""

from hookline.containment.processes.keeper import is_marked
from hookline.containment.processes.kept import Program, end_with_us, new_mark, start_program

__all__ = ["Program", "end_with_us", "is_marked", "new_mark", "start_program"]
