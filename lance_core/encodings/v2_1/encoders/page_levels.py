"""The levels of one page: its layers, the numbers of the levels, and their coding.

A page declares for each layer only what occurs in it: nulls, empty lists, both or neither. The exceptions are
structs around lists, and fixed-size lists of structs with the layers around them, see `_is_declared`. Levels
are numbered from 1, from the leaf outwards. Source: docs/format.md, "Levels".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.bitpacking import out_of_line_bitpacking_message
from lance_core.encodings.v2_1.encoders.shredding import LIST, NULL, Kind, LeafRows, Step
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
"""Bytes of a run: a level and a length."""
_BLOCK_BYTES = 8
"""Bytes before a block of runs: the size of its values."""

Coding = tuple[str, int]
"""Coding of levels for the kernels: the name ("flat", "packed" or "runs"), and the bits of a packed level."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The repetition or the definition levels of a page, with the numbers of the page."""

    data: Bytes
    """Level of each entry (u16)."""
    highest: int

    @property
    def bits(self) -> int:
        """Bits of the highest level."""
        return self.highest.bit_length()

    def coding(self, is_2_2: bool, num_blocks: int) -> tuple[Coding, proto.CompressiveEncoding]:
        """Return the smallest coding for the levels in `num_blocks` blocks, and its description."""
        num_levels = memoryview(self.data).nbytes // 2
        group_words = 1024 // LEVEL_BITS * self.bits
        # A block ends with a padded group, or with plain levels.
        groups, rest = divmod(num_levels // num_blocks, 1024)
        packed = num_blocks * 2 * (groups * group_words + min(rest, group_words))
        if is_2_2:
            # A run longer than `LONGEST_RUN` is stored as several runs, and no run continues in the next
            # block.
            num_runs = kernels.count_changes(self.data) + num_levels // kernels.LONGEST_RUN + num_blocks
            in_runs = num_runs * _RUN_BYTES + num_blocks * _BLOCK_BYTES
            if in_runs < min(packed, num_levels * 2):
                return ("runs", 0), rle_message(LEVEL_BITS)
        if num_levels <= group_words * num_blocks:
            return ("flat", 0), flat_message(LEVEL_BITS)
        return ("packed", self.bits), out_of_line_bitpacking_message(LEVEL_BITS, self.bits)


@dataclass(frozen=True, slots=True)
class Structure:
    """The levels and counts of a page: everything except its values."""

    layers: tuple[proto.RepDefLayer, ...]
    """Layers, innermost first."""
    rep: Levels | None
    def_: Levels | None
    max_visible: int
    """Highest definition level of an entry that has a value slot."""
    num_entries: int
    num_values: int
    """Number of entries with a value slot."""
    num_valid: int
    """Number of values that are not null."""
    num_rows: int
    """Number of top-level rows."""
    slots_per_row: int
    """Value slots per row; more than 1 below a fixed-size list of structs."""

    @property
    def max_rep(self) -> int:
        """The repetition level at which rows begin: the number of list layers."""
        return 0 if self.rep is None else self.rep.highest

    @property
    def rep_data(self) -> Bytes | None:
        """The repetition levels; None without lists."""
        return None if self.rep is None else self.rep.data

    @property
    def def_data(self) -> Bytes | None:
        """The definition levels; None if all are 0."""
        return None if self.def_ is None else self.def_.data

    @property
    def is_flat(self) -> bool:
        """Whether the leaf is the only layer."""
        return len(self.layers) == 1

    @property
    def page_length(self) -> int:
        """The length in the description of the page: rows, or slots below a fixed-size list of structs."""
        return self.num_rows * self.slots_per_row


def structure_of(rows: LeafRows, steps: Sequence[Step]) -> Structure:
    """Number the levels of a page, including the nulls of the leaf itself."""
    values, def_ = rows.values, rows.def_
    depth, lists = len(steps) - 1, sum(step.kind is Kind.LIST for step in steps)
    null_count = values.null_count
    if null_count:
        dead = _first_dead(steps)
        # An array of the null type has no bitmap.
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
        # Values in a null struct count as null here, because the reference reads members without their
        # struct.
        is_declared = _is_declared(layer, steps) or _is_around_list(layer, steps)
        if is_declared or _under_nulls(layer, steps, counts):
            counts[null] = max(counts[null], 1)
        if steps[layer].kind is Kind.LIST:
            if _has_lists_without_items(layer, steps, counts):
                counts[empty] = max(counts[empty], 1)
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
    """Return whether a struct around this layer, with no list between them, is null in some row."""
    for above in range(layer - 1, -1, -1):
        if steps[above].kind is Kind.LIST:
            return False
        if counts[NULL - 2 * above]:
            return True
    return False


def _is_declared(layer: int, steps: Sequence[Step]) -> bool:
    """Return whether the layer is nullable in every page: a nullable layer at or around a fixed-size list of
    structs.

    The reference fails on a batch whose pages disagree about this flag: it mistakes the slots of the
    fixed-size list for lists.
    """
    return any(step.is_nullable for step in steps[: layer + 1]) and any(
        step.kind is Kind.FIXED_SIZE_LIST for step in steps[layer:]
    )


def _is_around_list(layer: int, steps: Sequence[Step]) -> bool:
    """Return whether the layer is a struct around a list that is nullable in every page, because it or a
    struct around it may be null.

    Where one page has null structs and another has none, the reference takes the items of the lists of the
    other page for structs, and fails on a batch of both pages.
    """
    if steps[layer].kind is not Kind.ITEM or all(step.kind is not Kind.LIST for step in steps[layer + 1 :]):
        return False
    inside = 1 + max((depth for depth in range(layer) if steps[depth].kind is Kind.LIST), default=-1)
    return any(step.is_nullable for step in steps[inside : layer + 1])


def _has_lists_without_items(layer: int, steps: Sequence[Step], counts: Sequence[int]) -> bool:
    """Return whether the layer is a list in a struct of `_is_around_list`, and an entry has no slot in it.

    The reference counts such entries as structs, unless the layer has empty lists, too.
    """
    return any(_is_around_list(above, steps) for above in range(layer)) and any(
        counts[NULL - 2 * above] or counts[NULL - 2 * above + 1] for above in range(layer)
    )


def _first_dead(steps: Sequence[Step]) -> int:
    """Return the lowest definition level of an entry that has no slot in the leaf."""
    lists = [depth for depth, step in enumerate(steps) if step.kind is Kind.LIST]
    return NULL - 2 * lists[-1] if lists else 0xFFFF
