"""A client that has uploaded rows, and then dies or exits without the message that ends the upload."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pyarrow as pa
from pyarrow import flight

from support.clients.puts import descriptor_of
from support.processes.forked import forking_context

EXITED = 7
"""Exit code of a client that had uploaded all rows; another one means that it failed before."""


def upload_and_end(uri: str, command: dict[str, Any], table: pa.Table, num_batches: int, end: str) -> int:
    """Run the client in a process of its own; return its exit code. It ends when the server has all rows."""
    process = forking_context().Process(target=_run, args=(uri, command, table, num_batches, end))
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the upload takes longer than a minute"
    return process.exitcode


def wait_for_reports(reports: flight.FlightMetadataReader, rows: int) -> None:
    """Wait until the server reports that it took all rows."""
    while json.loads(reports.read().to_pybytes())["progress"]["rows"] < rows:
        pass


def _run(uri: str, command: dict[str, Any], table: pa.Table, num_batches: int, end: str) -> None:
    writer, reports = flight.connect(uri).do_put(descriptor_of(command), table.schema)
    writer.write_table(table, max_chunksize=table.num_rows // num_batches)
    wait_for_reports(reports, table.num_rows)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(EXITED)
