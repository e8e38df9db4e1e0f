"""Grammars in llama.cpp's notation: what a model may write."""

from hookline.providers.local.grammar.schema import Grammar, following, literal

__all__ = ["Grammar", "following", "literal"]
