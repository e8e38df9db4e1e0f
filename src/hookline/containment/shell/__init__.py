"""The shell policy: what a command would run, and whether it may."""
