"""From settings to an agent."""

from hookline.cli.assembly.agent import Extras, opened

__all__ = ["Extras", "opened"]
