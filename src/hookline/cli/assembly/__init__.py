"""From settings to an agent."""
