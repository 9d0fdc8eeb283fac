"""Rows that a verb found, on stdout."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from flight_server.cli.rendering import print_rows
from flight_server.cli.values import json_lines, python_values


def print_batches(names: Sequence[str], batches: Iterable[pa.RecordBatch], *, as_json: bool) -> None:
    """Print rows to stdout: as a table, or with `as_json` as one JSON object per row, batch by batch."""
    if as_json:
        for batch in batches:
            print(json_lines(batch), end="")
        return
    rows = [row for batch in batches for row in zip(*map(python_values, batch.columns), strict=True)]
    print_rows(names, rows)
