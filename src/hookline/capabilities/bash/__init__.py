"""Commands: a shell, programs without one, and commands in the background."""

from hookline.capabilities.bash.capability import Bash

__all__ = ["Bash"]
