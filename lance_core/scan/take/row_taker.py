"""Single rows by offset, row id or row address, in the order of the keys.

Keys become row addresses first. The rows of each fragment are then read column by column, neighbouring rows
together, and brought into the order of the keys. A key that is given twice gives its row twice. Deleted rows,
and ids that no live row has, are left out, as in the reference.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.concatenation import concatenated
from lance_core.encodings.values import take_values
from lance_core.errors import InvalidInputError
from lance_core.kernels import PlainPages, take_rows
from lance_core.pool import map_ahead, run_all
from lance_core.process.counters import TAKEN_ROWS, note, note_rows, step
from lance_core.process.readers import check_fits_reader
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ComputedColumn, DataColumn, Projection, descriptor_column
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.scan.read.blobs import described_bytes
from lance_core.scan.read.columns import Column, StoredColumn, has_dictionaries, take_together
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.read.page_trace import Trace
from lance_core.scan.read.row_columns import RowColumns
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.take.address_finder import AddressFinder
from lance_core.scan.take.keys import (
    Chosen,
    Keys,
    are_ascending,
    fragments_of,
    grouped,
    positions,
    rows_of,
)
from lance_core.scan.take.open_fragments import OpenFragments
from lance_core.schema.arrow_values import array_of
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

# A stream of batches begins with this many rows, and each batch has at most this many times the rows of the
# batch before, until the size of the rows is known.
_FIRST_ROWS = 16
_MOST_GROWTH = 8
# Bytes of rows that are read at a time for a stream: a few batches.
_READ_BYTES = 8 << 20
_DEFAULT = ScanOptions()
# Below this number of values, worker threads cost more than they save: they wait for the interpreter's lock.
_FEW_VALUES = 10_000


PlainParts = list[tuple[PlainPages, npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""Per file: the pages of a column, rows of the file, and the positions of these rows among all."""


class RowTaker:
    """Taker of rows of one version of a table, projected to some columns."""

    def __init__(
        self, snapshot: Snapshot, projection: Projection, files: DataFiles, trace: Trace | None = None
    ) -> None:
        """Prepare to take the columns of a projection. `trace` records the pages that are read."""
        self._projection = projection
        self._opener = FragmentOpener(snapshot, projection, files, trace)
        self._fragments = snapshot.manifest.fragment_by_id
        self._open = OpenFragments(snapshot, files)
        self.addresses = AddressFinder(snapshot, self._open, RowColumns(snapshot, files))
        """Finds the addresses of rows."""
        self._blobs = [
            column
            for column in projection.columns
            if isinstance(column, DataColumn) and column.described is not None
        ]
        """Columns of which the values of blobs are taken."""
        if self._blobs:
            described = tuple(map(descriptor_column, self._blobs))
            schema = pa.schema([column.output for column in described])
            self._descriptors = RowTaker(snapshot, Projection(described, schema), files)
        self._last = 1, 0
        """Number of rows and bytes of the batch that `batches` read last."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the taken rows."""
        return self._projection.schema

    def by_offset(self, offsets: Keys, fragments: Sequence[Fragment] | None = None) -> pa.RecordBatch:
        """Return the rows at `offsets`; see `AddressFinder.at_offsets`. Raises LanceError if a read fails."""
        return self.of_live(self.addresses.at_offsets(offsets, fragments))

    def by_row_id(self, row_ids: Keys) -> pa.RecordBatch:
        """Return the rows of `row_ids`; see `AddressFinder.of_row_ids`. Raises LanceError if a read fails."""
        return self.of_live(self.addresses.of_row_ids(row_ids))

    def by_address(self, addresses: Keys) -> pa.RecordBatch:
        """Return the rows at `addresses`; see `AddressFinder.only_live`; errors are those of a scan."""
        return self.of_live(self.addresses.only_live(addresses))

    def of_live(self, addresses: Keys) -> pa.RecordBatch:
        """Return the rows at live addresses, which may be in any order; errors are those of a scan."""
        TAKEN_ROWS.add(amount=len(addresses))
        note("rows_taken", len(addresses))
        return self._read(addresses)

    def of_live_rows(
        self, scans: Sequence[FragmentScan], most_bytes: int | None = None
    ) -> pa.RecordBatch | None:
        """Return live rows of fragments in the order of a plan; None if they may have more than `most_bytes`.

        The size is that of `estimated_bytes`. Raises LanceError if something cannot be read.
        """
        addresses = self.addresses.of_live_rows(scans)
        if most_bytes is not None and self.estimated_bytes(addresses) > most_bytes:
            return None
        for fragment_id, start, end in scans:
            note_rows(fragment_id, 1, end - start)
        return self._read(addresses)

    def estimated_bytes(self, addresses: Keys) -> float:
        """Return about how many bytes the rows at live addresses have, by the mean of their fragments."""
        groups = grouped(fragments_of(addresses))
        fragments = [self._open.get(self._fragments[fragment_id]) for fragment_id, _ in groups]
        sizes = map_ahead(lambda part: part.bytes_per_row(self._opener), fragments, self._opener.is_remote)
        return sum(len(addresses[chosen]) * size for (_, chosen), size in zip(groups, sizes, strict=True))

    def batches(self, addresses: Keys, aimed_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows at live addresses in batches of about `aimed_bytes`.

        The size of rows is estimated from the batch before, also from a batch of an earlier call, and that of
        the first rows from metadata. Values of
        blobs may differ too much for that: their sizes are read first.

        Raises:
            LanceError: something cannot be read.
        """
        start = 0
        while start < len(addresses):
            rows = self._num_next(addresses[start:], aimed_bytes)
            rows = self._fitting(addresses[start : start + rows], aimed_bytes)
            with step("decode"):
                batch = self.of_live(addresses[start : start + rows])
            self._last = batch.num_rows, batch.get_total_buffer_size()
            start += rows
            yield batch

    def _num_next(self, addresses: Keys, aimed_bytes: int) -> int:
        """Return how many of the rows at addresses the next batch is to have, by the size of the last batch.

        The first batch has few rows, and one row if the values of a column are computed: only that tells
        their size.
        """
        known_rows, known_bytes = self._last
        if known_bytes:
            most = max(_FIRST_ROWS, _MOST_GROWTH * known_rows)
            return max(1, min(most, aimed_bytes * known_rows // known_bytes))
        first = addresses[:_FIRST_ROWS]
        num_bytes = self.estimated_bytes(first) / len(first)
        check_fits_reader(num_bytes)
        if any(isinstance(column, ComputedColumn) for column in self._projection.columns):
            return 1
        return max(1, min(_FIRST_ROWS, int(aimed_bytes / max(num_bytes, 1))))

    def plain_values(self, addresses: Keys) -> PlainParts | None:
        """Return the places of the values of the first column at live addresses, for kernels that use them in
        the files.

        Returns None if the values have to be taken. Raises LanceError if a file cannot be opened.
        """
        parts: PlainParts = []
        for fragment_id, chosen in grouped(fragments_of(addresses)):
            column = self._open.get(self._fragments[fragment_id]).columns(self._opener)[0]
            pages = column.plain_pages() if isinstance(column, StoredColumn) else None
            if pages is None:
                return None
            parts.append((pages, rows_of(addresses[chosen]), positions(chosen)))
        return parts

    def _fitting(self, addresses: Keys, num_bytes: int) -> int:
        """Return a number of rows whose values of blobs have at most `num_bytes` together, at least 1."""
        num_rows = len(addresses)
        if not self._blobs or num_rows < 2:
            return num_rows
        arrays = self._descriptors.of_live(addresses).columns
        fields = [column.described for column in self._blobs if column.described is not None]
        while num_rows > 1 and sum(map(described_bytes, fields, arrays)) > num_bytes:
            num_rows //= 2
            arrays = [array.slice(0, num_rows) for array in arrays]
        return num_rows

    def batch_runs(
        self,
        addresses: Keys,
        budget: MemoryBudget,
        options: ScanOptions = _DEFAULT,
        *,
        read_bytes: int = _READ_BYTES,
    ) -> Generator[BatchRun, None, None]:
        """Yield the rows at live addresses as batches of the sizes that a scan with `options` gives.

        Rows are read about `read_bytes` at a time, and belong to `budget` until the next batch is asked for.

        Raises:
            LanceError: something cannot be read.
        """
        cutter = BatchCutter(self.schema, options)
        for batch in self.batches(addresses, read_bytes):
            with budget.require(batch.get_total_buffer_size()):
                yield from cutter.cut_rows(batch)

    @contextmanager
    def held_batch(self, addresses: Keys, budget: MemoryBudget, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows at live addresses as one batch, which belongs to `budget` while the block runs.

        Raises:
            InvalidInputError: the rows take more than `max_bytes`.
            LanceError: something cannot be read.
        """
        parts: list[pa.RecordBatch] = []
        with budget.require(0) as reservation:
            for part in self.batches(addresses, _READ_BYTES):
                parts.append(part)
                held = reservation.num_bytes + part.get_total_buffer_size()
                reservation.resize(held)
                if held > max_bytes:
                    raise InvalidInputError(
                        "the rows of one batch of keys are too large, send fewer keys",
                        expected=f"at most {max_bytes} bytes",
                        found=f"{held} for {sum(each.num_rows for each in parts)} of {len(addresses)} rows",
                    )
            if len(parts) == 1:
                yield parts[0]
            elif len(self.schema):
                yield join_batches(parts, self.schema)
            else:
                yield self.of_live(addresses)

    @property
    def has_dictionaries(self) -> bool:
        """Whether the schema has a dictionary type, at any depth."""
        return has_dictionaries(self.schema)

    def _read(self, addresses: Keys) -> pa.RecordBatch:
        """Return the rows at live addresses, which do not count as taken."""
        if not self._projection.columns:
            rows = pa.StructArray.from_buffers(pa.struct([]), len(addresses), [None])
            return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(self.schema.metadata)
        groups = grouped(fragments_of(addresses))
        fragments = [self._open.get(self._fragments[fragment_id]) for fragment_id, _ in groups]
        columns = list(map_ahead(lambda part: part.columns(self._opener), fragments, self._opener.is_remote))
        rows = rows_of(addresses)
        parts = [(rows[chosen], chosen) for _, chosen in groups]
        arrays = self._taken_at_once(columns, parts, len(rows))
        if isinstance(arrays, pa.RecordBatch):
            return arrays
        missing = [number for number, array in enumerate(arrays) if array is None]
        if missing:
            opened = {fragment_id: some for (fragment_id, _), some in zip(groups, columns, strict=True)}
            for number, array in zip(missing, self._taken_alone(addresses, opened, missing), strict=True):
                arrays[number] = array
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _taken_at_once(
        self,
        columns: Sequence[Sequence[Column]],
        parts: Sequence[tuple[npt.NDArray[np.int64], Chosen]],
        num_rows: int,
    ) -> pa.RecordBatch | list[pa.Array | None]:
        """Return the columns that one kernel call takes from all fragments; None for every other column.

        If the kernel takes all columns, and they are shown as they are stored, the result is one batch.

        Args:
            columns: The columns of each fragment.
            parts: The physical rows of each fragment, and their positions in the result.
            num_rows: Rows of the result.
        """
        arrays: list[pa.Array | None] = [None] * len(self.schema)
        pages = [
            [column.pages_at(rows) if isinstance(column, StoredColumn) else None for column in some]
            for some, (rows, _) in zip(columns, parts, strict=True)
        ]
        numbers = [number for number, some in enumerate(zip(*pages, strict=True)) if None not in some]
        if not numbers:
            return arrays
        wanted = [
            (
                [page for number in numbers if (page := some[number]) is not None],
                rows.data,
                None if isinstance(chosen, slice) and len(parts) == 1 else positions(chosen).data,
            )
            for some, (rows, chosen) in zip(pages, parts, strict=True)
        ]
        taken = take_rows(wanted, len(numbers), num_rows)
        is_taken = taken.is_there
        if self._is_shown_as_stored and len(numbers) == len(arrays) and all(is_taken):
            return pa.RecordBatch._import_from_c(taken.address, self.schema)
        stored = {
            number: column
            for number, is_there in zip(numbers, is_taken, strict=True)
            if is_there and isinstance(column := columns[0][number], StoredColumn)
        }
        schema = pa.schema([(str(number), column.stored_type) for number, column in stored.items()])
        batch = pa.RecordBatch._import_from_c(taken.address, schema)
        for (number, column), array in zip(stored.items(), batch.columns, strict=True):
            arrays[number] = array if column.is_shown_as_stored else column.present([array])[0]
        return arrays

    @cached_property
    def _is_shown_as_stored(self) -> bool:
        """Whether the columns of the result have the types of the data files."""
        return all(
            isinstance(column, DataColumn) and column.is_shown_as_stored
            for column in self._projection.columns
        )

    def _taken_alone(
        self, addresses: Keys, opened: Mapping[int, Sequence[Column]], numbers: Sequence[int]
    ) -> list[pa.Array]:
        """Return the columns with these numbers at addresses, each taken by its own `take`."""
        order = None
        if not are_ascending(addresses):
            addresses, inverse = np.unique(addresses, return_inverse=True)
            order = array_of(inverse)
        takes = [
            (
                [opened[fragment_id][number] for number in numbers],
                rows_of(addresses[chosen]),
            )
            for fragment_id, chosen in grouped(fragments_of(addresses))
        ]
        is_remote = self._opener.is_remote
        step = len(numbers)
        try:
            if is_remote or len(addresses) * step >= _FEW_VALUES:
                calls = [partial(column.take, rows) for columns, rows in takes for column in columns]
                taken = run_all(calls, is_remote)
            else:
                taken = [arrays for columns, rows in takes for arrays in take_together(columns, rows)]
            return [
                _joined(
                    [array for arrays in taken[index::step] for array in arrays],
                    self.schema.field(number).type,
                    order,
                )
                for index, number in enumerate(numbers)
            ]
        except pa.ArrowCapacityError as error:  # 32-bit offsets overflow
            raise InvalidInputError("these rows do not fit into one batch, take fewer", found=error) from None


def join_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the batches of `RowTaker.batches` as one batch; InvalidInputError if 32-bit offsets overflow."""
    try:
        columns = [
            _joined([batch.column(index) for batch in batches], field.type, None)
            for index, field in enumerate(schema)
        ]
    except pa.ArrowCapacityError as error:
        raise InvalidInputError("these rows do not fit into one batch, take fewer", found=error) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _joined(parts: list[pa.Array], data_type: pa.DataType, order: pa.Array | None) -> pa.Array:
    if not parts:
        return pa.nulls(0, data_type)
    array = parts[0] if len(parts) == 1 else concatenated(parts)
    return array if order is None else take_values(array, order)
