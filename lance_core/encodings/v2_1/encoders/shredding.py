"""Shredding: takes an array apart into leaves, each with its values and levels.

Here levels are numbered from the outside, because the leaves of a column share their outer layers: layer `d`
from the outside has level `NULL - 2 * d` for null and one more for empty. A page renumbers them from the
inside and leaves out the levels that do not occur in it (`page_levels`).

Values below a null list, or in a list below a null struct, are left out. A leaf below a null struct keeps its
slot. Source: docs/format.md, "Levels".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import flatten_lists
from lance_core.errors import UnsupportedFeatureError
from lance_core.schema import Field, owns_column
from lance_core.schema.tree import MAX_DEPTH
from lance_core.storage.base import Bytes

NULL = 2 * MAX_DEPTH + 2
"""Definition level of a null in the outermost layer. Each layer further in has a level lower by two."""
LIST = MAX_DEPTH + 1
"""Repetition level of the outermost list. Each list further in has a level lower by one."""
NO_DEATH = 0xFFFF
"""A level above all definition levels: every entry has a slot."""


class Kind(Enum):
    """Kind of a layer."""

    ITEM = "item"
    LIST = "list"
    FIXED_SIZE_LIST = "fixed_size_list"


@dataclass(frozen=True, slots=True)
class Step:
    """One layer above a leaf, or the leaf itself."""

    kind: Kind
    dimension: int = 1
    """Slots below each slot of a fixed-size list of structs."""
    is_nullable: bool = True


@dataclass(frozen=True, slots=True)
class LeafRows:
    """Rows of one leaf column."""

    values: pa.Array
    """Values of the storage type, one per slot; null if the leaf itself is null."""
    num_rows: int
    num_entries: int
    rep: Bytes | None
    """Repetition level of each entry (u16); None without lists."""
    def_: Bytes | None
    """Definition level of each entry (u16), without the nulls of the leaf itself; None if all levels are 0.
    """


def steps_of(top: Field) -> Iterator[tuple[Field, tuple[Step, ...]]]:
    """Yield every leaf below a top-level field, in column order, and its layers, outermost first.

    Raises:
        UnsupportedFeatureError: lists around or inside fixed-size lists of structs, which no release reads.
    """
    yield from _walk(top, ())


def shred(top: Field, array: pa.Array) -> Iterator[LeafRows]:
    """Shred an array of a top-level field. Yields the leaves in the order of `steps_of`."""
    yield from _shred(top, array, len(array), _Levels(0, 0, len(array), None, None, NO_DEATH))


@dataclass(frozen=True, slots=True)
class _Levels:
    """The levels of the layers outside a node."""

    depth: int
    lists: int
    num_entries: int
    rep: Bytes | None
    def_: Bytes | None
    dead: int
    """Lowest definition level of an entry that has no slot in the node."""


def _walk(field: Field, above: tuple[Step, ...]) -> Iterator[tuple[Field, tuple[Step, ...]]]:
    step = Step(Kind.ITEM, is_nullable=field.nullable)
    if not owns_column(field):
        if field.logical_type.startswith("fixed_size_list"):
            step = Step(Kind.FIXED_SIZE_LIST, field.arrow_type.list_size, field.nullable)
        elif field.logical_type != "struct":
            step = Step(Kind.LIST, is_nullable=field.nullable)
    kinds = {known.kind for known in above}
    if {Kind.LIST, Kind.FIXED_SIZE_LIST} <= kinds | {step.kind}:
        raise UnsupportedFeatureError(
            "lists together with fixed-size lists of structs in one column", column=field.name
        )
    steps = (*above, step)
    if owns_column(field):
        yield field, steps
        return
    for child in field.children:
        yield from _walk(child, steps)


def _shred(field: Field, array: pa.Array, num_rows: int, levels: _Levels) -> Iterator[LeafRows]:
    if owns_column(field):
        yield LeafRows(array, num_rows, levels.num_entries, levels.rep, levels.def_)
        return
    if field.logical_type == "struct":
        inner = _item_layer(array, levels)
        for child, values in zip(field.children, array.flatten(), strict=True):
            yield from _shred(child, values, num_rows, inner)
        return
    (child,) = field.children
    if field.logical_type.startswith("fixed_size_list"):
        size = array.type.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        yield from _shred(child, values, num_rows, _repeated(_item_layer(array, levels), size))
        return
    if field.logical_type == "map":
        array = _entries(array, child)
    yield from _shred(child, flatten_lists(array), num_rows, _list_layer(array, levels))


def _item_layer(array: pa.Array, levels: _Levels) -> _Levels:
    def_ = levels.def_
    if array.null_count:
        def_ = kernels.shred_items(
            def_,
            levels.num_entries,
            array.buffers()[0],
            array.offset,
            len(array),
            NULL - 2 * levels.depth,
            levels.dead,
        )
    return _Levels(levels.depth + 1, levels.lists, levels.num_entries, levels.rep, def_, levels.dead)


def _list_layer(array: pa.Array, levels: _Levels) -> _Levels:
    width = 8 if pa.types.is_large_list(array.type) else 4
    null = NULL - 2 * levels.depth
    validity, offsets = array.buffers()[:2]
    rep, def_, num_entries = kernels.shred_lists(
        levels.rep,
        levels.def_,
        levels.num_entries,
        offsets.slice(array.offset * width),
        8 * width,
        len(array),
        validity if array.null_count else None,
        array.offset,
        null,
        null + 1,
        LIST - levels.lists,
        levels.dead,
    )
    return _Levels(levels.depth + 1, levels.lists + 1, num_entries, rep, def_, null)


def _repeated(levels: _Levels, size: int) -> _Levels:
    def_ = None if levels.def_ is None else kernels.repeat_levels(levels.def_, size)
    return _Levels(levels.depth, levels.lists, levels.num_entries * size, None, def_, levels.dead)


def _entries(array: pa.MapArray, entries: Field) -> pa.ListArray:
    """Convert a map array to a list array of structs, without a copy."""
    key, item = entries.arrow_type.field(0), entries.arrow_type.field(1)
    values = pa.StructArray.from_arrays([array.keys, array.items], fields=[key, item])
    return pa.Array.from_buffers(
        pa.list_(pa.field("entries", values.type, nullable=False)),
        len(array),
        array.buffers()[:2],
        array.null_count,
        array.offset,
        children=[values],
    )
