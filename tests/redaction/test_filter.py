from __future__ import annotations

import io
import logging

from hookline.redaction import RedactingFilter, Redactor

TOKEN = "ghp_abcdefghij0123456789abcdefghij012345"


def test_logs_say_no_secrets() -> None:
    """Messages, arguments, tracebacks and added fields are redacted, in every handler that has the filter."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(message)s %(password)s %(more)s"))
    handler.addFilter(RedactingFilter(Redactor(values=["a known value"])))
    log = logging.getLogger("tests.redaction")
    log.propagate = False
    log.addHandler(handler)
    try:
        try:
            raise ValueError(f"bad {TOKEN}")
        except ValueError:
            log.exception(
                "using %s and %s", TOKEN, "a known value", extra={"password": "x1", "more": 7}
            )
        log.error("two %s %s", TOKEN, extra={"password": None, "more": [TOKEN]})
    finally:
        log.removeHandler(handler)
    said = written.getvalue()
    assert TOKEN not in said
    assert "a known value" not in said
    assert "using [redacted:github-token] and [redacted:known-value] [redacted:secret] 7" in said
    assert "ValueError: bad [redacted:github-token]" in said
