"""Other people's words on a screen or a page: what would steer a terminal is shown as a sign."""

from __future__ import annotations

_SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_SIGNS |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}


def visible(text: str) -> str:
    """Text in which control characters are signs, and half a character is a question mark."""
    return text.encode(errors="replace").decode().translate(_SIGNS)
