"""Older messages give way to a summary when a conversation outgrows its budget."""

from hookline.capabilities.summarization.capability import Summarization

__all__ = ["Summarization"]
