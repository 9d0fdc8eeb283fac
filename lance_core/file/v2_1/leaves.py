"""Leaves of a top-level column of 2.1 and 2.2 files, and the column that decoded leaves make up.

A nested column is stored as its leaves, and each leaf repeats the structure above it. So structs and lists
are assembled from the layers of decoded leaves. Source: docs/format.md, "Levels".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_1.layouts.levels import Layer, Node
from lance_core.encodings.v2_1.layouts.page import LeafSlice, LeafType
from lance_core.kernels import CorruptData
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import owns_column


class LeafField(NamedTuple):
    """A field that owns a column, and its nesting."""

    field_id: int
    name: str
    type: LeafType
    num_slots_per_row: int
    """Leaf slots per row; more than 1 below fixed-size lists of structs."""


@lru_cache(maxsize=4096)
def leaf_fields(field: Field) -> tuple[LeafField, ...]:
    """Return the fields at or below `field` that own a column, in column order. Cached for all files of a
    table.
    """
    return tuple(_walk(field, ()))


def _walk(field: Field, above: tuple[Node, ...]) -> Iterator[LeafField]:
    nesting = (_node(field), *above)
    if owns_column(field):
        num_slots = prod(node.dimension for node in nesting)
        yield LeafField(field.id, field.name, LeafType(field.arrow_type, nesting), num_slots)
        return
    for child in field.children:
        yield from _walk(child, nesting)


def _node(field: Field) -> Node:
    kind = field.logical_type
    if kind in ("list", "list.struct", "map"):
        return Node(offset_bits=32)
    if kind in ("large_list", "large_list.struct"):
        return Node(offset_bits=64)
    if field.children and kind.startswith("fixed_size_list"):
        return Node(dimension=field.arrow_type.list_size)
    return Node()


def assemble(field: Field, slices: Mapping[int, LeafSlice]) -> tuple[pa.Array | None, LeafSlice | None]:
    """Return the array of a field from the slices of its leaves, and one of these slices without the field's
    layer.

    Both are None if no leaf below the field is stored.
    """
    if owns_column(field):
        own = slices.get(field.id)
        return (None, None) if own is None else (own.array, own)
    children = [assemble(child, slices) for child in field.children]
    spine = next((slice_ for _, slice_ in children if slice_ is not None), None)
    if spine is None:
        return None, None
    layer, outer = spine.layers[0], LeafSlice(spine.array, spine.layers[1:])
    num_slots = _num_slots(field, layer)
    arrays = [
        pa.nulls(num_slots, child.arrow_type) if array is None else array
        for child, (array, _) in zip(field.children, children, strict=True)
    ]
    if any(len(array) != num_slots for array in arrays):
        raise CorruptData(
            f"children of {[len(array) for array in arrays]} values where there are {num_slots}"
        )
    buffers = [layer.validity] if layer.offsets is None else [layer.validity, layer.offsets]
    return pa.Array.from_buffers(field.arrow_type, layer.length, buffers, children=arrays), outer


def _num_slots(field: Field, layer: Layer) -> int:
    """Return the number of values of the children of a field."""
    if layer.offsets is not None:
        width = layer.offsets.size // (layer.length + 1)
        return int(np.frombuffer(layer.offsets, f"<i{width}", 1, width * layer.length)[0])
    return layer.length * _node(field).dimension
