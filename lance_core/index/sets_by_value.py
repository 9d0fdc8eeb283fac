"""Sets of row keys by value, from rows in the order of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lance_core.index.row_sets import Container, RowSet
from lance_core.index.sorting import Chunk, SortedRows
from lance_core.index.value_order import ValueOrder


def sets_by_value(
    rows: SortedRows, schema: pa.Schema, container: Container, null_value: object = None
) -> Iterator[pa.RecordBatch]:
    """Yield values in order, and the set of the rows of each.

    Args:
        rows: All rows.
        schema: The columns of the result: values, and serialized sets.
        container: Container of the sets.
        null_value: Value of the rows with a null. It comes first; without such rows it is left out.
    """
    null_rows = RowSet()
    for keys in rows.null_rows:
        null_rows.add(keys)
    if null_rows:
        columns = [pa.array([null_value], schema.field(0).type), _single(null_rows, container)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    for values, sets in _sets(rows.order, rows.chunks, container):
        yield pa.RecordBatch.from_arrays([rows.order.decode(values), sets], schema=schema)


def _sets(
    order: ValueOrder, chunks: Iterable[Chunk], container: Container
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the sort keys of values, and their sets.

    A value may have rows in several chunks. So the rows of the last value of a chunk wait for the next chunk.
    """
    waiting_key: pa.Array | None = None
    waiting = RowSet()
    for keys, rows in chunks:
        starts = order.starts(keys)
        if waiting_key is not None:
            if order.last(waiting_key) == order.last(keys.slice(0, 1)):
                waiting.add(rows[: starts[1]] if len(starts) > 1 else rows)
                starts = starts[1:]
            if not len(starts):
                continue
            yield waiting_key, _single(waiting, container)
        first, last = int(starts[0]), int(starts[-1])
        if first < last:
            ends = starts[1:] - first
            yield keys.take(pa.array(starts[:-1])), container.write_all(ends, rows[first:last])
        waiting_key, waiting = keys.slice(last, 1), RowSet()
        waiting.add(rows[last:])
    if waiting_key is not None:
        yield waiting_key, _single(waiting, container)


def _single(rows: RowSet, container: Container) -> pa.Array:
    return pa.array([rows.to_bytes(container)], pa.binary())
