"""The levels of one page: layers, numbers, and how the numbers are stored.

A page declares of each layer only what occurs in it: nulls, empty lists, both or neither. Fixed-size lists of
structs, and what is around them, are the exception (`_is_declared`). Numbers start at 1 and go from the leaf
outwards (docs/format.md, "Levels").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.bitpacking import out_of_line_bitpacking_message
from lance_core.encodings.v2_1.encoders.shred import LIST, NULL, Kind, LeafRows, Step
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.v2_1.rle import rle_message
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes

LEVEL_BITS = 16
_LIST_KINDS = {
    (False, False): proto.REPDEF_ALL_VALID_LIST,
    (True, False): proto.REPDEF_NULLABLE_LIST,
    (False, True): proto.REPDEF_EMPTYABLE_LIST,
    (True, True): proto.REPDEF_NULL_AND_EMPTY_LIST,
}
_RUN_BYTES = 3
"""A level and its count."""
_BLOCK_BYTES = 8
"""Bytes in front of a block of runs, which hold the size of its values."""

Coding = tuple[str, int]
"""Coding of levels, as the kernels spell it: "flat", "packed" in so many bits, or "runs"."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of one kind, renumbered."""

    data: Bytes
    """u16 per entry."""
    highest: int

    @property
    def bits(self) -> int:
        """Bits of the highest level."""
        return self.highest.bit_length()

    def coding(self, is_2_2: bool, num_blocks: int) -> tuple[Coding, proto.CompressiveEncoding]:
        """Return the smallest coding for levels that are stored in `num_blocks` blocks, and its
        description.
        """
        num_levels = memoryview(self.data).nbytes // 2
        group_words = 1024 // LEVEL_BITS * self.bits
        # Blocks end with a group that is filled up, or with plain levels.
        groups, rest = divmod(num_levels // num_blocks, 1024)
        packed = num_blocks * 2 * (groups * group_words + min(rest, group_words))
        if is_2_2:
            # Long runs count as several, and all end with their block.
            num_runs = kernels.count_changes(self.data) + num_levels // kernels.LONGEST_RUN + num_blocks
            in_runs = num_runs * _RUN_BYTES + num_blocks * _BLOCK_BYTES
            if in_runs < min(packed, num_levels * 2):
                return ("runs", 0), rle_message(LEVEL_BITS)
        if num_levels <= group_words * num_blocks:
            return ("flat", 0), flat_message(LEVEL_BITS)
        return ("packed", self.bits), out_of_line_bitpacking_message(LEVEL_BITS, self.bits)


@dataclass(frozen=True, slots=True)
class Structure:
    """Everything around the values of a page."""

    layers: tuple[proto.RepDefLayer, ...]
    """Innermost first."""
    rep: Levels | None
    def_: Levels | None
    max_visible: int
    """Entries up to this definition level have a value slot."""
    num_entries: int
    num_values: int
    """Entries with a value slot."""
    num_valid: int
    """Values that are not null."""
    num_rows: int
    """Top-level rows."""
    slots_per_row: int
    """More than 1 below a fixed-size list of structs."""

    @property
    def max_rep(self) -> int:
        """The repetition level at which rows begin: the number of list layers."""
        return 0 if self.rep is None else self.rep.highest

    @property
    def rep_data(self) -> Bytes | None:
        """The repetition levels, where there are any."""
        return None if self.rep is None else self.rep.data

    @property
    def def_data(self) -> Bytes | None:
        """The definition levels, where there are any."""
        return None if self.def_ is None else self.def_.data

    @property
    def is_flat(self) -> bool:
        """Whether there is nothing around the leaf."""
        return len(self.layers) == 1

    @property
    def page_length(self) -> int:
        """Return the length in the description of the page."""
        return self.num_rows * self.slots_per_row


def structure_of(rows: LeafRows, steps: Sequence[Step]) -> Structure:
    """Number the levels of a page, with the nulls of the leaf itself."""
    values, def_ = rows.values, rows.def_
    depth, lists = len(steps) - 1, sum(step.kind is Kind.LIST for step in steps)
    null_count = values.null_count
    if null_count:
        dead = _first_dead(steps)
        # The null type has no bitmap.
        is_null = pa.types.is_null(values.type)
        validity = np.zeros(len(values) // 8 + 1, np.uint8).data if is_null else values.buffers()[0]
        first_bit = 0 if is_null else values.offset
        def_ = kernels.shred_items(
            def_, rows.num_entries, validity, first_bit, len(values), NULL - 2 * depth, dead
        )
    if def_ is None and any(_is_declared(layer, steps) for layer in range(depth + 1)):
        def_ = bytes(2 * rows.num_entries)
    counts = [0] * (NULL + 2) if def_ is None else kernels.count_levels(def_, NULL + 1)
    layers, number, max_visible = [], 1, None
    numbers = [0] * (NULL + 2)
    for layer in range(depth, -1, -1):
        null, empty = NULL - 2 * layer, NULL - 2 * layer + 1
        # What lies in a null struct counts as null, too: the reference reads members without their struct.
        if _under_nulls(layer, steps, counts) or _is_declared(layer, steps):
            counts[null] = max(counts[null], 1)
        if steps[layer].kind is Kind.LIST:
            if max_visible is None:
                max_visible = number - 1
            layers.append(_LIST_KINDS[counts[null] > 0, counts[empty] > 0])
        else:
            layers.append(proto.REPDEF_NULLABLE_ITEM if counts[null] else proto.REPDEF_ALL_VALID_ITEM)
        for level in (null, empty):
            if counts[level]:
                numbers[level] = number
                number += 1
    highest = number - 1
    rep = None
    if rows.rep is not None:
        to_inner = [0] * (LIST + 1)
        for outer in range(lists):
            to_inner[LIST - outer] = lists - outer
        rep = Levels(kernels.map_levels(rows.rep, to_inner), lists)
    slots = 1
    for step in steps:
        slots *= step.dimension
    return Structure(
        tuple(layers),
        rep,
        Levels(kernels.map_levels(def_, numbers), highest) if highest and def_ is not None else None,
        highest if max_visible is None else max_visible,
        rows.num_entries,
        len(values),
        rows.num_entries if def_ is None else counts[0],
        rows.num_rows,
        slots,
    )


def _under_nulls(layer: int, steps: Sequence[Step], counts: Sequence[int]) -> bool:
    """Return whether a struct around this layer, with no list between them, is null somewhere."""
    for above in range(layer - 1, -1, -1):
        if steps[above].kind is Kind.LIST:
            return False
        if counts[NULL - 2 * above]:
            return True
    return False


def _is_declared(layer: int, steps: Sequence[Step]) -> bool:
    """Return whether the layer is nullable in every page: at or around fixed-size lists, if nulls are
    allowed.

    The reference fails on a batch whose pages disagree about this: it mistakes the slots of the fixed-size
    lists for lists.
    """
    return any(step.is_nullable for step in steps[: layer + 1]) and any(
        step.kind is Kind.FIXED_SIZE_LIST for step in steps[layer:]
    )


def _first_dead(steps: Sequence[Step]) -> int:
    """Definition levels from here on end an entry before the leaf."""
    lists = [depth for depth, step in enumerate(steps) if step.kind is Kind.LIST]
    return NULL - 2 * lists[-1] if lists else 0xFFFF
