"""Single rows by offset, row id or row address, in the order they are asked for.

Keys become row addresses first; the rows of each fragment are then read column by column, neighbouring rows
together, and put into the order of the keys. A key given twice gives its row twice. Rows that were deleted,
and ids that no live row has, are left out, as the reference does.
Source: docs/format.md, "Row ids and lineage".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import concat_arrays, flatten_lists, take_values
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.forks import begin_anew_after_fork
from lance_core.kernels import ColumnPages, take_rows
from lance_core.pool import map_ahead, run_all
from lance_core.scan.plan.options import Computed, ScanOptions
from lance_core.scan.plan.projection import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
    DataColumn,
    project,
    project_narrowed,
)
from lance_core.scan.read.columns import Column, StoredColumn, holds_dictionary, known_pages, take_together
from lance_core.scan.read.deletions import LiveRows
from lance_core.scan.read.files import DataFiles, FileCache, FragmentFiles, OpenedFile
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.read.row_columns import RowColumns
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.snapshot import Snapshot

Keys = npt.NDArray[np.uint64]
Chosen = slice | npt.NDArray[np.intp]
"""Positions in an array, in order."""

KEY_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET)
"""Names of the keys of rows, and of the columns that hold them."""

_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64((1 << _OFFSET_BITS) - 1)
# Batches begin with so few rows, and grow by at most so much, until it is known how large rows are.
_FIRST_ROWS = 16
_MOST_GROWTH = 8
# Bytes of rows that are read at a time for a stream: a few batches.
_READ_BYTES = 8 << 20
# Below so many values other threads cost more than they give: they would mostly wait for the interpreter.
_FEW_VALUES = 10_000
# What is kept open of one snapshot for one list of columns, and for how many of these.
_MOST_FRAGMENTS = 32
_MOST_TAKERS = 8


def as_keys(values: Any, name: str) -> Keys:
    """Integers of a caller, a list or an Arrow or NumPy array, as keys; `name` is for messages.

    Raises:
        TypeError: something else than integers, or nulls.
        InvalidInputError: a negative number, or one of more than 64 bits.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise TypeError(f"{name} must not be null")
        numbers = values.to_numpy()
    else:
        numbers = np.asarray(values)
    if numbers.dtype == object and all(isinstance(value, int) for value in numbers.flat):
        raise InvalidInputError(f"{name} must have at most 64 bits")
    if numbers.ndim != 1 or (numbers.dtype.kind not in "ui" and len(numbers)):
        raise TypeError(f"{name} must be a list of integers")
    if numbers.dtype.kind == "i" and len(numbers) and (least := np.minimum.reduce(numbers)) < 0:
        raise InvalidInputError(f"{name} must not be negative", found=least)
    keys: Keys = numbers.astype(np.uint64)
    return keys


class RowTaker:
    """Takes rows of one version of a table, projected to some columns."""

    def __init__(
        self,
        snapshot: Snapshot,
        columns: tuple[str, ...] | None,
        files: DataFiles,
        computed: Computed | None = None,
    ) -> None:
        """Raises InvalidInputError or UnsupportedFeatureError for columns, as a scan does."""
        self._snapshot = snapshot
        schema = snapshot.manifest.schema
        self._projection = (
            project(schema, ScanOptions(computed=computed))
            if columns is None
            else project_narrowed(schema, columns)
        )
        self._opener = FragmentOpener(snapshot, self._projection, files)
        self._files = files
        self._row_columns = RowColumns(snapshot, files)
        self._fragments = snapshot.manifest.fragment_by_id
        self._open: OrderedDict[int, _OpenFragment] = OrderedDict()
        self._lock = Lock()
        self._last = 1, 0
        """Rows and bytes of the last of the `batches`."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of what is taken."""
        return self._projection.schema

    def by_offset(self, offsets: Keys, fragments: Sequence[Fragment] | None = None) -> pa.RecordBatch:
        """Return the rows at `offsets`, see `addresses_at`; raises LanceError when something cannot be
        read.
        """
        return self._rows(self.addresses_at(offsets, fragments))

    def by_row_id(self, row_ids: Keys) -> pa.RecordBatch:
        """Return the rows of `row_ids`, see `addresses_of`; raises LanceError when something cannot be
        read.
        """
        return self._rows(self.addresses_of(row_ids))

    def by_address(self, addresses: Keys) -> pa.RecordBatch:
        """Return the rows at `addresses`, see `live_addresses`; raises LanceError when something cannot be
        read.
        """
        return self._rows(self.live_addresses(addresses))

    def batches(self, addresses: Keys, aimed_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows at live addresses in batches of about `aimed_bytes`, learning how large rows are.

        The last batch of all teaches the first one, too: takes of as many rows as before are one batch.

        Raises:
            LanceError: something cannot be read.
        """
        start = 0
        while start < len(addresses):
            known_rows, known_bytes = self._last
            most = max(_FIRST_ROWS, _MOST_GROWTH * known_rows)
            rows = max(1, min(most, aimed_bytes * known_rows // max(known_bytes, 1)))
            batch = self._rows(addresses[start : start + rows])
            self._last = batch.num_rows, batch.get_total_buffer_size()
            start += rows
            yield batch

    def batch_runs(self, addresses: Keys, budget: MemoryBudget) -> Generator[BatchRun, None, None]:
        """Yield the rows at live addresses as batches of the sizes that a scan gives.

        Rows are read about `_READ_BYTES` at a time, and belong to `budget` until the next batch is asked for.

        Raises:
            LanceError: something cannot be read.
        """
        options = ScanOptions()
        for batch in self.batches(addresses, _READ_BYTES):
            size = batch.get_total_buffer_size()
            with budget.require(size):
                if size <= options.batch_bytes:  # rows that make one batch need no cuts
                    yield BatchRun(batch, max(batch.num_rows, 1))
                else:
                    cutter = BatchCutter(self.schema, options)
                    columns = [[column] for column in batch.columns]
                    cuts, _ = cutter.fit(columns, np.array([0, batch.num_rows]))
                    yield from cutter.cut(columns, cuts)

    @cached_property
    def has_dictionaries(self) -> bool:
        """Whether the schema has a dictionary type, at any depth."""
        return any(holds_dictionary(field.type) for field in self.schema)

    def addresses_by(self, key: str) -> Callable[[Keys], Keys]:
        """Return the function that finds the addresses of rows by one of `KEY_COLUMNS`."""
        finders: Mapping[str, Callable[[Keys], Keys]] = {
            ROW_OFFSET: self.addresses_at,
            ROW_ID: self.addresses_of,
            ROW_ADDRESS: self.live_addresses,
        }
        return finders[key]

    def addresses_at(self, offsets: Keys, fragments: Sequence[Fragment] | None = None) -> Keys:
        """Return the addresses of rows at `offsets`, which count live rows of the table or of some of its
        fragments.

        Raises:
            InvalidInputError: an offset is not below the number of rows.
            LanceError: deletions cannot be read.
        """
        ends = self._ends if fragments is None else _ends([fragment.num_rows for fragment in fragments])
        fragments = self._snapshot.manifest.fragments if fragments is None else fragments
        # The methods of NumPy that do the same are Python, which takes longer than one row.
        if len(offsets) and (largest := np.maximum.reduce(offsets)) >= ends[-1]:
            raise InvalidInputError(
                "row offset is out of range", expected=f"less than {ends[-1]}", found=largest
            )
        places = ends.searchsorted(offsets, "right") - 1
        addresses = np.empty(len(offsets), dtype=np.uint64)
        for place, chosen in _groups(places):
            live = self._opened(fragments[place]).live
            rows = live.physical_rows((offsets[chosen] - ends[place]).astype(np.int64))
            addresses[chosen] = rows.astype(np.uint64) | (np.uint64(fragments[place].id) << _OFFSET_BITS)
        return addresses

    def live_addresses(self, addresses: Keys) -> Keys:
        """Return the `addresses` of rows that are not deleted.

        Raises:
            InvalidInputError: there is no such fragment, or it has fewer rows.
            LanceError: deletions cannot be read.
        """
        kept = np.ones(len(addresses), dtype=bool)
        for fragment_id, chosen in _groups(addresses >> _OFFSET_BITS):
            fragment = self._fragments.get(fragment_id)
            if fragment is None:
                raise InvalidInputError(
                    "row address is of a fragment that does not exist", found=addresses[chosen][0]
                )
            rows = (addresses[chosen] & _OFFSET_MASK).astype(np.int64)
            if rows.max() >= fragment.physical_rows:
                raise InvalidInputError(
                    f"row address is out of range in fragment {fragment_id}",
                    expected=f"less than {fragment.physical_rows} rows",
                    found=rows.max(),
                )
            kept[chosen] = self._opened(fragment).live.are_live(rows)
        return addresses[kept]

    def addresses_of(self, row_ids: Keys) -> Keys:
        """Return the addresses of those `row_ids` that live rows have; without stable row ids they are
        addresses.

        Raises:
            CorruptFileError: two live rows have the same id.
            LanceError: ids or deletions cannot be read; without stable row ids as `live_addresses`.
        """
        if not self._snapshot.manifest.has_stable_row_ids:
            return self.live_addresses(row_ids)
        wanted, inverse = np.unique(row_ids, return_inverse=True)
        addresses = np.zeros(len(wanted), dtype=np.uint64)
        found = np.zeros(len(wanted), dtype=bool)
        for fragment in self._snapshot.manifest.fragments:
            positions, rows = self._row_columns.find_row_ids(fragment, wanted)
            if not len(rows):
                continue
            live = self._opened(fragment).live.are_live(rows)
            positions, rows = positions[live], rows[live]
            if found[positions].any() or len(np.unique(positions)) < len(positions):
                raise CorruptFileError(
                    f"two rows have the same row id, one of them in fragment {fragment.id}"
                )
            found[positions] = True
            addresses[positions] = rows.astype(np.uint64) | (np.uint64(fragment.id) << _OFFSET_BITS)
        return addresses[inverse][found[inverse]]

    @cached_property
    def _ends(self) -> Keys:
        return _ends(self._snapshot.manifest.fragment_rows)

    def _opened(self, fragment: Fragment) -> _OpenFragment:
        """Return the open fragment, which is kept for the next time."""
        with self._lock:
            opened = self._open.get(fragment.id)
            if opened is None:
                opened = self._open[fragment.id] = _OpenFragment(fragment, self._snapshot, self._files)
                if len(self._open) > _MOST_FRAGMENTS:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(fragment.id)
        return opened

    def _rows(self, addresses: Keys) -> pa.RecordBatch:
        """Return the rows at addresses that all exist, in any order."""
        if not self._projection.columns:
            rows = pa.StructArray.from_buffers(pa.struct([]), len(addresses), [None])
            return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(self.schema.metadata)
        groups = list(_groups(addresses >> _OFFSET_BITS))
        fragments = [self._opened(self._fragments[fragment_id]) for fragment_id, _ in groups]
        columns = list(map_ahead(lambda part: part.columns(self._opener), fragments, self._opener.is_remote))
        pages = [fragment.pages(some) for fragment, some in zip(fragments, columns, strict=True)]
        places = [chosen for _, chosen in groups]
        arrays = self._taken_at_once(columns, pages, (addresses & _OFFSET_MASK).view(np.int64), places)
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
        pages: Sequence[Sequence[ColumnPages | None]],
        rows: npt.NDArray[np.int64],
        places: Sequence[Chosen],
    ) -> pa.RecordBatch | list[pa.Array | None]:
        """Columns of fragments, at some of the `rows` each, as one call of a kernel takes them.

        Columns that have to be taken in another way are `None`; without such ones all may be one batch.
        """
        arrays: list[pa.Array | None] = [None] * len(self.schema)
        numbers = [
            number
            for number in range(len(arrays))
            if pages and all(part[number] is not None for part in pages)
        ]
        if not numbers:
            return arrays
        parts = [
            (
                [page for number in numbers if (page := part[number]) is not None],
                rows[chosen].data,
                None if isinstance(chosen, slice) and len(pages) == 1 else _numbers(chosen).data,
            )
            for part, chosen in zip(pages, places, strict=True)
        ]
        taken = take_rows(parts, len(numbers), len(rows))
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
            (arrays[number],) = column.present([array])
        return arrays

    @cached_property
    def _is_shown_as_stored(self) -> bool:
        """Whether all columns have the types of the files."""
        return all(
            isinstance(column, DataColumn) and column.is_shown_as_stored
            for column in self._projection.columns
        )

    def _taken_alone(
        self, addresses: Keys, opened: Mapping[int, Sequence[Column]], numbers: Sequence[int]
    ) -> list[pa.Array]:
        """Some of the columns at addresses, each as it gives single rows."""
        order = None
        if not _ascends(addresses):
            addresses, inverse = np.unique(addresses, return_inverse=True)
            order = pa.array(inverse)
        tasks = [
            (
                [opened[fragment_id][number] for number in numbers],
                (addresses[chosen] & _OFFSET_MASK).view(np.int64),
            )
            for fragment_id, chosen in _groups(addresses >> _OFFSET_BITS)
        ]
        is_remote = self._opener.is_remote
        step = len(numbers)
        try:
            if is_remote or len(addresses) * step >= _FEW_VALUES:
                jobs = [partial(column.take, rows) for columns, rows in tasks for column in columns]
                taken = run_all(jobs, is_remote)
            else:
                taken = [arrays for columns, rows in tasks for arrays in take_together(columns, rows)]
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


class TakerCache:
    """The takers that were used last, with their open fragments; thread-safe."""

    def __init__(self, files: FileCache) -> None:
        self._files = files
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without any taker, in this process or in one that was forked."""
        self._takers: OrderedDict[tuple[int, tuple[str, ...] | None], RowTaker] = OrderedDict()
        self._lock = Lock()

    def get(self, snapshot: Snapshot, columns: tuple[str, ...] | None) -> RowTaker:
        """Return the taker of columns of a snapshot; errors are those of `RowTaker`."""
        # Every opened dataset has a snapshot of its own. The taker keeps the manifest, and so its number.
        key = (id(snapshot.manifest), columns)
        with self._lock:
            taker = self._takers.get(key)
            if taker is not None:
                self._takers.move_to_end(key)
                return taker
        taker = RowTaker(snapshot, columns, self._files)
        with self._lock:
            self._takers[key] = taker
            while len(self._takers) > _MOST_TAKERS:
                self._takers.popitem(last=False)
        return taker


class _OpenFragment:
    """The deletions of a fragment and its columns, as long as its files are the same."""

    def __init__(self, fragment: Fragment, snapshot: Snapshot, files: DataFiles) -> None:
        self._fragment = fragment
        self._snapshot = snapshot
        self._files = files
        self._columns: tuple[tuple[Column, ...], dict[DataFile, OpenedFile]] | None = None
        self._pages: tuple[Sequence[Column], list[ColumnPages | None]] | None = None

    @cached_property
    def live(self) -> LiveRows:
        """Raises LanceError when deletions cannot be read."""
        return LiveRows(self._fragment.physical_rows, self._snapshot.read_deletions(self._fragment))

    def columns(self, opener: FragmentOpener) -> tuple[Column, ...]:
        """Return the projected columns; errors are those of `FragmentOpener.open_columns`."""
        if self._columns is not None:
            columns, files = self._columns
            if all(
                self._files.open(self._snapshot, self._fragment, data_file) is file
                for data_file, file in files.items()
            ):
                return columns
        fragment_files = FragmentFiles(self._snapshot, self._fragment, self._files)
        columns = opener.open_columns(self._fragment.id, self.live, fragment_files)
        self._columns = columns, fragment_files.opened
        return columns

    def pages(self, columns: Sequence[Column]) -> list[ColumnPages | None]:
        """Return the pages from which the kernel takes rows of `columns`, None for columns whose pages are
        not known.
        """
        known = self._pages
        if known is None or known[0] is not columns:
            known = columns, [known_pages(column) for column in columns]
            if None not in known[1]:
                self._pages = known
        return known[1]


def _ends(rows: Sequence[int]) -> Keys:
    """Return the row offset at which each of some fragments with so many rows begins, and the number of
    rows.
    """
    return np.cumsum([0, *rows], dtype=np.uint64)


def _ascends(keys: Keys) -> bool:
    return len(keys) <= 1 or bool((keys[1:] > keys[:-1]).all())


def _groups(ids: npt.NDArray[np.integer]) -> Iterator[tuple[int, Chosen]]:
    """Each of the `ids`, and where it stands."""
    if len(ids) <= 1:
        yield from ((number, slice(0, 1)) for number in ids.tolist())
        return
    order: npt.NDArray[np.intp] | None = None
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
    cuts = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    for start, end in pairwise(cuts):
        yield int(ids[start]), slice(start, end) if order is None else order[start:end]


def _numbers(chosen: Chosen) -> npt.NDArray[np.intp]:
    return np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen


def _joined(parts: list[pa.Array], data_type: pa.DataType, order: pa.Array | None) -> pa.Array:
    if not parts:
        return pa.nulls(0, data_type)
    array = parts[0] if len(parts) == 1 else concatenated(parts)
    return array if order is None else take_values(array, order)


def concatenated(parts: list[pa.Array]) -> pa.Array:
    """Return the parts one after the other, wherever in them dictionaries stand.

    The dictionaries of all parts may need larger indices than what the rows use of them. Raises
    `pyarrow.ArrowCapacityError` where these need larger ones, too.
    """
    try:
        return concat_arrays(parts)
    except pa.ArrowCapacityError:
        data_type = parts[0].type
        if isinstance(data_type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(data_type, concatenated([part.storage for part in parts]))
        if pa.types.is_dictionary(data_type):
            used = pa.concat_arrays([part.dictionary_decode() for part in parts]).dictionary_encode()
            try:
                indices = used.indices.cast(data_type.index_type)
            except pa.ArrowInvalid as error:
                raise pa.ArrowCapacityError(str(error)) from None
            return pa.DictionaryArray.from_arrays(indices, used.dictionary, ordered=data_type.ordered)
        if pa.types.is_struct(data_type):
            children = [
                concatenated([part.field(position) for part in parts])
                for position in range(data_type.num_fields)
            ]
            return pa.StructArray.from_arrays(children, fields=list(data_type), mask=_is_null(parts))
        if pa.types.is_fixed_size_list(data_type):
            # What stands under a null list stays: `flatten` would leave it out.
            size = data_type.list_size
            items = concatenated([part.values.slice(part.offset * size, len(part) * size) for part in parts])
            return pa.FixedSizeListArray.from_arrays(items, type=data_type, mask=_is_null(parts))
        if pa.types.is_map(data_type):
            entries = pa.struct([data_type.key_field, data_type.item_field])
            as_lists = pa.list_(pa.field("entries", entries, nullable=False))
            lists = concatenated([part.cast(as_lists) for part in parts])
            keys, values = lists.values.field(0), lists.values.field(1)
            return pa.MapArray.from_arrays(lists.offsets, keys, values, data_type, mask=_is_null(parts))
        if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
            lengths = np.concatenate([part.value_lengths().fill_null(0).to_numpy() for part in parts])
            offsets = pa.array(np.cumsum([0, *lengths]), pa.int32() if pa.types.is_list(data_type) else None)
            items = concatenated([flatten_lists(part) for part in parts])
            return type(parts[0]).from_arrays(offsets, items, type=data_type, mask=_is_null(parts))
        raise


def _is_null(parts: list[pa.Array]) -> pa.BooleanArray:
    return pa.concat_arrays([part.is_null() for part in parts])
