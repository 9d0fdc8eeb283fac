"""Cases of the matrix for 0.1 files, and the values that the 0.1 format can store of them.

The reference refuses maps, fixed_size_list<struct>, dictionaries of bool and floats. It writes no file for a
table without rows. It cannot read back lists whose item has another name than "item" or is not nullable.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from support.oracles.checks import VIEWS
from support.tables.arrays import Spec
from support.tables.cases import (
    LARGE_SIZE,
    LONG_LIST_SPECS,
    NESTED_SPECS,
    Case,
    Column,
    is_long_list,
    leaf_columns,
    short_name,
)
from support.tables.matrix_types import (
    EVERY_SIZE_LEAVES,
    FIXED_LEAVES,
    FIXED_NESTINGS,
    LEAF_TYPES,
    NESTED_LEAVES,
    NESTINGS,
)
from support.tables.reference import write_reference

VERSION = "0.1"
ROWS_PER_BATCH = 1024
"""Rows per batch that the reference uses by default."""

EVERY_NESTING_LEAVES = (
    pa.bool_(),
    pa.int32(),
    pa.null(),
    pa.string(),
    pa.dictionary(pa.int8(), pa.string()),
)
LARGE = (pa.large_binary(), pa.large_string())
_ITEMS = "it loses name and nullability of list items and then refuses its own arrays"
_MISREAD = dict.fromkeys(("named_item", "required"), _ITEMS)


def legacy_cases() -> Iterator[Case]:
    """Every leaf type and every nesting that 0.1 has, in one batch and in several."""
    for leaf in filter(_is_writable, LEAF_TYPES):
        for rows in (1, ROWS_PER_BATCH, 2 * ROWS_PER_BATCH + 1):
            columns = leaf_columns(leaf, rows)
            long = leaf not in EVERY_SIZE_LEAVES and rows <= ROWS_PER_BATCH
            yield Case(f"leaf-{short_name(leaf)}-{rows}", columns, rows, versions=(VERSION,), long=long)
        if leaf in EVERY_SIZE_LEAVES:
            title = f"leaf-{short_name(leaf)}-{LARGE_SIZE}"
            yield Case(title, leaf_columns(leaf, LARGE_SIZE)[::3], LARGE_SIZE, versions=(VERSION,))
    nestings = [(name, nest, NESTED_LEAVES) for name, nest in NESTINGS.items()]
    nestings += [(name, nest, FIXED_LEAVES) for name, nest in FIXED_NESTINGS.items()]
    for name, nest, leaves in nestings:
        for leaf in leaves:
            title, rows = f"nested-{name}-{short_name(leaf)}", 80 if name == "list8" else 325
            long = leaf not in EVERY_NESTING_LEAVES
            yield _nested_case(f"{title}-{rows}", nest(leaf), NESTED_SPECS, rows, name, long)
            if leaf not in (pa.int32(), pa.string()) or name == "list8":
                continue
            yield _nested_case(f"{title}-3000", nest(leaf), NESTED_SPECS, 3_000, name)
            if "fsl" not in name:
                long = is_long_list(name, leaf)
                yield _nested_case(f"{title}-long_lists", nest(leaf), LONG_LIST_SPECS, 150, name, long)


def _nested_case(
    name: str, data_type: pa.DataType, specs: tuple[Spec, ...], rows: int, nesting: str, long: bool = False
) -> Case:
    columns = tuple(Column(pa.field(f"c{index}_{spec}", data_type), spec) for index, spec in enumerate(specs))
    return Case(
        name, columns, rows, versions=(VERSION,), long=long, reference_fails=_MISREAD.get(nesting, "")
    )


def _is_writable(data_type: pa.DataType) -> bool:
    if not pa.types.is_dictionary(data_type):
        return True
    return not (pa.types.is_boolean(data_type.value_type) or pa.types.is_floating(data_type.value_type))


def write_legacy(case: Case, path: Path, rows_per_batch: int = ROWS_PER_BATCH) -> pa.Table:
    """Write the case with the reference; returns what 0.1 keeps of it."""
    source = pa.Table.from_batches(case.batches())
    write_reference(source, path, VERSION, max_rows_per_group=rows_per_batch)
    return kept(source)


def kept(table: pa.Table) -> pa.Table:
    """Return a table as it is read back: nulls only of strings and bytes, which includes empty values.

    Null structs become structs of what lay below them, null lists the list they cover, null booleans false,
    other nulls the value that lay below them.
    """
    columns = [
        pa.chunked_array([_kept(chunk, field.nullable) for chunk in table[field.name].chunks])
        for field in table.schema
    ]
    return pa.table(columns, names=table.schema.names)


def _kept(array: pa.Array, nullable: bool) -> pa.Array:
    data_type = array.type
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, _kept(array.storage, nullable))
    if pa.types.is_null(data_type):
        return array
    if pa.types.is_struct(data_type):
        children = [_kept(array.field(i), field.nullable) for i, field in enumerate(data_type)]
        return pa.Array.from_buffers(data_type, len(array), [None], children=children)
    if pa.types.is_fixed_size_list(data_type):
        items = _kept(array.values, False)
        return pa.Array.from_buffers(data_type, len(array), [None], children=[items])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        items = _kept(array.values, data_type.value_field.nullable)
        return pa.Array.from_buffers(
            data_type, len(array), [None, array.offsets.buffers()[1]], children=[items]
        )
    if pa.types.is_dictionary(data_type):
        return pa.DictionaryArray.from_arrays(_kept(array.indices, False), array.dictionary)
    if pa.types.is_boolean(data_type):
        return array.fill_null(False)
    if data_type in VIEWS:
        return _kept(array.cast(VIEWS[data_type]), nullable)
    if not (pa.types.is_binary(data_type) or pa.types.is_string(data_type) or data_type in LARGE):
        return pa.Array.from_buffers(data_type, len(array), [None, array.buffers()[1]])
    if not nullable:
        return array
    has_bytes = pc.greater(pc.binary_length(array.cast(pa.large_binary())), 0)
    return pc.if_else(has_bytes, array, pa.scalar(None, data_type))
