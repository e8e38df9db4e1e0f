"""A receiver of OTLP over HTTP on the loopback interface, of the official messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_KINDS: dict[str, tuple[Any, Any]] = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


class Receiver:
    """What has arrived."""

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.url = ""

    def receive(self, path: str, body: bytes) -> bytes:
        """Take a request in; gives the answer."""
        kind, answer = _KINDS[path]
        message = kind()
        message.ParseFromString(body)
        (self.traces if path == "/v1/traces" else self.metrics).append(message)
        return answer().SerializeToString()

    @property
    def spans(self) -> list[Any]:
        """All spans, in the order of their begin."""
        found = [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def named(self, name: str) -> Any:
        """The one span of a name."""
        (span,) = [each for each in self.spans if each.name == name]
        return span

    def points(self, name: str) -> list[tuple[Any, dict[str, Any]]]:
        """The points of a metric in what came last, with their attributes."""
        found = []
        for resource in self.metrics[-1].resource_metrics if self.metrics else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        data = getattr(metric, metric.WhichOneof("data"))
                        found += [(point, attributes_of(point)) for point in data.data_points]
        return found

    def text(self) -> str:
        """All that has arrived, as text."""
        return "\n".join(map(str, (*self.traces, *self.metrics)))


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a point."""
    return {each.key: _value(each.value) for each in thing.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver, for as long as it is used."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            answer = receiver.receive(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
