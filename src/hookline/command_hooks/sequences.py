"""What hooks may have the terminal sent: titles, notifications and the bell, and nothing that moves or paints."""

from __future__ import annotations

import re

_MOST = 4096
"""Characters of all of it."""
_TITLES = "0|1|2"
_NOTIFICATIONS = "9|99|777"
_TEXT = r"[^\x00-\x1f\x7f-\x9f]*"
_ALLOWED = re.compile(rf"(?:\x07|\x1b\](?:{_TITLES}|{_NOTIFICATIONS});{_TEXT}(?:\x07|\x1b\\))+")


def is_harmless(sequence: str) -> bool:
    """Whether a sequence does no more than that, all of it."""
    return len(sequence) <= _MOST and _ALLOWED.fullmatch(sequence) is not None
