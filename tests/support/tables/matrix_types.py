"""Types of the columns of the matrix: leaf types, and nestings of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

INTEGERS = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())
FLOATS = (pa.float16(), pa.float32(), pa.float64())
DECIMALS = (pa.decimal128(5, 2), pa.decimal128(38, 3), pa.decimal256(40, 10), pa.decimal256(76, 0))
TIMES = (
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("ns", "+02:00"),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
)
FIXED_BINARIES = tuple(pa.binary(width) for width in (1, 3, 8, 16, 40, 300))
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view())
DICTIONARIES = (
    *(pa.dictionary(index, pa.string()) for index in INTEGERS),
    *(
        pa.dictionary(pa.int16(), value)
        for value in (
            pa.large_string(),
            pa.binary(),
            pa.large_binary(),
            pa.bool_(),
            pa.int8(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
        )
    ),
)
EXTENSIONS = (pa.uuid(), pa.bool8(), pa.fixed_shape_tensor(pa.float32(), (2, 3)))
LEAF_TYPES = (
    pa.null(),
    pa.bool_(),
    *INTEGERS,
    *FLOATS,
    *DECIMALS,
    *TIMES,
    *FIXED_BINARIES,
    *TEXTS,
    *DICTIONARIES,
    *EXTENSIONS,
)


EVERY_SIZE_LEAVES = (
    pa.bool_(),
    pa.uint8(),
    pa.int32(),
    pa.float64(),
    pa.decimal128(38, 3),
    pa.string(),
    pa.binary(),
)

Nest = Callable[[pa.DataType], pa.DataType]


def _deep(levels: int, wrap: Callable[[int, pa.DataType], pa.DataType]) -> Nest:
    def nest(leaf: pa.DataType) -> pa.DataType:
        for level in range(levels):
            leaf = wrap(level, leaf)
        return leaf

    return nest


def _required(leaf: pa.DataType) -> pa.DataType:
    """Not nullable at any level."""
    inner = pa.struct([pa.field("a", leaf, leaf == pa.null()), pa.field("b", pa.int16(), False)])
    return pa.struct([pa.field("l", pa.list_(pa.field("item", inner, False)), False)])


NESTINGS: Mapping[str, Nest] = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "named_item": lambda leaf: pa.list_(pa.field("element", leaf, metadata={"note": "kept"})),
    "list2": lambda leaf: pa.list_(pa.list_(leaf)),
    "list3": lambda leaf: pa.list_(pa.large_list(pa.list_(leaf))),
    "list8": _deep(8, lambda _, leaf: pa.list_(leaf)),
    "struct": lambda leaf: pa.struct([("a", leaf), ("b", pa.int64()), ("c", leaf)]),
    "struct3": lambda leaf: pa.struct([("a", pa.struct([("b", pa.struct([("c", leaf)])), ("d", leaf)]))]),
    "struct20": _deep(20, lambda level, leaf: pa.struct([(f"s{level}", leaf)])),
    "list_struct": lambda leaf: pa.list_(pa.struct([("a", leaf), ("b", pa.string())])),
    "struct_list": lambda leaf: pa.struct([("a", pa.list_(leaf)), ("b", leaf)]),
    "list_struct_list": lambda leaf: pa.list_(pa.struct([("a", leaf), ("b", pa.list_(leaf))])),
    "struct_list_struct_list": lambda leaf: pa.struct(
        [("a", pa.list_(pa.struct([("b", pa.list_(leaf)), ("c", leaf)]))), ("d", pa.int8())]
    ),
    "required": _required,
}
FIXED_NESTINGS: Mapping[str, Nest] = {
    "fsl1": lambda leaf: pa.list_(leaf, 1),
    "fsl2": lambda leaf: pa.list_(leaf, 2),
    "fsl_required_items": lambda leaf: pa.list_(pa.field("item", leaf, False), 5),
    "fsl_wide": lambda leaf: pa.list_(leaf, 300),
    "fsl_fsl": lambda leaf: pa.list_(pa.list_(leaf, 3), 2),
    "struct_fsl": lambda leaf: pa.struct([("v", pa.list_(leaf, 4)), ("a", leaf)]),
    "list_fsl": lambda leaf: pa.list_(pa.list_(leaf, 3)),
    "list_fsl_wide": lambda leaf: pa.list_(pa.list_(leaf, 100)),
}
NESTINGS_2_2: Mapping[str, Nest] = {
    "map": lambda leaf: pa.map_(pa.string(), leaf),
    "map_int": lambda leaf: pa.map_(pa.int32(), leaf),
    "list_map": lambda leaf: pa.list_(pa.map_(pa.int32(), leaf)),
    "map_map": lambda leaf: pa.map_(pa.string(), pa.map_(pa.int8(), leaf)),
    "map_list_struct": lambda leaf: pa.map_(pa.string(), pa.list_(pa.struct([("a", leaf)]))),
    "struct_map": lambda leaf: pa.struct([("m", pa.map_(pa.string(), leaf)), ("a", leaf)]),
    "fsl_struct": lambda leaf: pa.list_(pa.struct([("a", leaf), ("b", pa.int8())]), 3),
    "struct_fsl_struct": lambda leaf: pa.struct(
        [("q", pa.list_(pa.struct([("a", leaf), ("b", pa.int8())]), 3))]
    ),
    "fsl_struct_struct": lambda leaf: pa.list_(pa.struct([("a", pa.struct([("z", leaf)]))]), 2),
    "fsl_struct_fsl_struct": lambda leaf: pa.list_(
        pa.struct([("a", pa.list_(pa.struct([("z", leaf)]), 2))]), 2
    ),
}
FIXED_NESTINGS_2_2: Mapping[str, Nest] = {
    "map_fsl": lambda leaf: pa.map_(pa.string(), pa.list_(leaf, 2)),
    "fsl_struct_fsl": lambda leaf: pa.list_(pa.struct([("a", pa.list_(leaf, 2))]), 2),
}

FIXED_LEAVES = (
    pa.bool_(),
    pa.int32(),
    pa.uint8(),
    pa.float16(),
    pa.float64(),
    pa.decimal128(20, 2),
    pa.decimal256(60, 1),
    pa.timestamp("us", "UTC"),
    pa.binary(5),
)
LONG_RUN_LEAVES = (
    pa.uint8(),
    pa.float16(),
    pa.timestamp("us", "UTC"),
    pa.binary(5),
    pa.decimal128(20, 2),
    pa.decimal256(60, 1),
)
"""Inside nestings left to the long run: by themselves the default run has them."""
NESTED_LEAVES = (
    *FIXED_LEAVES,
    pa.null(),
    pa.string(),
    pa.large_binary(),
    pa.dictionary(pa.int8(), pa.string()),
)
