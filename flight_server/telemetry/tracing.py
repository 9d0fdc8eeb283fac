"""Traces of calls with OpenTelemetry, from the context of the client on.

OpenTelemetry is imported when the settings name a collector, and not otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import lance_core
from flight_server.settings import Settings
from lance_core.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

CONTEXT_HEADERS = ("traceparent", "tracestate")
"""Headers of a call with the context of the client; see the recommendation "Trace Context" of the W3C."""

_MOST_STEPS = 256
"""Steps of one call that become spans. A scan of a large dataset has very many."""
_NOTHING = nullcontext()


class CallTrace:
    """Span of one call, which makes spans of its steps. Thread-safe."""

    def __init__(self, tracer: Tracer, span: Span, context: Context) -> None:
        self._tracer = tracer
        self._span = span
        self._context = context
        self._num_steps = 0

    @property
    def trace_id(self) -> str:
        """Id of the trace, as the pages of traces show it."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def step(self, name: str) -> AbstractContextManager[object]:
        """Return the context of a step: a span within the step that this thread is in, or in the call."""
        from opentelemetry.trace import get_current_span

        self._num_steps += 1
        if self._num_steps > _MOST_STEPS:
            return _NOTHING
        is_inside = get_current_span().get_span_context().is_valid
        return self._tracer.start_as_current_span(name, None if is_inside else self._context)

    def end(self, code: str, error: str, facts: Mapping[str, object]) -> None:
        """End the span with its gRPC status, the name of the error if there is one, and facts of the call."""
        from opentelemetry.trace import StatusCode

        span = self._span
        span.set_attribute("rpc.response.status_code", code)
        for name, value in facts.items():
            if isinstance(value, str | int | float):
                span.set_attribute(f"lance_flight.{name}", value)
        if self._num_steps > _MOST_STEPS:
            span.set_attribute("lance_flight.steps_left_out", self._num_steps - _MOST_STEPS)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, error)
        span.end()


class Tracing:
    """Traces of one process, sent to a collector in batches."""

    def __init__(self, endpoint: str) -> None:
        """Send traces to the URL of a collector that speaks OTLP over HTTP.

        Raises:
            UnsupportedFeatureError: OpenTelemetry is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise UnsupportedFeatureError(
                "--trace-endpoint needs OpenTelemetry: install lance-flight with the extra `tracing`"
            ) from None
        ours = Resource({"service.name": "lance-flight", "service.version": lance_core.__version__})
        # The variables of OpenTelemetry come before our names.
        self._provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        self._tracer = self._provider.get_tracer("flight_server", lance_core.__version__)
        self._propagator = TraceContextTextMapPropagator()

    @staticmethod
    def of(settings: Settings) -> Tracing | None:
        """Return the tracing of the settings; None if they name no collector."""
        return None if settings.trace_endpoint is None else Tracing(settings.trace_endpoint)

    def begin(self, rpc: str, client: Mapping[str, str]) -> CallTrace:
        """Begin the span of a call. `client` has the `CONTEXT_HEADERS` that the client sent."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._propagator.extract(client)
        attributes = {
            "rpc.system.name": "grpc",
            "rpc.method": f"arrow.flight.protocol.FlightService/{rpc}",
        }
        span = self._tracer.start_span(rpc, parent, SpanKind.SERVER, attributes)
        return CallTrace(self._tracer, span, set_span_in_context(span, parent))

    def close(self) -> None:
        """Send the spans that are left."""
        self._provider.shutdown()
