"""From settings to an agent."""

from hookline.cli.assembly.agent import Extras, opened, without_model

__all__ = ["Extras", "opened", "without_model"]
