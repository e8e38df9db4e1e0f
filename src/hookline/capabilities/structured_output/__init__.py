"""A typed result instead of text."""

from hookline.capabilities.structured_output.capability import StructuredOutput

__all__ = ["StructuredOutput"]
