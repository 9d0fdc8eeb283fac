"""Repetition and definition levels, which a page stores instead of list offsets and validity.

Every leaf column repeats the structure above it as two small numbers per entry. A page lists its layers,
innermost first, with the kinds of missing values in each. Definition levels number these kinds, from the leaf
outwards; 0 means a value. A repetition level r means that a new list begins in each of the r innermost lists.

    list<int32> [[10, 20], null, [], [30]]     layers leaf, null-and-empty list
    rep 1 0 1 1 1     def 0 0 1 2 0            1 = null list, 2 = empty list

Source: docs/format.md, "Levels". The loops are in `kernels/pages/levels.cpp`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.v2_1.registry import parse_encoding
from lance_core.encodings.values import as_buffer, slice_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_LIST_KINDS = (
    proto.REPDEF_ALL_VALID_LIST,
    proto.REPDEF_NULLABLE_LIST,
    proto.REPDEF_EMPTYABLE_LIST,
    proto.REPDEF_NULL_AND_EMPTY_LIST,
)
_ITEM_KINDS = (proto.REPDEF_ALL_VALID_ITEM, proto.REPDEF_NULLABLE_ITEM)
_CAN_BE_NULL = (proto.REPDEF_NULLABLE_LIST, proto.REPDEF_NULL_AND_EMPTY_LIST)
_NUM_LEVELS: dict[int, int] = {
    proto.REPDEF_ALL_VALID_ITEM: 0,
    proto.REPDEF_ALL_VALID_LIST: 0,
    proto.REPDEF_NULLABLE_ITEM: 1,
    proto.REPDEF_NULLABLE_LIST: 1,
    proto.REPDEF_EMPTYABLE_LIST: 1,
    proto.REPDEF_NULL_AND_EMPTY_LIST: 2,
}


@dataclass(frozen=True, slots=True)
class Node:
    """One node between a leaf and its row: the leaf itself, a struct, a list, or a fixed-size list of
    structs.
    """

    offset_bits: int = 0
    """Bits of an offset of a list; 0 for other nodes."""
    dimension: int = 1
    """Items of a fixed-size list of structs; 1 for other nodes."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The Arrow validity and offsets of a node, with one slot per value, struct or list."""

    length: int
    validity: pa.Buffer | None
    offsets: pa.Buffer | None = None
    """`length + 1` offsets of a list, beginning at 0."""


@dataclass(frozen=True, slots=True)
class ListLevels:
    """Definition levels of a list layer."""

    null: int
    """Level of a null list; -1 if no list is null."""
    empty: int
    """Level of an empty list; -1 if no list is empty."""
    upper: int
    """Highest level of this layer and the layers inside it."""
    shown: int
    """Highest level of a null struct directly around the list. An entry with a higher level has no list here.
    """


def parse_levels(message: proto.CompressiveEncoding) -> LevelCoding:
    """Return the coding of levels, which are 16-bit numbers before any encoding.

    Raises:
        UnsupportedFeatureError: the encoding is never used for levels, or its values have another width.
        CorruptData: the description contradicts itself.
    """
    encoding = parse_encoding(message)
    coding = encoding.level_coding()
    if coding is None:
        raise UnsupportedFeatureError(f"levels encoded as {encoding}")
    return coding


class Structure:
    """The layers of a page, matched with the nesting of its leaf."""

    def __init__(self, layers: Sequence[int], nesting: Sequence[Node]) -> None:
        """Match the layers of a page with the nesting of its leaf, both innermost first.

        Raises:
            CorruptData: the layers do not fit the type of the column.
            UnsupportedFeatureError: lists around or inside fixed-size lists of structs; no release reads
                them.
        """
        self.layers = tuple(layers)
        self.nesting = tuple(nesting)
        if len(layers) != len(nesting):
            raise CorruptData(f"{len(layers)} layers for a leaf with {len(nesting)} levels of nesting")
        self.max_rep = 0
        self.max_visible = 0
        """Highest definition level of an entry that has a slot among the leaf's values."""
        depth_of = [0]
        for layer, node in zip(self.layers, self.nesting, strict=True):
            if layer not in (_LIST_KINDS if node.offset_bits else _ITEM_KINDS):
                raise CorruptData(f"layer kind {layer} for a {'list' if node.offset_bits else 'value'}")
            if node.offset_bits:
                self.max_rep += 1
            depth_of += [self.max_rep] * _NUM_LEVELS[layer]
            if self.max_rep == 0:
                self.max_visible = len(depth_of) - 1
        self.max_def = len(depth_of) - 1
        self._outermost_with_levels = max(
            (
                i
                for i, (layer, node) in enumerate(zip(self.layers, self.nesting, strict=True))
                if node.offset_bits or layer == proto.REPDEF_NULLABLE_ITEM
            ),
            default=0,
        )
        self.depth_of = bytes(depth_of)
        """For each definition level, the number of list layers inside its layer."""
        self.num_slots_per_row = 1
        """Leaf slots per row; more than 1 below fixed-size lists of structs."""
        for node in self.nesting:
            self.num_slots_per_row *= node.dimension
        if self.num_slots_per_row != 1 and self.max_rep:
            raise UnsupportedFeatureError("a list around or inside a fixed-size list of structs")

    @property
    def has_lists(self) -> bool:
        """Whether the column has lists, so that there can be more entries than values."""
        return self.max_rep > 0

    @property
    def is_flat_or_list(self) -> bool:
        """Whether the leaf is a top-level field, or the items of a top-level list."""
        leaf, *around = self.nesting
        return leaf == Node() and (not around or (len(around) == 1 and around[0].offset_bits > 0))

    @property
    def has_null_items(self) -> bool:
        """Whether values of the leaf can be null in this page."""
        return self.layers[0] == proto.REPDEF_NULLABLE_ITEM

    def list_levels(self, i: int) -> ListLevels:
        """Return the definition levels of list layer `i`."""
        kind, limit = self.layers[i], sum(_NUM_LEVELS[inner] for inner in self.layers[:i])
        null = limit + 1 if kind in _CAN_BE_NULL else -1
        limit += _NUM_LEVELS[kind]
        empty = limit if _NUM_LEVELS[kind] and kind != proto.REPDEF_NULLABLE_LIST else -1
        return ListLevels(null, empty, limit, limit + self._nullable_structs_above(i))

    def without_levels(self, num_values: int) -> list[Layer]:
        """Return the layers of a page without levels: everything is valid."""
        layers = []
        for node in self.nesting:
            num_values //= node.dimension
            layers.append(Layer(num_values, None))
        return layers

    def from_validity(
        self, coding: LevelCoding, stream: Stream, counts: Counts, start: int, num_values: int
    ) -> list[Layer]:
        """Return the layers of the values `[start, start + num_values)` of a page without lists.

        The kernels decode levels directly to bitmaps.
        """
        if self.num_slots_per_row != 1:
            levels = coding.decode(stream, counts)
            return self.unravel(None, levels.slice(2 * start, 2 * num_values), num_values)
        layers, limit = [], 0
        for kind in self.layers:
            validity = None
            if kind == proto.REPDEF_NULLABLE_ITEM:
                validity = coding.decode_validity(stream, counts, limit, self.max_def)
                limit += 1
            layers.append(
                Layer(num_values, None if validity is None else slice_bits(validity, start, num_values))
            )
        return layers

    def unravel(self, rep: pa.Buffer | None, def_: pa.Buffer | None, num_values: int) -> list[Layer]:
        """Convert u16 levels of whole rows into layers, innermost first.

        Raises:
            CorruptData: the levels contradict each other or the number of values.
        """
        result: list[Layer] = []
        slots, limit, depth = num_values, 0, 0
        for i, (kind, node) in enumerate(zip(self.layers, self.nesting, strict=True)):
            if node.offset_bits:
                assert rep is not None
                levels = self.list_levels(i)
                limit = levels.upper
                offsets, bits, length, num_nulls, num_children, next_rep, next_def = kernels.list_layer(
                    rep,
                    def_,
                    levels.null,
                    levels.empty,
                    levels.upper,
                    levels.shown,
                    max_rep=self.max_rep - depth,
                    offset_bits=node.offset_bits,
                    with_levels=i < self._outermost_with_levels,
                )
                if num_children != slots:
                    raise CorruptData(f"levels describe {num_children} list items where there are {slots}")
                rep, def_ = as_buffer(next_rep), None if def_ is None else as_buffer(next_def)
                depth += 1
                slots = length
                result.append(Layer(length, as_buffer(bits) if num_nulls else None, as_buffer(offsets)))
                continue
            if node.dimension != 1:
                slots //= node.dimension
                if def_ is not None:
                    def_ = pa.py_buffer(np.frombuffer(def_, "<u2")[:: node.dimension].copy())
            validity = None
            if kind == proto.REPDEF_NULLABLE_ITEM and def_ is not None:
                bits, length, num_nulls = kernels.item_validity(def_, self.depth_of, depth, limit)
                if length != slots:
                    raise CorruptData(f"levels describe {length} values where there are {slots}")
                validity = as_buffer(bits) if num_nulls else None
            limit += _NUM_LEVELS[kind]
            result.append(Layer(slots, validity))
        return result

    def _nullable_structs_above(self, i: int) -> int:
        """Return the number of nullable structs between list layer `i` and the next list outwards. A null
        struct there makes the list null.
        """
        count = 0
        for kind, node in zip(self.layers[i + 1 :], self.nesting[i + 1 :], strict=True):
            if node.offset_bits:
                break
            count += kind == proto.REPDEF_NULLABLE_ITEM
        return count
