"""The report of a back-test."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.playback.findings import Findings
from hookline.playback.page import page_of
from hookline.playback.text import report_lines, visible
from hookline.state import valid_text

FORMAT, VERSION = "hookline.backtest", 1


class BacktestReport(Findings, frozen=True, kw_only=True):
    """What other hooks would have said to recorded runs. `print(report)`, `report.to_html()`, `report.exit_code`."""

    def to_json(self) -> str:
        """Everything, as versioned JSON."""
        head: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "ok": self.ok,
            "exit_code": self.exit_code,
            "counts": self.counts,
        }
        # Half a character in someone's words is replaced.
        plain = valid_text(msgspec.to_builtins(self))
        return msgspec.json.encode({**head, **plain}).decode()

    def to_html(self) -> str:
        """One page that needs nothing else: for a build's artefacts, or a colleague."""
        return page_of(self)

    def __str__(self) -> str:
        return visible("\n".join(report_lines(self)))
