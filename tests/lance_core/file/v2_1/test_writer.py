"""Files of 2.1 and 2.2 written here, read by us and by the reference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.metadata import read_file_metadata
from lance_core.proto import encodings_v2_1_pb2 as pb
from lance_core.statistics.file_checksums import verify_file
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage import storage_for
from support.files.pages import features
from support.files.written import check_file, read_file, write_file
from support.oracles.comparison import assert_values_equal
from support.runs.each_case import each_case

VERSIONS = ("2.1", "2.2")
PAGE = 8 << 20


def used(path: Path) -> set[str]:
    """Names of everything that the pages of a file use, see `support.files.pages`."""
    return {name for layout, _ in pages(path) for name in features(layout)}


def pages(path: Path) -> Iterator[tuple[pb.PageLayout, int]]:
    """Layout and bytes of each page."""
    metadata = read_file_metadata(storage_for(str(path.parent), None).open_file(path.name))
    for column in range(metadata.num_columns):
        for page in metadata.column(column).pages:
            layout = pb.PageLayout()
            layout.ParseFromString(page.encoding)
            yield layout, sum(size for _, size in page.buffers)


def column(values: pa.Array, **metadata: str) -> pa.Table:
    keys = {f"lance-encoding:{key.replace('_', '-')}": value for key, value in metadata.items()}
    return pa.Table.from_arrays(
        [values], schema=pa.schema([pa.field("c", values.type, metadata=keys or None)])
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_flat_and_nested_columns(version: str, tmp_path: Path) -> None:
    n = 10_000
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "i": pa.array(range(n), pa.int32()),
            "n": pa.array([None if x % 3 == 0 else x for x in range(n)], pa.int64()),
            "b": pa.array(rng.random(n) < 0.5),
            "f": pa.array(rng.random(n)),
            "s": pa.array([f"value {x}" for x in range(n)]),
            "c": pa.array([f"c{x % 7}" if x % 5 else None for x in range(n)]),
            "none": pa.nulls(n),
            "nulls": pa.nulls(n, pa.int32()),
            "runs": pa.array([x // 500 for x in range(n)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 4, dtype=np.float32)), 4),
            "l": pa.array(
                [None if x % 11 == 0 else list(range(x % 5)) for x in range(n)], pa.list_(pa.int32())
            ),
            "st": pa.array([None if x % 13 == 0 else {"a": x, "b": [{"q": x}] * (x % 3)} for x in range(n)]),
        }
    )
    check_file(tmp_path / "a.lance", table, version)
    check_file(tmp_path / "b.lance", table, version, page_bytes=10_000)
    check_file(tmp_path / "c.lance", table.slice(777, 5_001), version, page_bytes=30_000)


# --- which encodings are chosen -------------------------------------------------------------------

_RNG = np.random.default_rng(7)
N = 20_000
RANDOM = pa.array(_RNG.integers(-(2**63), 2**63, N))
SMALL = pa.array(_RNG.integers(0, 1_000, N), pa.int32())
TEXT = pa.array([f"some text with a number {x}" for x in range(N)])
LONG_RUNS = pa.array(np.arange(N) // 100)
SMOOTH = pa.array(np.linspace(0, 1, N))


@each_case("version", VERSIONS)
@each_case(
    ("values", "metadata", "expected"),
    [
        (RANDOM, {}, {"mini-block flat"}),
        (SMALL, {}, {"mini-block inline_bitpacking"}),
        (SMALL, {"compression": "none"}, {"mini-block flat"}),
        (LONG_RUNS, {}, {"mini-block rle"}),
        (LONG_RUNS.cast(pa.int32()), {"rle_threshold": "0.001"}, {"mini-block inline_bitpacking"}),
        (
            SMOOTH,
            {"compression": "zstd", "bss": "on"},
            {"mini-block byte_stream_split", "mini-block general ZSTD"},
        ),
        (SMOOTH, {"compression": "lz4", "bss": "off"}, {"mini-block general LZ4"}),
        (SMOOTH, {"compression": "lz4", "bss": "never"}, {"mini-block general LZ4"}),
        (
            SMOOTH,
            {"compression": "zstd", "bss": "Always"},
            {"mini-block byte_stream_split", "mini-block general ZSTD"},
        ),
        (TEXT, {}, {"mini-block fsst"}),
        (TEXT, {"compression": "none"}, {"mini-block variable"}),
        (TEXT, {"compression": "zstd"}, {"mini-block general ZSTD", "mini-block variable"}),
        (TEXT, {"structural_encoding": "fullzip"}, {"full_zip_layout", "full-zip fsst"}),
        (TEXT.cast(pa.binary()), {}, {"mini-block variable"}),
        (
            pa.array([f"item {x % 50}" for x in range(N)]),
            {},
            {"dictionary page", "dictionary values variable"},
        ),
        (pa.array([f"item {x % 50}" for x in range(N)]), {"dict_divisor": "1000000"}, {"mini-block fsst"}),
        (pa.array([b"x" * 300, b"y"]), {}, {"full_zip_layout", "full-zip variable"}),
        (pa.array([b"x" * 255, b"y"]), {}, {"mini_block_layout"}),
        (pa.nulls(N, pa.int64()), {}, {"constant_layout"}),
        (pa.array([True, False] * 500), {}, {"mini-block flat bits"}),
        (pa.array([[1.0] * 128] * 4, pa.list_(pa.float32(), 128)), {}, {"full_zip_layout"}),
        (pa.array([[1.0] * 16] * 4, pa.list_(pa.float32(), 16)), {}, {"mini-block fixed_size_list"}),
    ],
)
def test_the_data_or_the_field_choose_the_encoding(
    values: pa.Array, metadata: dict[str, str], expected: set[str], version: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.lance"
    check_file(path, column(values, **metadata), version)
    assert expected <= used(path), used(path)


_RUNS = np.repeat(_RNG.integers(0, 40, N // 10), 10)
_RANDOM_BYTES = [pick.tobytes() for pick in _RNG.integers(0, 256, (N, 20), np.uint8)]


def _documents(count: int, length: int) -> list[str]:
    words = [f"word{number:04}" for number in _RNG.integers(0, 3_000, count * length // 9).tolist()]
    return [" ".join(words[row :: 2 * count]) for row in range(count)] + [" ".join(words[: length // 9])]


PACKED_TEXT = pa.StructArray.from_arrays(
    [pa.array(range(N)), pa.array([f"a value of some length {x}" for x in range(N)])], ["n", "s"]
)


@pytest.mark.parametrize(
    ("values", "metadata"),
    [
        (pa.array(_documents(20, 40_000)), {}),
        (pa.array(_documents(100, 2_000)), {"compression": "lz4"}),
        (pa.array(_documents(100, 2_000)).cast(pa.large_binary()), {"compression": "zstd"}),
        (PACKED_TEXT, {"packed": "true"}),
        (pa.array([7 if x % 2 else None for x in range(N)], pa.int32()), {"compression": "none"}),
        (pa.array(np.repeat(_RNG.random(60), 300)), {"compression": "none"}),
    ],
    ids=["documents", "lz4", "zstd", "packed", "half null", "few"],
)
def test_wishes_do_not_make_files_larger_than_those_of_the_reference(
    values: pa.Array, metadata: dict[str, str], tmp_path: Path
) -> None:
    path, theirs = tmp_path / "a.lance", tmp_path / "b.lance"
    check_file(path, column(values, **metadata), "2.2")
    with LanceFileWriter(str(theirs), version="2.2") as writer:
        writer.write_batch(column(values, **metadata))
    assert sum(size for _, size in pages(path)) <= 1.03 * sum(size for _, size in pages(theirs))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(np.where(_RNG.random(N) < 0.6, 0, 2**32 - 1), pa.uint32()),
        pa.array([b"x" * 40 if x % 2 else None for x in range(N)], pa.binary(40)),
        pa.array([b"y" * 3 if x % 2 else None for x in range(N)], pa.binary(3)),
        pa.array([bytes([x, 1] * 8) for x in _RUNS.tolist()], pa.binary(16), mask=_RNG.random(N) < 0.02),
        pa.array(_RANDOM_BYTES, mask=_RNG.random(N) < 0.01),
        pa.array(np.repeat(_RNG.random(60), 300)),
    ],
    ids=[
        "short runs",
        "wide and half null",
        "odd width and half null",
        "runs with nulls",
        "few nulls",
        "runs",
    ],
)
def test_files_are_not_larger_than_those_of_the_reference(values: pa.Array, tmp_path: Path) -> None:
    path, theirs = tmp_path / "a.lance", tmp_path / "b.lance"
    check_file(path, column(values), "2.2")
    with LanceFileWriter(str(theirs), version="2.2") as writer:
        writer.write_batch(column(values))
    assert sum(size for _, size in pages(path)) <= 1.03 * sum(size for _, size in pages(theirs))


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_that_nearly_fill_a_page_are_one(version: str, tmp_path: Path) -> None:
    """A second page of a few rows costs readers as much as one that is full."""
    table = column(pa.array(np.arange(1_000_000)))
    path = tmp_path / "a.lance"
    write_file(path, table.to_batches(max_chunksize=10_000), table.schema, version)
    assert 0.95 * PAGE < table.nbytes < PAGE
    assert len(list(pages(path))) == 1


def test_2_2_has_more(tmp_path: Path) -> None:
    for values, name in (
        (pa.array([5] * N), "constant inline value"),
        (pa.array(["a string that is longer than thirty-two bytes"] * N), "constant_layout"),
        (pa.array(np.random.default_rng(8).integers(0, 50, N) * 0x9E3779B97F4A), "dictionary page"),
        (pa.array([None if x // 5_000 % 2 else x * 0x9E3779B97F4A for x in range(N)]), "levels rle"),
    ):
        older, newer = tmp_path / f"{name}, 2.1", tmp_path / f"{name}, 2.2"
        check_file(older, column(values), "2.1")
        check_file(newer, column(values), "2.2")
        assert name in used(newer), used(newer)
        assert name not in used(older)


@pytest.mark.parametrize(
    "key", ["compression", "bss", "structural_encoding", "rle_threshold", "dict_divisor"]
)
def test_metadata_that_means_nothing_is_refused(key: str, tmp_path: Path) -> None:
    table = column(SMALL, **{key: "sometimes"})
    with pytest.raises(InvalidInputError, match=key.replace("_", "-")) as refusal:
        write_file(tmp_path / "a.lance", table.to_batches(), table.schema, "2.1")
    assert refusal.value.column == "c"
    assert not (tmp_path / "a.lance").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compression_level", "23"),
        ("compression_level", "-131073"),
        ("dict_values_compression_level", "99"),
        ("dict_divisor", "-5"),
        ("minichunk_size", "-1"),
    ],
)
def test_metadata_out_of_range_is_refused(key: str, value: str, tmp_path: Path) -> None:
    table = column(pa.array(["value"] * 4_000), compression="zstd", **{key: value})
    with pytest.raises(InvalidInputError, match=f"{key.replace('_', '-')}.*whole number from"):
        write_file(tmp_path / "a.lance", table.to_batches(), table.schema, "2.1")


# --- shapes that break pages ----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_levels_that_outnumber_values(version: str, tmp_path: Path) -> None:
    """Long runs of lists without items fit into no chunk: pages are split between rows."""
    empties = pa.array([[1]] + [[]] * 200_000 + [None] * 70_000 + [[2, 3]], pa.list_(pa.int32()))
    check_file(tmp_path / "a.lance", column(empties), version, recorder=FilePageRecorder)
    assert len(list(pages(tmp_path / "a.lance"))) > 1
    assert verify_file(storage_for(str(tmp_path), None).open_file("a.lance"))
    inside = pa.array([[[]] * 100_000 + [[1]], [[]] * 3], pa.list_(pa.list_(pa.int8())))
    check_file(tmp_path / "b.lance", column(inside), version)
    assert "full_zip_layout" in used(tmp_path / "b.lance")


@pytest.mark.parametrize("version", VERSIONS)
def test_values_below_nulls_are_left_out(version: str, tmp_path: Path) -> None:
    items = pa.array(range(10))
    offsets = pa.array([0, 3, 7, 10], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, items, mask=pa.array([False, True, False]))
    assert len(lists.values) == 10
    check_file(tmp_path / "a.lance", column(lists), version)
    structs = pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([True, False, False]))
    check_file(tmp_path / "b.lance", column(structs), version)


@pytest.mark.parametrize("depth", range(6))
@pytest.mark.parametrize("required", [(), (2,), (0, 2)])
def test_fixed_size_lists_of_structs_with_nulls_in_some_pages(
    depth: int, required: tuple[int, ...], tmp_path: Path
) -> None:
    num_rows = 300
    is_last = np.arange(num_rows) == num_rows - 1
    is_required = [layer in required for layer in range(6)]

    def nulls(layer: int, slots: int) -> pa.Array | None:
        return pa.array(np.repeat(is_last, slots)) if layer == depth and not is_required[layer] else None

    def field(name: str, values: pa.Array, layer: int) -> pa.Field:
        return pa.field(name, values.type, nullable=not is_required[layer])

    leaf = pa.array(np.arange(num_rows * 6) * 7919)
    if depth == 5:
        leaf = pa.array([*leaf.to_pylist()[:-1], None])
    inner = pa.StructArray.from_arrays([leaf], fields=[field("x", leaf, 5)], mask=nulls(4, 6))
    pairs = pa.FixedSizeListArray.from_arrays(
        inner, type=pa.list_(field("item", inner, 4), 2), mask=nulls(3, 3)
    )
    middle = pa.StructArray.from_arrays([pairs], fields=[field("pairs", pairs, 3)], mask=nulls(2, 3))
    triples = pa.FixedSizeListArray.from_arrays(
        middle, type=pa.list_(field("item", middle, 2), 3), mask=nulls(1, 1)
    )
    outer = pa.StructArray.from_arrays([triples], fields=[field("triples", triples, 1)], mask=nulls(0, 1))
    table = pa.table([outer], schema=pa.schema([field("c", outer, 0)]))

    check_file(tmp_path / "a.lance", table, "2.2", page_bytes=200)
    check_file(tmp_path / "b.lance", table, "2.2")


def test_lists_of_booleans_that_are_larger_than_a_chunk(tmp_path: Path) -> None:
    flags = pa.array(np.random.default_rng(5).random(3 * 300_001) < 0.5)
    table = pa.table({"c": pa.FixedSizeListArray.from_arrays(flags, 300_001)})
    check_file(tmp_path / "a.lance", table, "2.2")
    with pytest.raises(UnsupportedFeatureError, match=r"larger than a chunk.*column c"):
        write_file(tmp_path / "b.lance", table.to_batches(), table.schema, "2.1")


@pytest.mark.parametrize("version", VERSIONS)
def test_dictionaries_that_differ_by_batch(version: str, tmp_path: Path) -> None:
    def part(first: int) -> pa.Array:
        words = pa.array([f"word {x}" for x in range(first, first + 100)] + [None])
        return pa.DictionaryArray.from_arrays(pa.array([*range(101), None] * 3, pa.int8()), words)

    batches = [pa.record_batch({"c": part(first)}) for first in (0, 50, 1_000, 2_000)]
    table = pa.Table.from_batches(batches)
    write_file(tmp_path / "a.lance", batches, table.schema, version)
    # Pages keep what they can of different words; the reference reads none of its own such files either.
    found = read_file(tmp_path / "a.lance")
    assert_values_equal(table["c"], found["c"], label=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_files_and_batches(version: str, tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([], pa.int32()), "l": pa.array([], pa.list_(pa.string()))})
    check_file(tmp_path / "a.lance", table, version)
    assert not list(pages(tmp_path / "a.lance"))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "versions"),
    [
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), ("2.1",)),
        (pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.int32())]), 1)), ("2.1",)),
        (pa.array([[[{"x": 1}]]], pa.list_(pa.list_(pa.struct([("x", pa.int32())]), 1))), VERSIONS),
        (pa.array([b"", None], pa.binary(0)), ("2.1",)),
        (pa.array([[b""]], pa.list_(pa.binary(0), 1)), VERSIONS),
        (pa.FixedSizeListArray.from_arrays(pa.array(["a"]).dictionary_encode(), 1), VERSIONS),
    ],
)
def test_types_that_a_version_cannot_hold(
    values: pa.Array, versions: tuple[str, ...], tmp_path: Path
) -> None:
    for version in VERSIONS:
        path = tmp_path / version
        if version in versions:
            with pytest.raises(UnsupportedFeatureError) as refusal:
                write_file(path, [], column(values).schema, version)
            assert refusal.value.column
            assert not path.exists()
        else:
            check_file(path, column(values), version)


@pytest.mark.parametrize(
    ("members", "versions"),
    [
        ({"a": [True]}, VERSIONS),
        ({"a": [[1]]}, VERSIONS),
        ({"a": [1], "b": ["text"]}, ("2.1",)),
        ({"a": pa.FixedSizeListArray.from_arrays(pa.array(["a"]).dictionary_encode(), 1)}, VERSIONS),
        ({"a": pa.array([["text"]], pa.list_(pa.string(), 1))}, VERSIONS),
        ({"a": [1], "b": [2.5]}, ()),
        ({"a": [1], "b": [{"x": "text", "y": 2}]}, ("2.1",)),
        ({"a": [{"x": {"z": "text"}, "y": 2}], "b": ["more"]}, ("2.1",)),
        ({"a": ["text"], "b": [{"y": 2}]}, VERSIONS),
        ({"a": ["text"], "b": [{"x": "text", "y": True}]}, VERSIONS),
        ({"a": ["text"], "b": [{}]}, VERSIONS),
    ],
)
def test_packed_structs(members: dict[str, list[object]], versions: tuple[str, ...], tmp_path: Path) -> None:
    values = pa.StructArray.from_arrays([pa.array(each) for each in members.values()], list(members))
    table = column(values, packed="true")
    for version in VERSIONS:
        if version in versions:
            with pytest.raises(UnsupportedFeatureError, match="packed struct with the member"):
                write_file(tmp_path / version, table.to_batches(), table.schema, version)
        else:
            check_file(tmp_path / version, table, version)


def test_nulls_in_members_of_packed_structs(tmp_path: Path) -> None:
    values = pa.array([{"a": 1, "b": 2}, {"a": None, "b": 3}])
    table = column(values, packed="true")
    with pytest.raises(UnsupportedFeatureError, match="nulls in the member 'a'"):
        write_file(tmp_path / "a.lance", table.to_batches(), table.schema, "2.1")
    assert not (tmp_path / "a.lance").exists()


def test_batches_that_do_not_fit(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    for batch in (
        pa.record_batch({"a": pa.array([1, 2], pa.int64())}),
        pa.record_batch({"a": pa.array([1, None], pa.int32())}),
        pa.record_batch({"a": pa.array([1], pa.int32()), "b": pa.array([1])}),
    ):
        with pytest.raises(InvalidInputError):
            write_file(tmp_path / "a.lance", [batch], schema, "2.2")
        assert not (tmp_path / "a.lance").exists()


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_have_their_size(version: str, tmp_path: Path) -> None:
    """Pages of plain values have 7.5 to 16 MiB for any size of batches, except the last page of a column."""
    rng = np.random.default_rng(3)
    table = pa.table({"a": rng.integers(-(2**63), 2**63, 5_000_000), "b": rng.random(5_000_000, np.float32)})
    for rows in (3_000, 700_000, 5_000_000):
        path = tmp_path / f"{rows}.lance"
        write_file(path, table.to_batches(rows), table.schema, version)
        sizes = [size for _, size in pages(path)]
        assert sum(size < 7 << 20 for size in sizes) <= 2, sizes
        assert max(sizes) < 16 << 20, sizes


def test_rows_of_very_different_sizes(tmp_path: Path) -> None:
    """One value in a thousand is a thousand times as long; no page is much larger than it should be."""
    rng = random.Random(5)
    values = pa.array([rng.randbytes(200_000 if x % 1_000 == 999 else 200) for x in range(60_000)])
    path = tmp_path / "a.lance"
    check_file(path, column(values), "2.2")
    sizes = [size for _, size in pages(path)]
    assert max(sizes) <= 2 * PAGE + 300_000


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_is_bounded_by_columns_times_page_size(version: str, tmp_path: Path) -> None:
    """T15: a narrow column beside a wide one holds on to none of the batches it came with."""
    process = psutil.Process()
    num_batches, rows = 120, 1_000
    wide = pa.FixedSizeListArray.from_arrays(
        pa.array(np.random.default_rng(0).random(rows * 1_024, np.float32)), 1_024
    )
    narrow = pa.array(range(rows))
    schema = pa.schema([pa.field("narrow", pa.int64()), pa.field("wide", wide.type)])
    peak = start = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal peak, start
        for number in range(num_batches):
            # As it comes over a network: all columns in one piece of memory.
            batch = pa.record_batch([narrow, wide], schema=schema)
            (received,) = pa.ipc.open_stream(stream_of(batch)).read_all().to_batches()
            yield received
            now = process.memory_info().rss
            start = now if number == 20 else start
            peak = max(peak, now if number > 20 else 0)

    write_file(tmp_path / "a.lance", batches(), schema, version, recorder=FilePageRecorder)
    assert num_batches * wide.nbytes > 400 << 20
    assert peak - start < 100 << 20, (peak - start) >> 20


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("version", VERSIONS)
def test_dictionary_indices_are_compressed_where_that_is_asked_for(
    version: str, compression: str, tmp_path: Path
) -> None:
    """Indices are compressed if that makes them smaller than packed: for a pattern, but not for random
    values.
    """
    rng = np.random.default_rng(1)
    for name, places in (("pattern", np.arange(30_000) % 97), ("random", rng.integers(0, 97, 30_000))):
        table = column(pa.array([f"value {x} of text" for x in places]), compression=compression)
        plain = column(table["c"].combine_chunks())
        check_file(tmp_path / name, table, version)
        check_file(tmp_path / f"{name} plain", plain, version)
        asked, packed = ((tmp_path / each).stat().st_size for each in (name, f"{name} plain"))
        assert asked < packed * 0.6 if name == "pattern" else asked <= packed + 200, (name, asked, packed)


def test_small_dictionaries_are_compressed(tmp_path: Path) -> None:
    values = pa.array([f"a value with some text {x % 20}" for x in range(3_000)])
    check_file(tmp_path / "a", column(values), "2.2")
    check_file(tmp_path / "b", column(values, dict_values_compression="none"), "2.2")
    assert (tmp_path / "a").stat().st_size < (tmp_path / "b").stat().st_size - 300
