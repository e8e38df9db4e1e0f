"""Secrets out of logs."""

from __future__ import annotations

import logging
import traceback

from hookline.redaction.redactor import Redactor

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class RedactingFilter(logging.Filter):
    """Takes secrets out of log records: `handler.addFilter(RedactingFilter())`.

    Add it to handlers: a filter of a logger does not see what loggers below it say.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, without secrets in its message, its traceback and what was added to it."""
        redact = self._redactor
        try:
            said = record.getMessage()
        except Exception:  # arguments that do not fit: logging says so, with all of them
            said = f"{record.msg!r} with {record.args!r}"
        record.msg, record.args = redact.text(said), ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_info = None
        if record.exc_text:
            record.exc_text = redact.text(record.exc_text)
        if record.stack_info:
            record.stack_info = redact.text(record.stack_info)
        for name, value in list(vars(record).items()):
            if name not in _OWN:
                setattr(record, name, redact.value({name: value})[name])
        return True
