"""DoGet: the record batches of a ticket."""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cache
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight, ipc

from flight_server.handlers.call import Call, named
from flight_server.handlers.rpc import rpc
from flight_server.handlers.thread_state import ThreadState
from flight_server.limits.wire import WireChoice
from flight_server.reading.one_reader import one_reader
from flight_server.reading.reads import BatchRun, ScanStream
from flight_server.requests.tickets import Ticket
from flight_server.service import Reader, Service
from flight_server.telemetry.meters import num_bytes

Part: TypeAlias = pa.RecordBatch | pa.RecordBatchReader | flight.RecordBatchStream

_SMALL_BYTES = 64 << 10
"""Bytes of an answer that a connection takes at once, whether its client reads or not: so much is the window
of HTTP/2 at first.
"""


@rpc
def do_get(service: Service, call: Call, ticket: flight.Ticket) -> flight.FlightDataStream:
    service = service.needing("read")
    asked = service.reads.redeem(ticket.ticket)
    call.describe(lambda: named(asked if isinstance(asked, Ticket) else asked.dataset))
    reader = call.reader()
    with call.step("plan"), reader.waiting():
        stream = service.reads.stream(asked, reader.look)
    parts: Generator[Part | None, None, None] = _parts(service, call, stream, reader)
    next(parts)  # from here on the stream has its slot, and gives it back when it is closed
    options = _write_options(stream.compression)
    if call.has_trace:
        parts = _traced(call, parts)
    elif stream.is_brief:
        # The schema waits for the rows, so that the client wakes up once.
        first = next(parts, None)
        if first is None:
            return flight.RecordBatchStream(stream.schema.empty_table(), options=options)
        if isinstance(first, pa.RecordBatch) and num_bytes(first) <= _SMALL_BYTES:
            second = next(parts, None)
            if second is None:  # Arrow sends a whole answer without asking Python for more
                rows = pa.Table.from_batches([first], stream.schema)
                return flight.RecordBatchStream(rows, options=options)
            parts = _before(second, parts)
        parts = _before(first, parts)
    return flight.GeneratorStream(stream.schema, parts, options=options)


@cache
def _write_options(compression: str) -> ipc.IpcWriteOptions:
    return ipc.IpcWriteOptions(compression=None if compression in ("none", "auto") else compression)


def _parts(
    service: Service, call: Call, stream: ScanStream, reader: Reader
) -> Generator[Part | None, None, None]:
    """Yield None when the stream is admitted, and then the parts to send.

    An error before None fails the call.
    """
    admit = service.admission.lookup if stream.is_lookup else service.admission.stream
    if stream.is_lookup:
        service.processors.note_call()
    with call, admit(call.caller), closing(stream.runs), closing(reader):
        yield None
        runs = _sent_in_turns(service, call, stream, reader)
        if call.is_verbose:
            runs = _counted(call, runs)
        if stream.has_dictionaries:
            with ThreadState():
                yield from one_reader(stream.schema, runs)
            return
        if stream.compression == "auto":
            with ThreadState():
                yield from _adapted(call, runs)
            return
        for _ in range(2):  # most takes have one run only, for which no state is kept
            if (run := next(runs, None)) is None:
                return
            yield run.sendable()
            del run  # its memory must be free when the next one is asked for
        with ThreadState():
            yield from map(BatchRun.sendable, runs)


def _before(part: Part, others: Generator[Part, None, None]) -> Generator[Part, None, None]:
    """Yield a part, and then the others."""
    with closing(others):
        yield part
        del part  # its memory must be free when the next one is asked for
        yield from others


def _adapted(call: Call, runs: Iterator[BatchRun]) -> Iterator[Part]:
    """Yield the parts of a stream, compressed if its client takes them slowly."""
    wire = WireChoice()
    call.describe(lambda: {"compression": wire.compression})
    while (run := next(runs, None)) is not None:
        part = run.sendable()
        if wire.compression != "none":
            rows = pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part
            part = flight.RecordBatchStream(rows, options=_write_options(wire.compression))
        began = time.perf_counter()
        yield part
        is_changed = wire.sent(run.rows, num_bytes(run.rows), time.perf_counter() - began)
        if is_changed:
            speed = round(wire.bytes_per_second / 1e6, 1)
            call.tell("compression", {"compression": wire.compression, "mb_per_second": speed})
        del run, part  # their memory must be free when the next one is asked for


def _traced(call: Call, parts: Generator[Part | None, None, None]) -> Generator[Part, None, None]:
    """Yield the same parts, each within a step of the trace that ends when the part is sent."""
    with closing(parts):
        while (part := next(parts, None)) is not None:
            with call.step("send"):
                yield part
            del part  # its memory must be free when the next one is asked for


def _sent_in_turns(service: Service, call: Call, stream: ScanStream, reader: Reader) -> Iterator[BatchRun]:
    """Yield the runs of a stream, each when the caller may get more bytes and the stream has its turn.

    The turn comes last: a stream that waits for its rate or for its rows must not keep a turn from others.
    """
    caller, rate, turns = call.caller, service.send_rate, service.turns.stream()
    try:
        while True:
            rate.wait(caller)
            with reader.waiting():
                run = next(stream.runs, None)
            if run is None:
                return
            service.admission.check_stream()
            size = num_bytes(run.rows)
            call.sent(run.rows.num_rows, size)
            rate.spend(caller, size)
            turns.begin(size)
            yield run
            del run  # its memory must be free when the next one is asked for
            turns.end()
    finally:
        turns.close()


def _counted(call: Call, runs: Iterator[BatchRun]) -> Iterator[BatchRun]:
    """Yield the same runs, and add their rows and bytes to the call's line in the log."""
    counts = {"rows": 0, "bytes": 0}
    call.describe(lambda: counts)
    for run in runs:
        counts["rows"] += run.rows.num_rows
        counts["bytes"] += run.rows.nbytes
        yield run
        del run  # its memory must be free when the next one is asked for
