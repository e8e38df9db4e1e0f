"""What `--json` prints: one JSON object per line, in UTF-8 whatever the terminal's encoding.

`run`, `resume` and `show` print the records of a run, whose fields are in `journal/record.py`. The rows of the other
commands come from `journal/run_info.py` (`runs`), `hooks.py`, `tools.py` and `config.py` in this folder, and
`playback/report.py` (`backtest`).
"""

from __future__ import annotations

import json
import sys
from typing import TextIO

import msgspec

from hookline.journal import Record, encode


def print_json(*values: object, out: TextIO | None = None) -> None:
    """Print a line for each value: a record, another struct, plain values, or text that is JSON already."""
    stream = sys.stdout if out is None else out
    stream.flush()
    for value in values:
        stream.buffer.write(_as_bytes(value) + b"\n")
    stream.buffer.flush()


def _as_bytes(value: object) -> bytes:
    if isinstance(value, Record):
        return encode(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair becomes its escape, which JSON has too.
    return text.encode(errors="backslashreplace")
