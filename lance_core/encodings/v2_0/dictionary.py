"""Dictionaries: indices into items. Every page has its own items.

An index has two meanings:

    column of strings      0 is null, j is item j - 1
                           ["a", "b", "a", null]     items a b, indices 1 2 1 0
    dictionary column      j is item j; a null row points at an item that is null
                           ["x", "yy", "x", null]    items x yy _, indices 0 1 0 2
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.encoding import Decoded, Encoding, both_valid
from lance_core.encodings.v2_0.range_requests import Steps, as_picking, nothing, together
from lance_core.encodings.values import (
    DictionaryValues,
    FixedValues,
    NoValues,
    VariableValues,
    as_buffer,
    fixed_bits,
)
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData


@dataclass(slots=True)
class _Dictionary(Encoding):
    """Base of both kinds of dictionaries. The items are read with the first values and kept."""

    name = "dictionary"
    indices: Encoding
    items: Encoding
    num_items: int
    num_values: int
    _read_items: Decoded | None = field(default=None, init=False)

    def _read_both(self, start: int, end: int) -> Steps[tuple[FixedValues, pa.Buffer | None, Decoded]]:
        """Return the indices, their validity, and the items."""
        kept = self._read_items
        indices, items = yield from together(
            [
                self.indices.read(start, end),
                self.items.read(0, self.num_items) if kept is None else nothing(kept),
            ]
        )
        if not isinstance(indices.values, FixedValues):
            raise CorruptData("dictionary indices that are no numbers")
        self._read_items = items
        return indices.values, indices.validity, items

    @property
    def kept_bytes(self) -> int:
        return 0 if self._read_items is None else self._read_items.values.num_bytes


@dataclass(slots=True)
class StringDictionary(_Dictionary):
    """Strings of a column that is not a dictionary column. Index 0 is null."""

    def read(self, start: int, end: int) -> Steps[Decoded]:
        indices, validity, items = yield from self._read_both(start, end)
        return look_up(indices, validity, items, self.num_items, end - start)

    @property
    def can_pick(self) -> bool:
        return self.indices.can_pick

    def pick(self, values: Int64s) -> Picking[Decoded]:
        if self._read_items is None:
            self._read_items = yield from as_picking(self.items.read(0, self.num_items))
        decoded = yield from self.indices.pick(values)
        if not isinstance(decoded.values, FixedValues):
            raise CorruptData("dictionary indices that are no numbers")
        return look_up(decoded.values, decoded.validity, self._read_items, self.num_items, len(values))

    @property
    def known_items(self) -> Decoded | None:
        """The items; None before the first values are read."""
        return self._read_items

    def offsets_from_null(self, items: VariableValues) -> npt.NDArray[np.signedinteger]:
        """Return the offsets of the items behind an empty item, which gets index 0. That means null."""
        return _offsets_from_null(items, self.num_items)

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * (4 + self.items.decoded_bytes // max(self.num_items, 1))


def look_up(
    indices: FixedValues, validity: pa.Buffer | None, items: Decoded, num_items: int, num_values: int
) -> Decoded:
    """Return the strings at the indices of a column of strings. Index 0 is null.

    Raises:
        CorruptData: an index names no item.
        UnsupportedFeatureError: the items are no strings.
    """
    if isinstance(items.values, NoValues):
        return Decoded(items.values)
    if not isinstance(items.values, VariableValues):
        raise UnsupportedFeatureError("a dictionary of anything but strings in a column of strings")
    offset_bits = items.values.offset_bits
    offsets = _offsets_from_null(items.values, num_items)
    present = np.ones(num_items + 1, np.uint8)
    present[0] = 0
    if items.validity is not None:
        packed = np.frombuffer(items.validity, np.uint8)
        present[1:] = np.unpackbits(packed, count=num_items, bitorder="little")
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little"))
    found = _gather_validity(indices, num_values, bitmap, num_items + 1)
    found_offsets, data = kernels.gather_variable(
        indices.data, num_values, indices.bits, offsets.data, items.values.data, num_items + 1, offset_bits
    )
    values = VariableValues(as_buffer(found_offsets), as_buffer(data), offset_bits)
    return Decoded(values, both_valid(found, validity, num_values))


def _offsets_from_null(items: VariableValues, num_items: int) -> npt.NDArray[np.signedinteger]:
    dtype = np.dtype(f"<i{items.offset_bits // 8}")
    offsets = np.zeros(num_items + 2, dtype)
    offsets[1:] = np.frombuffer(items.offsets, dtype, num_items + 1)
    return offsets


def _gather_validity(
    indices: FixedValues, num_values: int, bitmap: pa.Buffer, num_items: int
) -> pa.Buffer | None:
    bits, num_nulls = kernels.gather_bits(indices.data, num_values, indices.bits, bitmap, num_items)
    return as_buffer(bits) if num_nulls else None


@dataclass(slots=True)
class DictionaryColumn(_Dictionary):
    """Indices and items of an Arrow dictionary column.

    Null items become null indices, because few libraries handle null items of a dictionary. The former null
    item stays in the dictionary, unused.
    """

    arrow_type: pa.DictionaryType
    _array: pa.Array | None = field(default=None, init=False)

    def read(self, start: int, end: int) -> Steps[Decoded]:
        indices, validity, items = yield from self._read_both(start, end)
        num_values = end - start
        kernels.check_indices(indices.data, num_values, indices.bits, self.num_items)
        if isinstance(items.values, NoValues):
            return Decoded(items.values)
        if self._array is None:
            self._array = items.values.to_arrow(self.num_items, self.arrow_type.value_type, None)
        if items.validity is not None:
            found = _gather_validity(indices, num_values, items.validity, self.num_items)
            validity = both_valid(found, validity, num_values)
        return Decoded(DictionaryValues(indices, self._array), validity)

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * fixed_bits(self.arrow_type.index_type) // 8 + self.items.decoded_bytes
