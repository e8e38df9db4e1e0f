"""The one place that starts processes: each is watched, and ends with all that it has started, also when we are killed.

`AsyncProcess` runs a program in the event loop, `start_program` starts one that ends with us, and `run_briefly` waits
for one that answers at once. `supervisor.py` is a program of its own, which starts the programs for us."""

from hookline.containment.processes.async_process import AsyncProcess
from hookline.containment.processes.child import OwnChild, Standard, run_briefly
from hookline.containment.processes.supervisor_client import StartedProcess, start_program

__all__ = [
    "AsyncProcess",
    "OwnChild",
    "Standard",
    "StartedProcess",
    "run_briefly",
    "start_program",
]
