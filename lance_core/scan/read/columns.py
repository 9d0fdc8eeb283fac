"""The columns of one fragment: from one file, from several files, from no file, or computed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.json_binary import show_json
from lance_core.encodings.picking import Picking, pick, together
from lance_core.encodings.values import concat_arrays, seen_as, take_values
from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.column_readers import ColumnReader
from lance_core.file.page_ranges import PageRange, PlainValues, at_rows
from lance_core.file.row_runs import Rows, read_rows
from lance_core.kernels import OffsetOverflow, PlainPages
from lance_core.process.counters import PAGE_READS
from lance_core.process.derived import Derived
from lance_core.scan.files.data_files import FragmentFiles
from lance_core.scan.plan.projection import ComputedColumn, DataColumn
from lance_core.scan.read.blobs import BlobSource, described_bytes, read_blobs
from lance_core.scan.read.live_rows import LiveRows
from lance_core.scan.read.value_sizes import value_bits
from lance_core.schema.arrow_values import array_of
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import leaves, owns_column
from lance_core.storage.base import ReadableFile
from lance_core.table.fragment import HeldFields

DENSE_SHARE = 3 / 4
"""`Column.dense_share` of most columns. Picking rows is cheap for all types but lists. Decoding is faster if
the rows are consecutive, because they are a slice of an array.
"""


class Column(Protocol):
    """A projected column of one fragment; deleted rows are included."""

    @property
    def page_rows(self) -> Sequence[int]:
        """Sorted row numbers at which arrays of the column begin, and the number of rows at the end."""

    @property
    def bytes_per_row(self) -> float:
        """Estimated bytes of a decoded row, the same in every run."""

    @property
    def dense_share(self) -> float:
        """Share of the rows of a block from which on decoding all of it costs less than picking rows."""

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Return the physical rows `[start, end)` as arrays in order. Raises LanceError."""

    def take(self, rows: Rows) -> list[pa.Array]:
        """Return the strictly ascending physical `rows` as arrays in order. Raises LanceError."""


class NumberColumn:
    """A column of 64-bit numbers that follow from physical row numbers, such as row ids."""

    bytes_per_row = 8.0
    dense_share = DENSE_SHARE

    def __init__(self, num_rows: int, numbers: Callable[[int, int], npt.NDArray[np.integer]]) -> None:
        self.page_rows = (0, num_rows)
        self._numbers = numbers

    def read(self, start: int, end: int) -> list[pa.Array]:
        numbers = self._numbers(start, end)
        return [array_of(numbers.view(np.uint64) if numbers.itemsize == 8 else numbers.astype(np.uint64))]

    def take(self, rows: Rows) -> list[pa.Array]:
        return read_rows(self, rows)


class NullColumn:
    """A column that no file of the fragment has: all values are null (docs/format.md, "Fragments")."""

    dense_share = DENSE_SHARE

    def __init__(self, num_rows: int, data_type: pa.DataType) -> None:
        self.page_rows = (0, num_rows)
        self.bytes_per_row = (value_bits(data_type) or 32) / 8
        self._type = data_type

    def read(self, start: int, end: int) -> list[pa.Array]:
        return [pa.nulls(end - start, self._type)]

    def take(self, rows: Rows) -> list[pa.Array]:
        return [pa.nulls(len(rows), self._type)]


class StoredColumn:
    """A column of one data file, or a field inside its structs."""

    def __init__(self, column: DataColumn, reader: ColumnReader, file: ReadableFile) -> None:
        self.file = file
        self.is_shown_as_stored = column.is_shown_as_stored
        self.pages_at = reader.pages_at
        """Returns the pages of rows, for takes of several columns at once; see `ColumnReader.pages_at`."""
        self.page_ranges = reader.page_ranges
        """Returns the page ranges of rows `[start, end)`; see `ColumnReader.page_ranges`."""
        self._column = column
        self._reader = reader

    @property
    def page_rows(self) -> Sequence[int]:
        return self._reader.page_rows

    @cached_property
    def bytes_per_row(self) -> float:
        return self._reader.bytes_per_row

    @property
    def dense_share(self) -> float:
        return self._reader.dense_share

    def read(self, start: int, end: int) -> list[pa.Array]:
        edges = self.page_rows
        PAGE_READS.add(amount=bisect_left(edges, end) - bisect_right(edges, start) + 1)
        return self.present(self._reader.read(start, end))

    def page_ranges_at(self, rows: Rows, most_rows: int) -> list[PageRange] | None:
        """Return the page ranges of ascending `rows`, and None like `page_ranges`; see
        `lance_core.file.page_ranges.at_rows`.
        """
        first, end = int(rows[0]), int(rows[-1]) + 1
        ranges = self.page_ranges(first, end)
        if ranges is None or end - first == len(rows):
            return ranges
        return at_rows(ranges, first, rows, most_rows)

    def plain_values(self, start: int, end: int) -> PlainValues | None:
        """Return the place of the values of rows `[start, end)`, or None if they have to be read, or if the
        column is a field of structs.
        """
        return None if self._column.path else self._reader.plain_values(start, end)

    def plain_pages(self) -> PlainPages | None:
        """Return the places of all pages, or None; see `plain_values`."""
        return None if self._column.path else self._reader.plain_pages()

    def present(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the arrays of the reader in the form that users see."""
        return [present(array, self._column) for array in arrays]

    @property
    def stored_type(self) -> pa.DataType:
        """Type of the arrays that `present` takes."""
        return self._column.field.arrow_type

    def take(self, rows: Rows) -> list[pa.Array]:
        return [present(array, self._column) for array in self._reader.take(rows)]

    def pick(self, rows: Rows) -> Picking[list[pa.Array]]:
        """Pick rows together with other columns of `file`; see `ColumnReader.pick`."""
        arrays = yield from self._reader.pick(rows)
        return [present(array, self._column) for array in arrays]


def take_together(columns: Sequence[Column], rows: Rows) -> list[list[pa.Array]]:
    """Return the values of each column of a fragment at ascending rows. Columns of one file are read
    together.
    """
    by_file: dict[int, list[StoredColumn]] = {}
    for column in columns:
        if isinstance(column, StoredColumn):
            by_file.setdefault(id(column.file), []).append(column)
    taken: dict[int, list[pa.Array]] = {}
    try:
        for stored in by_file.values():
            picking = together([column.pick(rows) for column in stored])
            for column, arrays in zip(stored, pick(picking, stored[0].file.read_joined), strict=True):
                taken[id(column)] = arrays
    except OffsetOverflow:
        taken.clear()  # each column cuts its own arrays
    return [taken[id(column)] if id(column) in taken else column.take(rows) for column in columns]


class BlobColumn:
    """A column of one data file with the values of its blobs instead of their descriptors."""

    dense_share = DENSE_SHARE

    def __init__(self, column: DataColumn, reader: ColumnReader, source: BlobSource) -> None:
        self._column = column
        self._reader = reader
        self._source = source

    @property
    def page_rows(self) -> Sequence[int]:
        return self._reader.page_rows

    @cached_property
    def bytes_per_row(self) -> float:
        """Mean of all rows, from the descriptors of the file: they are small, the values are not."""
        num_rows = self._reader.num_rows
        num_bytes = sum(
            described_bytes(self._described_field, self._described(array))
            for array in self._reader.read(0, num_rows)
        )
        return self._reader.bytes_per_row + num_bytes / max(num_rows, 1)

    def read(self, start: int, end: int) -> list[pa.Array]:
        return self._values(self._reader.read(start, end))

    def take(self, rows: Rows) -> list[pa.Array]:
        return self._values(self._reader.take(rows))

    def _values(self, arrays: list[pa.Array]) -> list[pa.Array]:
        """Return the values of the blobs that arrays of descriptors describe."""
        described = (self._described(array) for array in arrays)
        values = (read_blobs(self._described_field, array, self._source) for array in described)
        return [_shown(array, self._column) for array in values]

    @property
    def _described_field(self) -> Field:
        assert self._column.described is not None
        return self._column.described

    def _described(self, array: pa.Array) -> pa.Array:
        return _field(array, self._column.path)


class SplitColumn:
    """A nested column whose leaves lie in several files, or which is read with more leaves than it shows.

    Leaves lie in several files if one child of a struct is replaced. Every leaf has the validity and the list
    lengths of all levels above it, so any part provides them.
    """

    dense_share = DENSE_SHARE

    def __init__(
        self, column: DataColumn, parts: list[tuple[Field, ColumnReader]], live: LiveRows | None
    ) -> None:
        """Prepare to read a column from its parts. Rows that are not in `live` may be null."""
        widest = max((reader for _, reader in parts), key=lambda reader: reader.bytes_per_row)
        self.page_rows = widest.page_rows
        self.bytes_per_row = sum(reader.bytes_per_row for _, reader in parts)
        self._column = column
        self._parts = parts
        self._live = live if any(field.is_list for field in column.field.walk()) else None

    def read(self, start: int, end: int) -> list[pa.Array]:
        parts = [(field, reader.read(start, end)) for field, reader in self._parts]
        return self._merged(parts, np.arange(start, end))

    def take(self, rows: Rows) -> list[pa.Array]:
        return self._merged([(field, reader.take(rows)) for field, reader in self._parts], rows)

    def _merged(self, parts: list[tuple[Field, list[pa.Array]]], rows: Rows) -> list[pa.Array]:
        """Return the column from the arrays of its parts, which have the physical `rows`."""
        if not len(rows):
            return []
        joined = [(field, concat_arrays(arrays)) for field, arrays in parts]
        # Lists of rows that were deleted before a file was written have other lengths in it.
        are_live = None if self._live is None else self._live.are_live(rows)
        if are_live is not None and not are_live.all():
            places = pa.array(np.arange(len(rows)), mask=~are_live)
            joined = [(field, take_values(array, places)) for field, array in joined]
        return [present(_merge(self._column.field, joined), self._column)]


class ExpressionColumn:
    """A column that an expression computes from columns that are decoded for it alone."""

    dense_share = DENSE_SHARE

    def __init__(self, column: ComputedColumn, num_rows: int, inputs: Mapping[str, Column]) -> None:
        self._column = column
        self._inputs = inputs
        widest = max(inputs.values(), key=lambda column: column.bytes_per_row, default=None)
        self.page_rows = (0, num_rows) if widest is None else widest.page_rows
        bits = value_bits(column.output.type)
        self.bytes_per_row = (
            sum(column.bytes_per_row for column in inputs.values()) if bits is None else bits / 8
        )

    def read(self, start: int, end: int) -> list[pa.Array]:
        return self._values({name: c.read(start, end) for name, c in self._inputs.items()}, end - start)

    def take(self, rows: Rows) -> list[pa.Array]:
        return self._values({name: c.take(rows) for name, c in self._inputs.items()}, len(rows))

    def at(self, rows: Rows, read: Callable[[Column], list[pa.Array]]) -> list[pa.Array]:
        """Return the values at ascending physical rows, at which `read` returns the values of a column.

        The expression is evaluated for no other row. Other rows may have no value: a filter may be there to
        leave out divisions by zero, or to hide rows.
        """
        return self._values({name: read(column) for name, column in self._inputs.items()}, len(rows))

    def _values(self, arrays: Mapping[str, list[pa.Array]], num_rows: int) -> list[pa.Array]:
        if not num_rows:
            return []
        from lance_core.expressions.evaluate import evaluate  # late: most scans compute nothing

        try:
            return [evaluate(self._column.expression, batch) for batch in batches_of(arrays, num_rows)]
        except InvalidInputError as error:
            raise InvalidInputError(f"column {self._column.output.name!r}: {error}") from None


def batch_of(columns: Mapping[str, Sequence[pa.Array]], num_rows: int) -> pa.RecordBatch:
    """Return one batch of columns, given as arrays in order. Without columns, it still has `num_rows`."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), num_rows, [None]))
    joined = [arrays[0] if len(arrays) == 1 else concat_arrays(arrays) for arrays in columns.values()]
    return pa.RecordBatch.from_arrays(joined, names=list(columns))


def batches_of(columns: Mapping[str, Sequence[pa.Array]], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the batch of `batch_of`, or several batches if arrays do not fit into one.

    Text of several pages may have more bytes than 32-bit offsets count, and dictionaries more values than
    their indices.
    """
    try:
        yield batch_of(columns, num_rows)
    except pa.ArrowCapacityError:
        if num_rows < 2:
            raise
        middle = num_rows // 2
        for start, end in ((0, middle), (middle, num_rows)):
            part = {name: _between(arrays, start, end) for name, arrays in columns.items()}
            yield from batches_of(part, end - start)


def _between(arrays: Sequence[pa.Array], start: int, end: int) -> list[pa.Array]:
    """Return the values `[start, end)` of arrays that follow one another."""
    cut = []
    for array in arrays:
        if start < len(array) and end > 0:
            cut.append(array.slice(max(start, 0), min(end, len(array)) - max(start, 0)))
        start, end = start - len(array), end - len(array)
    return cut


@dataclass(frozen=True)
class Parts:
    """The files of a fragment with leaves of a column.

    Attributes:
        field: The column, and below each of its structs and lists at least one leaf that a file stores, if
            there is one: the leaf tells which structs and lists are null, and the lengths of lists.
        is_widened: Whether the field has leaves that the column does not show.
        files: Number of each file in the fragment, with the columns of the file by field id.
    """

    field: Field
    is_widened: bool
    files: Sequence[tuple[int, Mapping[int, int]]]


def find_parts(column: DataColumn, whole: Field, held: Sequence[HeldFields]) -> Parts:
    """Return the files with leaves of a column.

    Args:
        column: The column.
        whole: Its top-level field as the table has it, with all children.
        held: The fields of each file.
    """
    field = column.field
    if not column.path:  # else no struct or list above the field is shown
        field = _with_structure(field, whole, {id_ for fields in held for id_ in fields.columns})
    nodes = [node.id for node in field.walk()]
    wanted = {leaf.id for leaf in leaves(field)}
    stored = [{id_: fields.columns[id_] for id_ in nodes if id_ in fields.columns} for fields in held]
    files = [(number, columns) for number, columns in enumerate(stored) if not wanted.isdisjoint(columns)]
    return Parts(field, field is not column.field, files)


def _with_structure(field: Field, whole: Field, stored: Collection[int]) -> Field:
    """Return the field with one more leaf of `whole` below each node of which no projected leaf is stored."""
    if owns_column(field):
        return field
    wholes = {child.id: child for child in whole.children}
    children = [_with_structure(child, wholes[child.id], stored) for child in field.children]
    if not any(leaf.id in stored for child in children for leaf in leaves(child)):
        other = next((leaf for leaf in leaves(whole) if leaf.id in stored), None)
        if other is not None:
            maps = (node for node in whole.walk() if node.logical_type == "map" and other in leaves(node))
            around = next(maps, other)  # a map is never narrowed
            children += _only(whole, {leaf.id for leaf in leaves(around)}).children
    return field if children == list(field.children) else replace(field, children=tuple(children))


def open_column(
    column: DataColumn, files: FragmentFiles, parts: Parts, live: LiveRows | None = None
) -> Column:
    """Open a projected column; `parts` is what `find_parts` returned for it.

    If `live` is given, deleted rows may be read as null.

    Raises:
        UnsupportedFeatureError: a file has a version that is not read yet.
        LanceError: a file cannot be opened, see `DataFiles.open`.
    """
    if not parts.files:
        return NullColumn(files.num_rows, column.output.type)
    if len(parts.files) == 1 and not parts.is_widened:
        ((number, stored),) = parts.files
        file = files.open(files.data_files[number])
        reader = file.column(column.field, stored)
        if column.described is None:
            return StoredColumn(column, reader, file.file)
        return BlobColumn(
            column, reader, BlobSource.open(files, files.data_files[number], column.output.name)
        )
    opened = [(files.open(files.data_files[number]), stored) for number, stored in parts.files]
    if column.described is not None:
        raise UnsupportedFeatureError("a column with blobs in several files", column=column.output.name)
    fields = [(_only(parts.field, stored), file, stored) for file, stored in opened]
    return SplitColumn(column, [(field, file.column(field, stored)) for field, file, stored in fields], live)


def present(array: pa.Array, column: DataColumn) -> pa.Array:
    """Return the output column from the array of the top-level field that was read for it."""
    return _shown(_field(array, column.path), column)


def _field(array: pa.Array, path: Sequence[int]) -> pa.Array:
    """Return the field below structs that a path of field numbers leads to."""
    if not path:
        return array
    import pyarrow.compute as pc  # late: it takes longer to load than all other modules of a read

    return pc.struct_field(array, list(path))


def _shown(array: pa.Array, column: DataColumn) -> pa.Array:
    """Return the array in the form that users see: JSON as text, and with extension types."""
    if column.json is not None:
        array = show_json(array, column.json)
    return array if array.type == column.output.type else seen_as(column.output.type, array)


def holds_dictionary(data_type: pa.DataType) -> bool:
    """Return whether `data_type` is a dictionary type, or has one at any depth."""
    if isinstance(data_type, pa.BaseExtensionType):
        return holds_dictionary(data_type.storage_type)
    return pa.types.is_dictionary(data_type) or any(
        holds_dictionary(data_type.field(position).type) for position in range(data_type.num_fields)
    )


def has_dictionaries(schema: pa.Schema) -> bool:
    """Return whether a column has a dictionary type, at any depth.

    The answer for a schema is remembered as long as the schema is alive: projections keep theirs for the next
    request, and looking at 100 columns takes longer than taking their first rows.
    """
    return _has_dictionaries.of(schema)


_has_dictionaries: Derived[pa.Schema, bool] = Derived(
    lambda schema: any(holds_dictionary(field.type) for field in schema)
)


def _only(field: Field, ids: Collection[int]) -> Field:
    """Return the field without the leaves that are not in `ids`."""
    if owns_column(field):
        return field
    held = (child for child in field.children if any(leaf.id in ids for leaf in leaves(child)))
    return replace(field, children=tuple(_only(child, ids) for child in held))


def _merge(field: Field, parts: list[tuple[Field, pa.Array]]) -> pa.Array:
    """Merge arrays of the same rows, which have some leaves of `field` each, into one array of `field`."""
    part, array = parts[0]
    if len(parts) == 1 and part == field:
        return array
    if pa.types.is_struct(array.type):
        children = [_merge_child(child, parts, len(array)) for child in field.children]
        return pa.StructArray.from_arrays(children, fields=list(field.arrow_type), mask=array.is_null())
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        if any(not array.offsets.equals(other.offsets) for _, other in parts[1:]):
            raise CorruptFileError("files of one fragment disagree about lists", column=field.name)
        items = _merge(field.children[0], [(part.children[0], array.values) for part, array in parts])
        return type(array).from_arrays(array.offsets, items, type=field.arrow_type, mask=array.is_null())
    raise UnsupportedFeatureError(
        "column in several files", column=field.name, expected="structs and lists", found=field.logical_type
    )


def _merge_child(child: Field, parts: list[tuple[Field, pa.Array]], num_rows: int) -> pa.Array:
    held = [
        (part_child, array.field(position))
        for part, array in parts
        for position, part_child in enumerate(part.children)
        if part_child.id == child.id
    ]
    return _merge(child, held) if held else pa.nulls(num_rows, child.arrow_type)
