"""Secrets out of texts, values, exceptions and logs. It works alone: `redact(text)`, `Redactor(values=[...])`."""

from hookline.redaction.names import is_secret_name
from hookline.redaction.redactor import (
    Patterns,
    RedactingFilter,
    Redactor,
    Values,
    has_mark,
    hides_only_words,
    redact,
    redact_value,
)
from hookline.redaction.secret_encodings import spellings
from hookline.redaction.tokens import token_spans

__all__ = [
    "Patterns",
    "RedactingFilter",
    "Redactor",
    "Values",
    "has_mark",
    "hides_only_words",
    "is_secret_name",
    "redact",
    "redact_value",
    "spellings",
    "token_spans",
]
