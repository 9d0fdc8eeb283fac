"""Hypothesis strategies: Arrow types as the reference stores them, nested to a given depth, in tables."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from support.tables.arrays import DISTRIBUTIONS, LIST_SHAPES, NULL_PATTERNS, TEXT_DISTRIBUTIONS, Spec
from support.tables.cases import Case, Column
from support.tables.matrix_types import DECIMALS, DICTIONARIES, FIXED_BINARIES, FLOATS, INTEGERS, TEXTS, TIMES

FIXED_LEAVES = (pa.bool_(), *INTEGERS, *FLOATS, *DECIMALS, *TIMES, *FIXED_BINARIES)
LEAVES = (pa.null(), *FIXED_LEAVES, *TEXTS[:4], *DICTIONARIES)
SMALL_SHAPES = tuple(shape for shape in LIST_SHAPES if shape not in ("one_huge", "spanning", "long"))
SMALL_TEXTS = tuple(name for name in TEXT_DISTRIBUTIONS if name != "huge")
MOST_COLUMNS = 4
MOST_ROWS = 2_500


@st.composite
def fields(draw: st.DrawFn, name: str, depth: int, version: str) -> pa.Field:
    """Return a field of a drawn type; null-typed fields are always nullable."""
    data_type = draw(types(depth, version))
    return pa.field(name, data_type, draw(st.booleans()) or pa.types.is_null(data_type))


@st.composite
def types(draw: st.DrawFn, depth: int, version: str) -> pa.DataType:
    """Return a type nested at most `depth` levels deep, of the kinds that the version stores."""
    nested = ("list", "large_list", "struct") + (("map", "structs") if version == "2.2" else ())
    kind = draw(st.sampled_from(("leaf", "vector") + (nested if depth else ())))
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    if kind == "vector":
        vector = pa.list_(draw(st.sampled_from(FIXED_LEAVES)), draw(st.integers(1, 40)))
        return pa.list_(vector, draw(st.integers(1, 4))) if draw(st.booleans()) else vector
    if kind == "map":
        key = draw(st.sampled_from((pa.string(), pa.int32(), pa.binary(4))))
        return pa.map_(key, draw(types(depth - 1, version)))
    if kind == "structs":
        return pa.list_(draw(_structs(0, version)), draw(st.integers(1, 3)))
    if kind == "struct":
        return draw(_structs(depth - 1, version))
    item = draw(fields("item", depth - 1, version))
    return pa.list_(item) if kind == "list" else pa.large_list(item)


@st.composite
def _structs(draw: st.DrawFn, depth: int, version: str) -> pa.DataType:
    return pa.struct([draw(fields(f"f{index}", depth, version)) for index in range(draw(st.integers(1, 3)))])


def _holds_fixed_size_list_of_structs(data_type: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(data_type) and pa.types.is_struct(data_type.value_type):
        return True
    return any(
        _holds_fixed_size_list_of_structs(data_type.field(index).type)
        for index in range(0 if pa.types.is_dictionary(data_type) else data_type.num_fields)
    )


def _is_writable(data_type: pa.DataType) -> bool:
    """False for lists and maps around fixed_size_list<struct>: the reference panics on them."""
    if pa.types.is_dictionary(data_type):
        return True
    children = [data_type.field(index).type for index in range(data_type.num_fields)]
    is_list = pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_map(data_type)
    if is_list and any(_holds_fixed_size_list_of_structs(child) for child in children):
        return False
    return all(_is_writable(child) for child in children)


def encodings(data_type: pa.DataType) -> st.SearchStrategy[dict[str, str]]:
    """Metadata that steers the encoding of a top-level leaf; mostly none."""
    if data_type.num_fields or pa.types.is_dictionary(data_type):
        return st.just({})
    compression = st.sampled_from(("none", "lz4", "zstd", "fsst"))
    layout = st.sampled_from(("miniblock", "fullzip"))
    steered = st.fixed_dictionaries(
        {},
        optional={
            "lance-encoding:compression": compression,
            "lance-encoding:structural-encoding": layout,
            "lance-encoding:bss": st.sampled_from(("on", "off")),
            "lance-encoding:rle-threshold": st.sampled_from(("0.0", "0.5", "1.0")),
            "lance-encoding:dict-divisor": st.sampled_from(("1", "1000000")),
            "lance-encoding:minichunk-size": st.sampled_from(("256", "16384")),
        },
    )
    return st.just({}) | steered


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Return a strategy for specifications of columns."""
    distribution = draw(st.sampled_from(DISTRIBUTIONS + SMALL_TEXTS))
    return Spec(distribution, draw(st.sampled_from(NULL_PATTERNS)), draw(st.sampled_from(SMALL_SHAPES)))


@st.composite
def cases(draw: st.DrawFn, version: str, depth: int = 4) -> Case:
    """Return a case of a few columns, some hundred rows and one to three pages."""
    columns = []
    for index in range(draw(st.integers(1, MOST_COLUMNS))):
        data_type = draw(types(draw(st.integers(0, depth)), version).filter(_is_writable))
        nullable = draw(st.booleans()) or pa.types.is_null(data_type)
        field = pa.field(f"c{index}", data_type, nullable, draw(encodings(data_type)) or None)
        columns.append(Column(field, draw(specs())))
    rows = draw(st.sampled_from((0, 1, 2, 100, 1_024)) | st.integers(0, MOST_ROWS))
    pages = draw(st.integers(1, 3)) if rows else 1
    seed = draw(st.integers(0, 2**32 - 1))
    return Case(f"generated-{seed}", tuple(columns), rows, pages, (version,))
