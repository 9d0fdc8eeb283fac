"""The source rows of a merge or a join. They are read several times and at random."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.concatenation import concatenated
from lance_core.encodings.values import concat_arrays, seen_as, take_values, with_other_leaves
from lance_core.errors import UnsupportedFeatureError
from lance_core.schema import is_view
from lance_core.write.batch_sources import batches_of, slices
from lance_core.write.schema_conformer import plain

Rows = npt.NDArray[np.int64]
_SMALL_BATCH_BYTES = 1 << 20


class SourceRows:
    """Source rows. An Arrow table of the caller stays in memory; a stream is written to a temporary file."""

    def __init__(self, data: Any, schema: pa.Schema | None = None) -> None:
        """Read `data`; arguments and errors are those of `batches_of`."""
        given, batches = batches_of(data, schema)
        self.schema = pa.schema([_plain_field(field) for field in given], given.metadata)
        is_held = isinstance(data, pa.Table | pa.RecordBatch) and self.schema.equals(given)
        self.is_spooled = not is_held
        """Whether the rows are in a temporary file instead of memory."""
        batches = _gathered(_without_views(batch, self.schema) for batch in batches)
        self._batches = list(_spooled(self.schema, batches) if self.is_spooled else batches)
        counts = [batch.num_rows for batch in self._batches]
        self._starts: Rows = np.cumsum([0, *counts], dtype=np.int64)
        self._bytes = sum(batch.nbytes for batch in self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._batches.clear()  # the file is unlinked: the last batch that maps it frees its space

    @property
    def num_rows(self) -> int:
        return int(self._starts[-1])

    @property
    def bytes_per_row(self) -> float:
        """Average size of a row in memory, in bytes."""
        return float(self._bytes / max(self.num_rows, 1))

    def batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield all rows in order: batches with the number of their first row."""
        for start, batch in zip(self._starts.tolist(), self._batches, strict=False):
            for part in slices(batch):
                yield start, part
                start += part.num_rows

    def take(self, rows: Rows, columns: Sequence[str]) -> list[pa.Array]:
        """Return the values of `columns` at row numbers. The numbers may be in any order."""
        places = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(places, kind="stable")
        cuts = np.flatnonzero(np.diff(places[order])) + 1
        groups = [group for group in np.split(order, cuts) if len(group)]
        back = None if len(groups) <= 1 else pa.array(np.argsort(order, kind="stable"))
        taken = []
        for name in columns:
            index = self.schema.get_field_index(name)
            parts = []
            for group in groups:
                place = int(places[group[0]])
                indices = pa.array(rows[group] - self._starts[place])
                parts.append(take_values(self._batches[place].column(index), indices))
            taken.append(_joined(parts, self.schema.field(index), back))
        return taken


def _plain_field(field: pa.Field) -> pa.Field:
    """Return the field without view types, since Arrow cannot take rows of them."""
    return field.with_type(with_other_leaves(field.type, _without_view) or field.type)


def _without_view(arrow_type: pa.DataType) -> pa.DataType | None:
    if pa.types.is_dictionary(arrow_type):
        values = _without_view(arrow_type.value_type)
        return values and pa.dictionary(arrow_type.index_type, values, arrow_type.ordered)
    if is_view(arrow_type):
        return pa.string() if pa.types.is_string_view(arrow_type) else pa.binary()
    return None


def _without_views(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type.equals(field.type) else seen_as(field.type, plain(column, field.name))
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _joined(parts: list[pa.Array], field: pa.Field, order: pa.Array | None) -> pa.Array:
    if order is None:
        return parts[0] if parts else pa.nulls(0, field.type)
    try:
        return take_values(concatenated(parts), order)
    except pa.ArrowCapacityError as error:
        raise UnsupportedFeatureError(
            "more values than the indices of a dictionary can count", column=field.name, found=error
        ) from None


def _spooled(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the batches to a temporary file, and yield them from the mapped file."""
    handle, path = tempfile.mkstemp(prefix="lance-merge-")
    os.close(handle)
    try:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with pa.memory_map(path) as mapped, pa.ipc.open_stream(mapped) as reader:
            yield from reader
    finally:
        os.unlink(path)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at least 1 MiB where possible, and at most the size of `slices`."""
    held: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in batches:
        held.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= _SMALL_BATCH_BYTES:
            yield from _slices_of(held)
            held, num_bytes = [], 0
    yield from _slices_of(held)


def _slices_of(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(held) > 1:
        with suppress(pa.ArrowCapacityError):  # dictionaries with too many values to join
            columns = [
                concat_arrays(arrays) for arrays in zip(*(batch.columns for batch in held), strict=True)
            ]
            held = [pa.RecordBatch.from_arrays(columns, schema=held[0].schema)]
    for batch in held:
        yield from slices(batch)
