"""An OpenTelemetry collector on a loopback port, which keeps the spans that servers send."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """Spans by name, each with the attributes of its resource."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._spans: list[Any] = []
        self.services: set[str] = set()

    def add(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            for resource in request.resource_spans:
                found = {each.key: each.value.string_value for each in resource.resource.attributes}
                self.services.add(found["service.name"])
                self._spans += [span for scope in resource.scope_spans for span in scope.spans]

    def of_trace(self, trace_id: int) -> list[Any]:
        """Return the spans of a trace, in the order of their starts."""
        with self._lock:
            found = [span for span in self._spans if span.trace_id == trace_id.to_bytes(16)]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def all(self) -> list[Any]:
        with self._lock:
            return list(self._spans)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector for the time of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.add(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield collector
        server.shutdown()
