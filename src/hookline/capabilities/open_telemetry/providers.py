"""Where spans and measurements go: providers that are given, those of the process, or those of the environment."""

from __future__ import annotations

import atexit
import os
import threading
import time
from importlib import metadata
from typing import NamedTuple

from opentelemetry import metrics, trace

from hookline.errors import BuildError

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_LAST_SECONDS = 3.0
"""How long a process that ends waits for a receiver that does not answer. The default of the SDK is 30 s."""
_making = threading.Lock()
_made: list[Providers] = []


class Providers(NamedTuple):
    """A provider of tracers, and one of meters. None: that kind is not sent."""

    tracer: trace.TracerProvider | None
    meter: metrics.MeterProvider | None


def instrumentation_scope() -> tuple[str, str | None]:
    """Our name, and the version of the installed package: `hookline` itself is above this layer."""
    try:
        return "hookline", metadata.version("hookline")
    except metadata.PackageNotFoundError:
        return "hookline", None


def find_providers(
    tracer: trace.TracerProvider | None = None, meter: metrics.MeterProvider | None = None
) -> Providers | None:
    """The given ones, else those that the application has set, else those of the environment; None without any."""
    if tracer is None and meter is None:
        tracer, meter = trace.get_tracer_provider(), metrics.get_meter_provider()
        # What is not set is a proxy, whose class has no public name for meters.
        tracer = None if isinstance(tracer, trace.ProxyTracerProvider) else tracer
        meter = None if type(meter).__name__ == "_ProxyMeterProvider" else meter
    if tracer is None and meter is None:
        return _from_environment()
    return Providers(tracer, meter)


def _from_environment() -> Providers | None:
    """Made once in a process: each has a thread that sends."""
    with _making:
        if not _made and (made := _make_providers()) is not None:
            _made.append(made)
        return _made[0] if _made else None


def _make_providers() -> Providers | None:
    traces, measurements = _is_wanted("TRACES"), _is_wanted("METRICS")
    if not traces and not measurements:
        return None
    # Only now: these take a third of a second to import.
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

    tracer, meter = None, None
    if traces:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        tracer = TracerProvider(shutdown_on_exit=False)
        tracer.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if measurements:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        meter = MeterProvider([reader], shutdown_on_exit=False)
    providers = Providers(tracer, meter)
    atexit.register(send_rest)
    return providers


def _is_wanted(signal: str) -> bool:
    """Whether the environment says where a kind of signal goes."""
    environment = os.environ
    exporter = environment.get(f"OTEL_{signal}_EXPORTER", "otlp")
    endpoint = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environment.get(
        _ENDPOINT
    )
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    if not endpoint:
        return False
    protocol = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environment.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    if exporter != "otlp" or protocol != "http/protobuf":
        raise BuildError(
            f"open_telemetry sends {signal.lower()} as otlp over http/protobuf, not as {exporter} over {protocol}.",
            remedy=f"Set OTEL_{signal}_EXPORTER=otlp and OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf,"
            " or give OpenTelemetry() a provider of your own.",
        )
    return True


def send_rest(*, is_last: bool = False) -> None:
    """Send what is left and end the providers of the environment.

    `is_last`: also those that the application has set, because the process ends without `atexit`.
    """
    with _making:
        made, _made[:] = [*_made], []
    ended = [each for providers in made for each in providers]
    if is_last:
        ended += [trace.get_tracer_provider(), metrics.get_meter_provider()]
    # The API has no `shutdown`; providers of the SDK do.
    endings = [getattr(each, "shutdown", None) for each in ended]
    threads = [threading.Thread(target=each, daemon=True) for each in endings if each is not None]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _LAST_SECONDS
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
