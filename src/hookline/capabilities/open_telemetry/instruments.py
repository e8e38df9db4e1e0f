"""The OpenTelemetry metrics of runs: histograms and counters."""

from __future__ import annotations

import re

from opentelemetry.metrics import MeterProvider, NoOpMeterProvider

from hookline.capabilities.open_telemetry import conventions as names
from hookline.capabilities.open_telemetry.providers import instrumentation_scope
from hookline.state import ToolResult, Usage

Attributes = dict[str, str | bool | int | float]

_MADE_UP = re.compile(r"agent-[0-9a-f]{12}")
"""An id that an agent has because nobody gave it one: another in each process, so nothing can be added up by it."""


class Instruments:
    """The histograms of the conventions, and counters of ours."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = (provider or NoOpMeterProvider()).get_meter(
            *instrumentation_scope(), schema_url=names.SCHEMA_URL
        )
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDS,
        )
        self._duration = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS,
        )
        self._runs = meter.create_counter(
            "hookline.runs", "{run}", "Runs that ended or paused, by status."
        )
        self._blocked = meter.create_counter(
            "hookline.blocked_calls", "{call}", "Tool calls that were blocked, denied or withheld."
        )

    def count_tokens(self, usage: Usage, attributes: Attributes) -> None:
        """A model was asked."""
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count:
                self._tokens.record(count, {**attributes, names.TOKEN_TYPE: kind})

    def measure(self, seconds: float, attributes: Attributes) -> None:
        """An operation has ended."""
        self._duration.record(max(seconds, 0.0), attributes)

    def count_run(self, agent: str, status: str, stop_reason: str) -> None:
        """A run has ended, or waits."""
        attributes = {"hookline.run.status": status, "hookline.run.stop_reason": stop_reason}
        self._runs.add(1, {**attributes, **agent_name(agent)})

    def count_blocked(self, result: ToolResult) -> None:
        """A call was blocked."""
        attributes = {
            names.TOOL_NAME: result.name,
            "hookline.tool.status": result.status.value,
            "hookline.decided_by": result.decided_by,
        }
        self._blocked.add(1, attributes)


def agent_name(agent_id: str) -> dict[str, str]:
    """The name of an agent as an attribute; none if it was made up."""
    return {} if _MADE_UP.fullmatch(agent_id) else {names.AGENT_NAME: agent_id}
