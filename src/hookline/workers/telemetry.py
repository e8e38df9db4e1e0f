"""Queues as metrics, and the trace of whoever submits a run in the worker that begins it, with OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


def get_traceparent() -> str:
    """The span in which this is called, for another process; empty if there is none."""
    if "opentelemetry.trace" not in sys.modules:
        return ""  # nobody has made a span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


@contextmanager
def continue_trace(traceparent: str) -> Iterator[None]:
    """Make spans below that of another process. Nothing, if it had none or OpenTelemetry is not installed here."""
    token = None
    if traceparent:
        try:
            from opentelemetry import context
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            pass
        else:
            found = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
            token = context.attach(found)
    try:
        yield
    finally:
        if token is not None:
            context.detach(token)
