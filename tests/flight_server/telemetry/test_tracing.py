"""Traces: from the context of a client through all steps of a call to a real collector."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from pyarrow import flight

import flight_client
import lance_core
from support.clients.puts import put
from support.clients.raw_flight import call as raw_call
from support.clients.raw_flight import path_descriptor, scan_json
from support.processes.waiting import wait_until
from support.servers.collector import Collector, collecting
from support.servers.server import RunningServer, start_server

SPAN_ID = 0x00F067AA0BA902B7


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def server(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("traced")
    rows = pa.table({"id": list(range(100_000)), "name": [f"name {i % 7}" for i in range(100_000)]})
    lance_core.write_dataset(rows, folder / "t.lance", max_rows_per_file=50_000)
    lance_core.write_dataset(rows, folder / "old.lance", data_storage_version="0.1")
    server = start_server(
        folder, folder / "log", "--trace-endpoint", collector.url, OTEL_BSP_SCHEDULE_DELAY="50"
    )
    yield server
    server.kill()


def _spans(collector: Collector, trace_id: int, *, roots: int) -> list[Any]:
    """Return the spans of a trace once there are as many calls, and the call of every step."""

    def is_complete() -> bool:
        spans = collector.of_trace(trace_id)
        known = {span.span_id for span in spans} | {SPAN_ID.to_bytes(8)}
        calls = [span for span in spans if span.parent_span_id == SPAN_ID.to_bytes(8)]
        return len(calls) >= roots and all(span.parent_span_id in known for span in spans)

    wait_until(is_complete)
    return collector.of_trace(trace_id)


def _attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def _traced(trace_id: int) -> Any:
    """Return a context in which a client is in a trace."""
    context = SpanContext(trace_id, SPAN_ID, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.use_span(NonRecordingSpan(context))


def test_a_scan_is_one_trace_with_its_client(server: RunningServer, collector: Collector) -> None:
    """The threads of the client that read side by side are in the trace of the caller, too."""
    trace_id = 0x4BF92F3577B34DA6A3CE929D0E0E4736
    with flight_client.connect(server.uri) as client, _traced(trace_id):
        assert client.dataset("t").to_table().num_rows == 100_000
    spans = _spans(collector, trace_id, roots=5)
    by_id = {span.span_id: span for span in spans}
    calls = [span for span in spans if span.parent_span_id == SPAN_ID.to_bytes(8)]
    names = Counter(span.name for span in calls)
    assert names.keys() == {"DoAction", "GetFlightInfo", "DoGet"}
    assert names["DoGet"] == 2, "one for each of two fragments"
    for call in (span for span in calls if span.name == "DoGet"):
        steps = [span for span in spans if span.parent_span_id == call.span_id]
        assert {"plan", "decode", "send"} <= {span.name for span in steps}
        assert all(call.start_time_unix_nano <= span.start_time_unix_nano for span in steps)
        assert all(span.end_time_unix_nano <= call.end_time_unix_nano for span in steps)
        found = _attributes(call)
        assert (found["rpc.system.name"], found["rpc.response.status_code"]) == ("grpc", "OK")
        assert (found["lance_flight.dataset"], found["lance_flight.version"]) == ("t", 1)
        assert found["lance_flight.request_id"]
    planned = next(span for span in calls if span.name == "GetFlightInfo")
    assert [span.name for span in spans if span.parent_span_id == planned.span_id][:1] == ["plan"]
    assert all(span.parent_span_id in by_id for span in spans if span not in calls)
    assert collector.services == {"lance-flight"}


def test_reads_of_the_storage_are_steps_of_decoding(server: RunningServer, collector: Collector) -> None:
    """No kernel reads files of the first format, so their reads are seen."""
    trace_id = 0x0AF7651916CD43DD8448EB211C80319C
    with flight_client.connect(server.uri) as client, _traced(trace_id):
        client.dataset("old").to_table(columns=["name"])

    def parents_of_reads() -> set[str]:
        spans = collector.of_trace(trace_id)
        names = {span.span_id: span.name for span in spans}
        return {names.get(span.parent_span_id, "") for span in spans if span.name == "read"}

    wait_until(lambda: "decode" in parents_of_reads())


def test_failed_calls_and_clients_without_a_trace(server: RunningServer, collector: Collector) -> None:
    """A call begins a trace of its own if the client is in none; the log names the trace."""
    with flight_client.connect(server.uri) as client:
        with pytest.raises(flight_client.DatasetNotFoundError) as caught:
            client.dataset("missing")
        put_client = server.client()
        put(put_client, {"dataset": "new", "mode": "overwrite"}, pa.table({"a": [1]}))
        put_client.close()
    asked = caught.value.request_id

    def found() -> list[Any]:
        return [span for span in collector.all() if _attributes(span).get("lance_flight.request_id") == asked]

    wait_until(lambda: bool(found()))
    (span,) = found()
    assert (span.parent_span_id, span.status.code) == (b"", 2)
    assert _attributes(span)["error.type"] == "DatasetNotFoundError"
    (line,) = (line for line in server.log.splitlines() if f"request_id={asked}" in line)
    assert f" trace_id={span.trace_id.hex()}" in line
    wait_until(lambda: any(span.name == "DoPut" for span in collector.all()))


@pytest.mark.parametrize(
    "header", ["", "00-zz-1-01", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "x" * 4000, "é"]
)
def test_headers_that_are_no_context_change_nothing(header: str, server: RunningServer) -> None:
    """T46: the call gets an answer, and the header is nowhere in the log."""
    before = len(server.log)
    headers = [("traceparent", header.encode("latin-1")), ("tracestate", b"\xff=1")]
    try:
        outcome = raw_call(server.address, "GetFlightInfo", path_descriptor("t"), headers=headers)
    except (TypeError, ValueError):  # grpcio refuses to send it
        pytest.skip("no client can send this header")
    assert outcome.code.name in ("OK", "INTERNAL", "UNAVAILABLE")
    assert "zz" not in server.log[before:]


def test_a_client_that_leaves_ends_its_trace(server: RunningServer, collector: Collector) -> None:
    trace_id = 0x1AF7651916CD43DD8448EB211C80319C
    parent = f"00-{trace_id:032x}-{SPAN_ID:016x}-01".encode()
    with server.client() as client:
        options = flight.FlightCallOptions(headers=[(b"traceparent", parent)])
        reader = client.do_get(flight.Ticket(scan_json("t")), options)
        reader.read_chunk()
        reader.cancel()
    spans = _spans(collector, trace_id, roots=1)
    assert {span.name for span in spans} >= {"DoGet", "plan", "send"}


@pytest.mark.long
def test_the_last_spans_are_sent_at_the_end(tmp_path: Path, collector: Collector) -> None:
    """T34: a server sends its spans every five seconds, and the last ones when it drains."""
    lance_core.write_dataset({"id": [1]}, tmp_path / "t.lance")
    server = start_server(tmp_path, tmp_path / "log", "--trace-endpoint", collector.url)
    trace_id = 0x2AF7651916CD43DD8448EB211C80319C
    with flight_client.connect(server.uri) as client, _traced(trace_id):
        client.dataset("t").count_rows()
    assert server.stop() == 0
    assert {span.name for span in collector.of_trace(trace_id)} >= {"DoAction"}


def test_nothing_is_imported_without_a_collector(tmp_path: Path) -> None:
    script = (
        "import sys; from flight_server.server import FlightServer;"
        "from flight_server.service import Service;"
        "from flight_server.settings import Settings; service = Service(Settings(sys.argv[1], port=0));"
        "import flight_client; server = FlightServer(service);"
        "assert not list(flight_client.connect(server.uri).datasets());"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_the_missing_extra_is_named(tmp_path: Path) -> None:
    script = "import sys; sys.modules['opentelemetry'] = None; from flight_server.cli import app; app()"
    options = ["serve", str(tmp_path), "--port", "0", "--trace-endpoint", "http://127.0.0.1:1"]
    done = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True)
    assert done.returncode == 1
    assert "extra `tracing`" in done.stderr
