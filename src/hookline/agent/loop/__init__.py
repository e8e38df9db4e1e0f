"""The loop: how a run begins, makes its steps and ends."""
