"""Buffers for the rows of one leaf column until they fill a page.

Rows are copied when they arrive. A batch from the network is one block of memory, which a slice of its
narrowest column would keep alive. The copies are laid out like the page, so that values are copied only once.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.shredding import LeafRows
from lance_core.encodings.values import as_buffer, concat_arrays, fixed_bits, offset_bits
from lance_core.storage.base import Bytes


class WaitingRows(Protocol):
    """Buffered rows of one leaf column."""

    def append(self, rows: LeafRows) -> None:
        """Copy rows into the buffer."""

    def take(self) -> list[LeafRows]:
        """Remove and return all rows: mostly as one entry, or as several entries for `join`."""


def waiting_rows(value_type: pa.DataType, expected_bytes: int) -> WaitingRows:
    """Return a buffer for values of a storage type, with pages of about `expected_bytes`."""
    values = _builder(value_type, expected_bytes)
    return _Unjoined() if values is None else _Built(values, expected_bytes)


def join(parts: Sequence[LeafRows]) -> Sequence[LeafRows]:
    """Return the rows as one entry for one page, or unchanged if one array cannot hold them."""
    if len(parts) > 1:
        try:
            return [_joined(parts)]
        except pa.ArrowCapacityError:  # the joined dictionaries exceed their index type
            pass
    return parts


class _Unjoined:
    """Rows of a column that are joined only at the end.

    For dictionaries, which differ from batch to batch, and for columns of type null, which have no buffers.
    """

    def __init__(self) -> None:
        self._rows: list[LeafRows] = []

    def append(self, rows: LeafRows) -> None:
        self._rows.append(_joined([rows]))

    def take(self) -> list[LeafRows]:
        parts, self._rows = self._rows, []
        return parts


class _Built:
    """Rows whose values and levels are appended to buffers."""

    def __init__(self, values: "_Values", expected_bytes: int) -> None:
        self._values = values
        self._rep, self._def = kernels.LevelBuilder(expected_bytes), kernels.LevelBuilder(expected_bytes)
        self._num_rows = self._num_entries = 0

    def append(self, rows: LeafRows) -> None:
        self._values.append(rows.values)
        if rows.rep is not None:
            self._rep.append(self._num_entries, rows.num_entries, rows.rep)
        if rows.def_ is not None:
            self._def.append(self._num_entries, rows.num_entries, rows.def_)
        self._num_rows += rows.num_rows
        self._num_entries += rows.num_entries

    def take(self) -> list[LeafRows]:
        if self._num_rows == 0:
            return []
        blocks = (levels.finish(self._num_entries) for levels in (self._rep, self._def))
        rep, def_ = (None if block is None else memoryview(block) for block in blocks)
        rows = LeafRows(self._values.finish(), self._num_rows, self._num_entries, rep, def_)
        self._num_rows = self._num_entries = 0
        return [rows]


class _Values(Protocol):
    """Builder that appends arrays of one type to one array."""

    def append(self, array: pa.Array) -> None: ...

    def finish(self) -> pa.Array: ...


def _builder(value_type: pa.DataType, expected_bytes: int) -> _Values | None:
    """Return the builder for a type; None if there is none."""
    if pa.types.is_dictionary(value_type):
        return None
    if pa.types.is_fixed_size_list(value_type):
        items = _builder(value_type.value_type, expected_bytes)
        return _Lists(value_type, items) if items else None
    if pa.types.is_struct(value_type):
        members = [_builder(field.type, expected_bytes) for field in value_type]
        built = [member for member in members if member]
        return _Structs(value_type, built) if len(built) == len(members) else None
    if offset_bits(value_type) or fixed_bits(value_type):
        return _Plain(value_type, expected_bytes)
    return None


class _Plain:
    """Values of fixed or variable width."""

    def __init__(self, value_type: pa.DataType, expected_bytes: int) -> None:
        self._type = value_type
        self._has_offsets = offset_bits(value_type) != 0
        width = 0 if self._has_offsets else fixed_bits(value_type)
        self._buffers = kernels.ArrayBuilder(width, offset_bits(value_type), expected_bytes)

    def append(self, array: pa.Array) -> None:
        self._buffers.append(len(array), array.offset, *array.buffers())

    def finish(self) -> pa.Array:
        count, null_count, *blocks = self._buffers.finish()
        validity, values, data = map(as_buffer, blocks)
        buffers = [validity if null_count else None, values, *([data] if self._has_offsets else [])]
        return pa.Array.from_buffers(self._type, count, buffers, null_count)


class _Lists:
    """Fixed-size lists."""

    def __init__(self, value_type: pa.FixedSizeListType, items: _Values) -> None:
        self._type = value_type
        self._items = items
        self._validity = kernels.ArrayBuilder(0, 0, 0)

    def append(self, array: pa.FixedSizeListArray) -> None:
        self._validity.append(len(array), array.offset, array.buffers()[0])
        size = self._type.list_size
        self._items.append(array.values.slice(array.offset * size, len(array) * size))

    def finish(self) -> pa.Array:
        return _around(self._type, self._validity, [self._items.finish()])


class _Structs:
    """Packed structs."""

    def __init__(self, value_type: pa.StructType, members: Sequence[_Values]) -> None:
        self._type = value_type
        self._members = members
        self._validity = kernels.ArrayBuilder(0, 0, 0)

    def append(self, array: pa.StructArray) -> None:
        self._validity.append(len(array), array.offset, array.buffers()[0])
        for number, member in enumerate(self._members):
            member.append(array.field(number))

    def finish(self) -> pa.Array:
        return _around(self._type, self._validity, [member.finish() for member in self._members])


def _around(
    value_type: pa.DataType, validity: kernels.ArrayBuilder, children: Sequence[pa.Array]
) -> pa.Array:
    count, null_count, bits, *_ = validity.finish()
    buffers = [as_buffer(bits) if null_count else None]
    return pa.Array.from_buffers(value_type, count, buffers, null_count, children=list(children))


def _joined(parts: Sequence[LeafRows]) -> LeafRows:
    return LeafRows(
        concat_arrays([part.values for part in parts]),
        sum(part.num_rows for part in parts),
        sum(part.num_entries for part in parts),
        _joined_levels([(part.rep, part.num_entries) for part in parts]),
        _joined_levels([(part.def_, part.num_entries) for part in parts]),
    )


def _joined_levels(parts: Sequence[tuple[Bytes | None, int]]) -> Bytes | None:
    """Return the levels of several entries one after the other. An entry without levels gets zeros."""
    if all(levels is None for levels, _ in parts):
        return None
    return np.concatenate(
        [np.zeros(n, "<u2") if levels is None else np.frombuffer(levels, "<u2") for levels, n in parts]
    ).data
