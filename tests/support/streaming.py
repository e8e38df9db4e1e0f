"""Reading streams, for the tests of streams."""

from __future__ import annotations

from typing import Any

from hookline import (
    tool,
)
from hookline.journal import (
    Record,
    TextDelta,
)


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def read(stream: Any) -> list[Any]:
    """All of it."""
    return [item async for item in stream]


def deltas(records: list[Record]) -> list[str]:
    """The pieces of text among them."""
    return [record.text for record in records if isinstance(record, TextDelta)]
