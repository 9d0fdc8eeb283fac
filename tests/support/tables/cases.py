"""The matrix: which tables are written by the reference and read back, as a table of `Case`s.

Axes: leaf type x nullability x nesting x distribution x size x pages x field-metadata encodings. A case is
one dataset; its columns vary what can vary inside one dataset (distribution, nulls, list shapes), so that a
few thousand datasets cover tens of thousands of columns.

Cells that the reference itself refuses or misreads are left out; `LEFT_OUT` says which and why.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from support.tables.arrays import DISTRIBUTIONS, NULL_PATTERNS, TEXT_DISTRIBUTIONS, Spec, make_array
from support.tables.matrix_types import (
    EVERY_SIZE_LEAVES,
    FIXED_LEAVES,
    FIXED_NESTINGS,
    FIXED_NESTINGS_2_2,
    LEAF_TYPES,
    LONG_RUN_LEAVES,
    NESTED_LEAVES,
    NESTINGS,
    NESTINGS_2_2,
    TEXTS,
    Nest,
)
from support.tables.reference import FILE_VERSIONS

SMALL_SIZES = (0, 1, 2, 1023, 1024, 1025, 4095, 4096, 4097)
DEFAULT_SIZES = (0, 1, 1025)
"""Sizes that the default run tries with most types; the long run tries all sizes."""
LARGE_SIZE = 100_000
ONLY_2_2 = ("2.2",)

Metadata = Mapping[str, str]

LEFT_OUT = {
    "decimal32, decimal64, month_day_nano intervals": "refused by the reference's schema",
    "dictionary of temporal, decimal, float16 or fixed_size_binary": "refused by the reference's schema",
    "ordered dictionaries": "the order flag is lost by the reference",
    "fixed_size_list of strings, binaries or dictionaries": "the writer panics or refuses",
    "map, fixed_size_list<struct>, variable packed struct in 2.1": "refused: 2.2 only",
    "lists above or below fixed_size_list<struct>": "writer or reader panics",
    "packed struct with null values, bool, dictionary, list or struct children": "refused or unreadable",
    "packed struct with a fixed_size_list child in 2.1": "refused: 2.2 only",
    "empty struct with nulls, in a list or beside other columns": "refused, or misread with its neighbours",
    "fixed_size_list with only null items forced to mini-block": "the writer panics",
    "fixed_size_list<bool> forced to full-zip": "refused: not byte aligned (in a list: the writer panics)",
    "vectors wider than a mini-block chunk forced to mini-block": "refused",
    "maps with sorted keys": "refused by the reference's schema",
    "blob columns": "the result describes where the bytes lie; see tests/lance_core/api/test_blobs.py",
    "arrow.json": "stored in a binary form of its own; see tests/lance_core/encodings/test_json_binary.py",
}


@dataclass(frozen=True)
class Column:
    """One column of a case: the field with its metadata, and how it is filled."""

    field: pa.Field
    spec: Spec


@dataclass(frozen=True)
class Case:
    """One dataset. `pages` batches of `rows` rows each; with more than one, every batch is a page of its own.

    `reference_fails` says why the reference cannot read back what it wrote: then the source is the truth.
    """

    name: str
    columns: tuple[Column, ...]
    rows: int
    pages: int = 1
    versions: tuple[str, ...] = FILE_VERSIONS
    long: bool = False
    reference_fails: str = ""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    @property
    def has_a_type_first(self) -> bool:
        """Whether the case is the one that the default run always reads of its type."""
        return self.name.startswith("leaf-") and self.name.endswith("-1025")

    @property
    def default_versions(self) -> tuple[str, ...]:
        """Return the file versions that the default run reads for a case: all of them once per type, else
        one, by the name.
        """
        if self.long:
            return ()
        return self.versions if self.has_a_type_first else (self.one_version,)

    @property
    def one_version(self) -> str:
        """Return one of the file versions, by the name."""
        return self.versions[zlib.crc32(self.name.encode()) % len(self.versions)]

    def batches(self) -> list[pa.RecordBatch]:
        """Return the data, the same at every call."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [self._batch(page, rng) for page in range(self.pages)]

    def _batch(self, page: int, rng: np.random.Generator) -> pa.RecordBatch:
        rows = self.rows + 11 * page  # pages of different lengths
        arrays = [make_array(c.field, rows, _varied(c.spec, page), rng) for c in self.columns]
        return pa.record_batch(arrays, schema=self.schema)


def _varied(spec: Spec, page: int) -> Spec:
    """Return the third page without nulls, the fourth of one value: layers and layouts change between
    pages.
    """
    if page % 4 == 3:
        return Spec("constant", "none", spec.lists)
    return Spec(spec.distribution, "none", spec.lists) if page % 4 == 2 else spec


def sample(cases: Iterable[Case], one_of: int) -> frozenset[str]:
    """Return names of the cases that the default run has: one size of all leaves, the first case with each
    word of a name that no case before it has, which is a nesting, an option or a size, and one of so many
    others. Tables of many pages have the types of leaves, so that only one of so many of them is read.
    """
    seen: set[tuple[str, str]] = set()
    names = set()
    for case in sorted((case for case in cases if not case.long), key=lambda case: not case.has_a_type_first):
        group, *words = case.name.split("-")
        found = {("leaf" if group == "pages" else group, word) for word in words}
        if case.has_a_type_first or found - seen or zlib.crc32(case.name.encode()) % one_of == 0:
            names.add(case.name)
            seen |= found
    return frozenset(names)


# --- leaf types -----------------------------------------------------------------------------------


def _is_text(data_type: pa.DataType) -> bool:
    return data_type in TEXTS


def _leaf_specs(data_type: pa.DataType, rows: int) -> Iterator[tuple[bool, Spec]]:
    """(nullable, spec) per column of one leaf type: all distributions, all null patterns, some of both."""
    if pa.types.is_null(data_type):
        yield True, Spec()
        return
    distributions = DISTRIBUTIONS
    if _is_text(data_type):
        distributions += tuple(name for name in TEXT_DISTRIBUTIONS if name != "huge" and rows < LARGE_SIZE)
    for distribution in distributions:
        yield False, Spec(distribution)
        yield True, Spec(distribution, "sparse")
    for nulls in NULL_PATTERNS:
        yield True, Spec("random", nulls)
    yield True, Spec("constant", "half")
    yield True, Spec("runs", "runs")
    yield True, Spec("small", "half")


def leaf_columns(data_type: pa.DataType, rows: int) -> tuple[Column, ...]:
    return tuple(
        Column(pa.field(f"c{index}_{spec}", data_type, nullable), spec)
        for index, (nullable, spec) in enumerate(_leaf_specs(data_type, rows))
    )


def empty_binary_cases() -> Iterator[Case]:
    """Binaries of no bytes, which only the constant layout of 2.2 holds, in one page and in several."""
    specs = (Spec(), Spec("random", "sparse"), Spec("random", "half"), Spec("random", "all"))
    nestings = {"leaf": lambda leaf: leaf, **{name: NESTINGS[name] for name in ("list", "struct", "list2")}}
    for name, nest in nestings.items():
        columns = _nested_columns(nest(pa.binary(0)), specs)
        for rows, pages in ((0, 1), (5, 1), (5_000, 1), (300, 4)):
            yield Case(f"empty-binary-{name}-{rows}-{pages}pages", columns, rows, pages, versions=ONLY_2_2)


def leaf_cases() -> Iterator[Case]:
    """Every leaf type in every size."""
    for data_type in LEAF_TYPES:
        for rows in SMALL_SIZES:
            columns = leaf_columns(data_type, rows)
            long = data_type not in EVERY_SIZE_LEAVES and rows not in DEFAULT_SIZES
            yield Case(f"leaf-{short_name(data_type)}-{rows}", columns, rows, long=long)
        columns = leaf_columns(data_type, LARGE_SIZE)
        title = f"leaf-{short_name(data_type)}-{LARGE_SIZE}"
        yield Case(title, columns[:: 3 if data_type in EVERY_SIZE_LEAVES else 4], LARGE_SIZE)
        yield Case(f"{title}-all", columns, LARGE_SIZE, long=True)


def short_name(data_type: pa.DataType) -> str:
    text = data_type.extension_name if isinstance(data_type, pa.BaseExtensionType) else str(data_type)
    return "".join(character if character.isalnum() else "_" for character in text).strip("_")


# --- nesting --------------------------------------------------------------------------------------

NESTED_SPECS = (
    Spec("random", "none", "short"),
    Spec("random", "sparse", "short"),
    Spec("random", "half", "short"),
    Spec("random", "runs", "short"),
    Spec("few", "half", "single"),
    Spec("constant", "none", "short"),
    Spec("constant", "half", "short"),
    Spec("small", "all", "short"),
    Spec("small", "all_but_one", "short"),
    Spec("sorted", "sparse", "empty"),
    Spec("runs", "none", "short"),
    Spec("extremes", "half", "short"),
)
LONG_LIST_SPECS = (
    Spec("random", "none", "long"),
    Spec("small", "half", "long"),
    Spec("runs", "runs", "spanning"),
    Spec("random", "sparse", "spanning"),
    Spec("sorted", "none", "spanning"),
    Spec("small", "half", "one_huge"),
    Spec("few", "none", "one_huge"),
)


def _nested_columns(
    data_type: pa.DataType, specs: tuple[Spec, ...], metadata: Metadata | None = None
) -> tuple[Column, ...]:
    """One column per spec; every fifth is not nullable itself (its children are)."""
    return tuple(
        Column(pa.field(f"c{index}_{spec}", data_type, index % 5 != 4, metadata), spec)
        for index, spec in enumerate(specs)
    )


def _nestings() -> Iterator[tuple[str, Nest, tuple[pa.DataType, ...], tuple[str, ...]]]:
    """(name, nest, leaves that may stand inside, versions)."""
    for name, nest in NESTINGS.items():
        yield name, nest, NESTED_LEAVES, FILE_VERSIONS
    for name, nest in FIXED_NESTINGS.items():
        yield name, nest, FIXED_LEAVES, FILE_VERSIONS
    for name, nest in NESTINGS_2_2.items():
        yield name, nest, NESTED_LEAVES, ONLY_2_2
    for name, nest in FIXED_NESTINGS_2_2.items():
        yield name, nest, FIXED_LEAVES, ONLY_2_2


_NULLS = "it counts the nulls of a struct over pages with different layers wrongly"
_ITEMS = "it counts the items of fixed_size_list<struct> over several pages wrongly"
PAGES_THE_REFERENCE_MISREADS = {
    **dict.fromkeys(("struct_list", "struct_list_struct_list", "required", "struct_map"), _NULLS),
    **dict.fromkeys(("fsl_struct", "struct_fsl_struct", "fsl_struct_struct"), _ITEMS),
    **dict.fromkeys(("fsl_struct_fsl_struct", "fsl_struct_fsl"), _ITEMS),
}


def is_long_list(name: str, leaf: pa.DataType) -> bool:
    """Return whether long lists of a nesting are left to the long run: with strings all but three are."""
    return leaf == pa.string() and name not in ("list", "list_struct_list", "map")


def nested_cases() -> Iterator[Case]:
    """Every nesting with every leaf; all sizes, long lists and several pages with two leaves."""
    for name, nest, leaves, versions in _nestings():
        most_rows = 80 if name == "list8" else LARGE_SIZE
        for leaf in leaves:
            columns = _nested_columns(nest(leaf), NESTED_SPECS)
            title = f"nested-{name}-{short_name(leaf)}"
            long = leaf in LONG_RUN_LEAVES
            yield Case(f"{title}-325", columns, min(325, most_rows), versions=versions, long=long)
            if leaf not in (pa.int32(), pa.string()):
                continue
            for rows in SMALL_SIZES:
                if rows <= most_rows:
                    long = rows not in (0, 1025)
                    yield Case(f"{title}-{rows}", columns, rows, versions=versions, long=long)
            fails = PAGES_THE_REFERENCE_MISREADS.get(name, "")
            yield Case(f"{title}-5pages", columns, min(400, most_rows), 5, versions, reference_fails=fails)
            if "fsl" not in name and name not in ("list8", "map_map"):
                long_columns = _nested_columns(nest(leaf), LONG_LIST_SPECS)
                yield Case(
                    f"{title}-long_lists", long_columns, 150, versions=versions, long=is_long_list(name, leaf)
                )
            if name in ("list", "large_list", "struct", "list_struct", "fsl2", "map", "fsl_struct"):
                some = _nested_columns(nest(leaf), NESTED_SPECS[1:4])
                yield Case(f"{title}-{LARGE_SIZE}", some, LARGE_SIZE, versions=versions)


# --- encodings chosen by field metadata -----------------------------------------------------------


def _encoding(**options: str) -> Metadata:
    return {f"lance-encoding:{key.replace('_', '-')}": value for key, value in options.items()}


ENCODINGS: tuple[Metadata, ...] = (
    _encoding(compression="none"),
    _encoding(compression="lz4"),
    _encoding(compression="zstd"),
    _encoding(compression="zstd", compression_level="9"),
    _encoding(compression="fsst"),
    _encoding(compression="zstd", bss="on"),
    _encoding(compression="lz4", bss="on"),
    _encoding(compression="lz4", bss="off"),
    _encoding(compression="zstd", rle_threshold="0.9"),
    _encoding(rle_threshold="0.9"),
    _encoding(rle_threshold="0.0"),
    _encoding(dict_divisor="100000"),
    _encoding(dict_divisor="1", dict_size_ratio="1.0"),
    _encoding(dict_size_ratio="0.01"),
    _encoding(dict_values_compression="none"),
    _encoding(dict_values_compression="zstd"),
    _encoding(dict_values_compression="lz4", dict_divisor="1", dict_size_ratio="1.0"),
    _encoding(minichunk_size="128"),
    _encoding(minichunk_size="16384"),
    _encoding(minichunk_size="131072"),
    _encoding(minichunk_size="131072", compression="zstd"),
)
ENCODED_LEAVES = (
    pa.bool_(),
    pa.int8(),
    pa.uint16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.float16(),
    pa.decimal128(38, 3),
    pa.binary(16),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.list_(pa.float32(), 6),
    pa.dictionary(pa.int16(), pa.string()),
)
ENCODED_SPECS = (
    Spec("random"),
    Spec("small", "sparse"),
    Spec("sorted"),
    Spec("constant", "half"),
    Spec("runs", "runs"),
    Spec("few", "half"),
    Spec("extremes", "sparse"),
)


def _matters(metadata: Metadata, leaf: pa.DataType) -> bool:
    """Return whether the options can change how the leaf is stored; where not, the long run tries them."""
    options = {key.partition(":")[2] for key in metadata}
    numeric = pa.types.is_integer(leaf) or pa.types.is_floating(leaf)
    if "compression" in options and "bss" not in options:
        return True
    if "bss" in options:
        return numeric and leaf.bit_width in (32, 64)
    if "rle-threshold" in options:
        return numeric
    wide = not pa.types.is_boolean(leaf) and not numeric and not pa.types.is_fixed_size_list(leaf)
    if "minichunk-size" in options:
        return _is_text(leaf)
    return wide or (numeric and leaf.bit_width == 64)


def encoding_cases() -> Iterator[Case]:
    """Every encoding option on every kind of leaf, at the top and inside a list and a struct."""
    for metadata in ENCODINGS:
        label = "-".join(f"{key.partition(':')[2]}={value}" for key, value in metadata.items())
        for leaf in ENCODED_LEAVES:
            specs = ENCODED_SPECS
            if _is_text(leaf):
                specs += (Spec("words"), Spec("long", "sparse"), Spec("mixed", "half"))
            columns = _nested_columns(leaf, specs, metadata)
            title = f"encoding-{label}-{short_name(leaf)}"
            yield Case(f"{title}-6000", columns, 6_000, long=not _matters(metadata, leaf))
            inside = pa.field("item", leaf, metadata=metadata)
            nested = pa.struct([inside, pa.field("l", pa.list_(inside))])
            long = leaf not in (pa.int32(), pa.float64(), pa.string()) or not _matters(metadata, leaf)
            yield Case(f"{title}-nested", _nested_columns(nested, ENCODED_SPECS[:6]), 1_500, long=long)


STRUCTURAL_NESTINGS = (
    "list",
    "list2",
    "struct",
    "list_struct_list",
    "fsl2",
    "fsl_wide",
    "fsl_fsl",
    "list_fsl",
    "map",
)


def structural_cases() -> Iterator[Case]:
    """Mini-block and full-zip forced on the top-level field."""
    nestings = {name: (nest, leaves, versions) for name, nest, leaves, versions in _nestings()}
    for layout in ("miniblock", "fullzip"):
        metadata = _encoding(structural_encoding=layout)
        for leaf in (*ENCODED_LEAVES, pa.binary(300), pa.uuid(), pa.large_binary()):
            columns = _nested_columns(leaf, NESTED_SPECS[:7], metadata)
            yield Case(f"structural-{layout}-{short_name(leaf)}-1025", columns, 1025)
            if _is_text(leaf):
                specs = (Spec("words"), Spec("long", "sparse"), Spec("mixed", "half"), Spec("empty", "half"))
                for rows in (1, 4_000):
                    title = f"structural-{layout}-{short_name(leaf)}-texts-{rows}"
                    yield Case(title, _nested_columns(leaf, specs, metadata), rows)
                zipped = {**metadata, **_encoding(compression="zstd")}
                title = f"structural-{layout}-zstd-{short_name(leaf)}-4000"
                yield Case(title, _nested_columns(leaf, specs, zipped), 4_000)
        for name in STRUCTURAL_NESTINGS:
            nest, leaves, versions = nestings[name]
            for leaf in leaves:
                if (leaf, layout) == (pa.bool_(), "fullzip") and "fsl" in name:
                    continue  # see LEFT_OUT
                if name == "fsl_wide" and layout == "miniblock" and pa.types.is_decimal(leaf):
                    continue  # see LEFT_OUT
                specs = tuple(s for s in NESTED_SPECS if s.nulls != "all" or not name.startswith("fsl"))
                columns = _nested_columns(nest(leaf), specs, metadata)
                title = f"structural-{layout}-{name}-{short_name(leaf)}"
                yield Case(f"{title}-500", columns, 500, versions=versions, long=leaf in LONG_RUN_LEAVES)


PACKED = {"lance-encoding:packed": "true"}


def packed_cases() -> Iterator[Case]:
    """Packed structs: fixed width in both versions, with variable children in 2.2."""

    def required(*types: pa.DataType) -> pa.DataType:
        return pa.struct([pa.field(f"f{index}", child, False) for index, child in enumerate(types)])

    fixed = (
        required(pa.int32(), pa.int8()),
        required(pa.float64(), pa.decimal128(10, 1), pa.binary(3), pa.timestamp("us")),
        required(pa.uint16()),
    )
    variable = (
        required(pa.int32(), pa.string()),
        required(pa.large_binary(), pa.string(), pa.list_(pa.float32(), 3)),
        required(pa.list_(pa.float32(), 3)),
        pa.struct([("a", pa.int64()), ("b", pa.large_string())]),
    )
    for number, data_type in enumerate((*fixed, *variable)):
        versions = FILE_VERSIONS if number < len(fixed) else ONLY_2_2
        nulls = ("none", "half", "sparse", "all") if not data_type.field(0).nullable else ("none",)
        specs = tuple(Spec(name, pattern) for name in ("random", "few", "constant") for pattern in nulls)
        columns = _nested_columns(data_type, specs, PACKED)
        listed = pa.list_(pa.field("item", data_type, metadata=PACKED))
        for rows in (0, 1, 300, 5_000):
            yield Case(f"packed{number}-{rows}", columns, rows, versions=versions)
        lists = _nested_columns(listed, (Spec("random"), Spec("few", "none", "spanning")))
        yield Case(f"packed{number}-list", lists, 300, versions=versions)
        yield Case(f"packed{number}-4pages", columns, 300, pages=4, versions=versions)


# --- pages ----------------------------------------------------------------------------------------


def page_cases() -> Iterator[Case]:
    """Many pages per column, with layers and layouts that change, and values of 1 MB."""
    for leaf in LEAF_TYPES:
        columns = leaf_columns(leaf, 0)
        small_keys = pa.types.is_dictionary(leaf) and leaf.index_type.bit_width == 8
        fails = "its dictionaries of several pages outgrow the key type" if small_keys else ""
        title = f"pages-{short_name(leaf)}-6"
        yield Case(title, columns[::3], 1_100, pages=6, reference_fails=fails)
        yield Case(f"{title}-all", columns, 1_100, pages=6, long=True, reference_fails=fails)
    for leaf in (pa.string(), pa.large_binary(), pa.binary_view()):
        specs = (Spec("huge"), Spec("huge", "half"))
        title = f"huge-{short_name(leaf)}"
        yield Case(f"{title}-flat", _nested_columns(leaf, specs), 5, pages=2)
        yield Case(f"{title}-list", _nested_columns(pa.list_(leaf), specs), 3)
        yield Case(f"{title}-struct", _nested_columns(pa.struct([("a", leaf), ("b", pa.int8())]), specs), 4)
    empty = Column(pa.field("nothing", pa.struct([])), Spec())
    for rows in (0, 1, 1_025):
        yield Case(f"empty_struct-{rows}", (empty,), rows)


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case of the matrix, those for the long run included."""
    groups = (
        leaf_cases,
        empty_binary_cases,
        nested_cases,
        encoding_cases,
        structural_cases,
        packed_cases,
        page_cases,
    )
    return tuple(case for group in groups for case in group())
