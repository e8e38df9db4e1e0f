"""The tool calls of a step: admitted, run and settled."""
