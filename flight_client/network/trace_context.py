"""Context of the trace that a thread is in, for the servers that it calls."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def trace_headers() -> Mapping[str, str]:
    """Return the headers of the W3C's recommendation "Trace Context"; none if the thread is in no trace.

    OpenTelemetry is not imported for that: a process that makes traces has imported it.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    flags = int(context.trace_flags)
    headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"}
    if context.trace_state:
        headers["tracestate"] = context.trace_state.to_header()
    return headers
