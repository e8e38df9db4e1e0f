"""Programs that end with us: a supervisor starts them, knows what they start, and ends it, also when we are killed.

`supervisor.py` is a program of its own; `supervisor_client.py` is our side of it."""

from hookline.containment.processes.supervisor import is_marked
from hookline.containment.processes.supervisor_client import (
    Program,
    end_with_us,
    new_mark,
    start_program,
)

__all__ = ["Program", "end_with_us", "is_marked", "new_mark", "start_program"]
