"""The cells of the matrix that 2.0 files can hold.

The same types, nestings and distributions as in `cases`, but for what 2.0 lacks: structs that are null, maps
and fixed-size lists of structs. The sizes are those at which 2.0 pages change: bitmaps end inside a byte,
and strings with few distinct values become dictionaries from 100 rows on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from support.tables.arrays import Spec
from support.tables.cases import (
    DEFAULT_SIZES,
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
    LONG_RUN_LEAVES,
    NESTED_LEAVES,
    NESTINGS,
)

VERSIONS = ("2.0",)
SIZES = (0, 1, 7, 99, 100, 1025)

LEFT_OUT = {
    "null structs": "refused by the reference: 2.0 has no place for them",
    "map, fixed_size_list<struct>": "refused or unreadable: 2.2 only",
    "packed struct with variable children, nulls or bool": "refused or unreadable",
    "FSST over large strings, and over pages of nulls alone": "the writer panics",
    "string_view and binary_view in several pages": "the file writer refuses them",
}


@cache
def cases_2_0() -> tuple[Case, ...]:
    """Every case of 2.0."""
    groups = (_leaf_cases, _nested_cases, _compressed_cases, _packed_cases, _page_cases)
    return tuple(case for group in groups for case in group())


def _leaf_cases() -> Iterator[Case]:
    for leaf in LEAF_TYPES:
        for rows in SIZES:
            long = leaf not in EVERY_SIZE_LEAVES and rows not in DEFAULT_SIZES
            yield _case(f"leaf-{short_name(leaf)}-{rows}", leaf_columns(leaf, rows), rows, long=long)
        if leaf in EVERY_SIZE_LEAVES:
            columns = leaf_columns(leaf, LARGE_SIZE)[::3]
            yield _case(f"leaf-{short_name(leaf)}-{LARGE_SIZE}", columns, LARGE_SIZE)


def _nested_cases() -> Iterator[Case]:
    nestings = [(name, nest, NESTED_LEAVES) for name, nest in NESTINGS.items()]
    nestings += [(name, nest, FIXED_LEAVES) for name, nest in FIXED_NESTINGS.items()]
    for name, nest, leaves in nestings:
        most_rows = 80 if name == "list8" else 325
        for leaf in leaves:
            columns = _columns(nest(leaf), NESTED_SPECS)
            title = f"nested-{name}-{short_name(leaf)}"
            yield _case(f"{title}-{most_rows}", columns, most_rows, long=leaf in LONG_RUN_LEAVES)
            if leaf not in (pa.int32(), pa.string()):
                continue
            for rows in (0, 1):
                yield _case(f"{title}-{rows}", columns, rows, long=rows == 1)
            yield _case(f"{title}-5pages", columns, most_rows, pages=5)
            if "fsl" not in name and name != "list8":
                columns = _columns(nest(leaf), LONG_LIST_SPECS)
                yield _case(f"{title}-long_lists", columns, 150, long=is_long_list(name, leaf))


def _compressed_cases() -> Iterator[Case]:
    """General compression and FSST, which only the metadata of a field of strings asks for."""
    specs = (Spec("random"), Spec("words", "sparse"), Spec("long"), Spec("mixed", "half"), Spec("empty"))
    for compression in ("zstd", "lz4", "fsst"):
        for leaf in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
            if compression == "fsst" and leaf in (pa.large_string(), pa.large_binary()):
                continue  # see LEFT_OUT
            metadata = {"lance-encoding:compression": compression}
            title = f"compressed-{compression}-{short_name(leaf)}"
            columns = _columns(leaf, specs, metadata)
            for rows in (1, 50, 4_000)[compression == "fsst" :]:
                yield _case(f"{title}-{rows}", columns, rows)
            yield _case(f"{title}-3pages", columns, 300, pages=3)
            listed = pa.list_(pa.field("item", leaf, metadata=metadata))
            yield _case(f"{title}-list", _columns(listed, specs), 300)
    for leaf in (pa.int32(), pa.float64(), pa.list_(pa.float32(), 6)):
        yield _case(
            f"compressed-zstd-{short_name(leaf)}-2000",
            _columns(leaf, NESTED_SPECS, {"lance-encoding:compression": "zstd"}),
            2_000,
        )


def _packed_cases() -> Iterator[Case]:
    packed = {"lance-encoding:packed": "true"}
    types = (
        (pa.int32(), pa.int8()),
        (pa.float64(), pa.decimal128(10, 1), pa.binary(3), pa.timestamp("us")),
        (pa.uint16(),),
        (pa.int8(), pa.list_(pa.float32(), 3)),
    )
    for number, children in enumerate(types):
        data_type = pa.struct([pa.field(f"f{index}", child, False) for index, child in enumerate(children)])
        columns = _columns(data_type, (Spec("random"), Spec("few"), Spec("constant")), packed)
        for rows in (0, 1, 300):
            yield _case(f"packed{number}-{rows}", columns, rows)
        yield _case(f"packed{number}-4pages", columns, 300, pages=4)
        listed = pa.list_(pa.field("item", data_type, False, packed))
        yield _case(
            f"packed{number}-list", _columns(listed, (Spec("random"), Spec("few", "none", "spanning"))), 200
        )


def _page_cases() -> Iterator[Case]:
    for leaf in LEAF_TYPES:
        if leaf in (pa.string_view(), pa.binary_view()):
            continue  # see LEFT_OUT
        small_keys = pa.types.is_dictionary(leaf) and leaf.index_type.bit_width == 8
        fails = "its dictionaries of several pages outgrow the key type" if small_keys else ""
        title = f"pages-{short_name(leaf)}-6"
        columns = leaf_columns(leaf, 0)
        yield _case(title, columns[::3], 1_100, pages=6, reference_fails=fails)
        yield _case(f"{title}-all", columns, 1_100, pages=6, long=True, reference_fails=fails)
    for leaf in (pa.string(), pa.large_binary()):
        specs = (Spec("huge"), Spec("huge", "half"))
        yield _case(f"huge-{short_name(leaf)}-flat", _columns(leaf, specs), 5, pages=2)
        yield _case(f"huge-{short_name(leaf)}-list", _columns(pa.list_(leaf), specs), 3)
    for rows in (0, 1, 1_025):
        empty = Column(pa.field("nothing", pa.struct([]), False), Spec())
        yield _case(f"empty_struct-{rows}", (empty,), rows)


def _columns(
    data_type: pa.DataType, specs: tuple[Spec, ...], metadata: dict[str, str] | None = None
) -> tuple[Column, ...]:
    return tuple(
        Column(pa.field(f"c{index}_{spec}", data_type, index % 5 != 4, metadata), spec)
        for index, spec in enumerate(specs)
    )


def _case(
    name: str,
    columns: tuple[Column, ...],
    rows: int,
    *,
    pages: int = 1,
    long: bool = False,
    reference_fails: str = "",
) -> Case:
    stored = tuple(Column(present(column.field), column.spec) for column in columns)
    return Case(name, stored, rows, pages, VERSIONS, long, reference_fails)


def present(field: pa.Field) -> pa.Field:
    """Return the field with every struct at or below it required."""
    data_type = field.type
    if isinstance(data_type, pa.BaseExtensionType):
        return field
    if pa.types.is_struct(data_type):
        children = [present(child) for child in data_type]
        return field.with_type(pa.struct(children)).with_nullable(False)
    if pa.types.is_list(data_type):
        return field.with_type(pa.list_(present(data_type.value_field)))
    if pa.types.is_large_list(data_type):
        return field.with_type(pa.large_list(present(data_type.value_field)))
    return field
