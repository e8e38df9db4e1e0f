"""The length and the age of queues as metrics, if OpenTelemetry is installed and an exporter configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation


def observe_queues(measure: Callable[[], Iterable[Any]]) -> None:
    """Measure the queues of a journal whenever metrics are sent, in the thread that sends them."""
    try:
        from opentelemetry.metrics import Observation

        from hookline.capabilities.open_telemetry import conventions
        from hookline.capabilities.open_telemetry.providers import (
            find_providers,
            instrumentation_scope,
        )
    except ImportError:
        return
    providers = find_providers()
    if providers is None or providers.meter is None:
        return

    def observe(field: str) -> Any:
        def callback(_: CallbackOptions) -> Iterator[Observation]:
            for each in measure():
                yield Observation(getattr(each, field), {"hookline.queue.name": each.queue})

        return callback

    meter = providers.meter.get_meter(*instrumentation_scope(), schema_url=conventions.SCHEMA_URL)
    meter.create_observable_gauge(
        "hookline.queue.length", [observe("length")], "{run}", "Runs that wait for a worker."
    )
    meter.create_observable_gauge(
        "hookline.queue.age", [observe("age")], "s", "How long the oldest of them has waited."
    )


def send_rest() -> None:
    """Send what is left: a worker ends its process at once."""
    try:
        from hookline.capabilities.open_telemetry import providers
    except ImportError:
        return
    providers.send_rest(is_last=True)
