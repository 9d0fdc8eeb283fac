"""Pages that one call of a kernel reads and decodes, compared with the Python decoders."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.errors import CorruptFileError
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.file.page_ranges import PageRange, at_rows, decode_masked, decode_page_ranges, read_batches
from lance_core.scan.read.value_sizes import bits_before, value_bits
from lance_core.scan.run.filtering.page_conditions import page_condition
from support.files.pages import Columns
from support.files.written import write_file
from support.runs.draws import draws
from support.runs.each_case import each_case

NUM_ROWS = 20_000
DIRECT = [
    "plain",
    "bits",
    "packed",
    "nulls",
    "flags",
    "decimal",
    "text",
    "words",
    "blobs",
    "numbers",
    "lines",
    "switches",
    "runs",
    "lz4 packed",
    "lz4 text",
    "lz4 lines",
    "zstd split",
    "zstd nulls",
    "zstd text",
]
FIXED = ["plain", "packed", "nulls", "decimal", "runs", "lz4 packed", "zstd split", "zstd nulls"]
"""Columns of values of whole bytes."""
LONG_WAY = ["struct", "nested", "vector", "shared"]


@cache
def table() -> pa.Table:
    """Columns of every kind that is read directly, and some that are not."""
    rng = np.random.default_rng(11)

    def some(values: pa.Array) -> pa.Array:
        return pa.array(values.to_pylist(), values.type, mask=rng.random(len(values)) < 0.1)

    def lists(values: pa.Array) -> pa.ListArray:
        lengths = rng.multinomial(len(values) - 9000, np.full(NUM_ROWS - 2, 1 / (NUM_ROWS - 2)))
        lengths = np.insert(lengths, [50, 9000], [4000, 5000])  # longer than a chunk
        offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
        return pa.ListArray.from_arrays(offsets, values, mask=pa.array(rng.random(NUM_ROWS) < 0.1))

    def blobs(lengths: np.ndarray) -> pa.Array:
        offsets = np.insert(np.cumsum(lengths), 0, 0)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rng.bytes(offsets[-1]))]
        return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)

    integers = pa.array(rng.integers(0, 1 << 40, NUM_ROWS))
    words = pa.array([f"word {n}" for n in rng.integers(0, 40, NUM_ROWS)])
    lines = pa.array([f"{n:x} and {n % 1000} or the other" for n in rng.integers(0, 1 << 60, NUM_ROWS)])
    rounded = some(pa.array(rng.normal(size=NUM_ROWS).round(4)))
    runs = pa.array(np.repeat(rng.integers(0, 1 << 40, NUM_ROWS // 20), 20))
    rows = pa.table(
        {
            "plain": pa.array(rng.random(NUM_ROWS)),
            "bits": pa.array(rng.random(NUM_ROWS) < 0.5),
            "packed": integers,
            "nulls": some(integers),
            "flags": some(pa.array(rng.random(NUM_ROWS) < 0.5)),
            "decimal": pa.array(rng.integers(0, 1 << 40, NUM_ROWS)).cast(pa.decimal128(30, 2)),
            "text": lines,
            "words": some(words),
            "blobs": some(blobs(rng.integers(0, 60, NUM_ROWS))),
            "numbers": lists(some(pa.array(rng.integers(0, 5000, 40_000), pa.int32()))),
            "lines": lists(some(pa.concat_arrays([lines, lines]))),
            "switches": lists(some(pa.array(rng.random(40_000) < 0.5))),
            "struct": pa.StructArray.from_arrays([integers, words], ["i", "w"]),
            "nested": pa.array([[[n % 7]] for n in range(NUM_ROWS)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(2 * NUM_ROWS)), 2),
            "shared": words.dictionary_encode(),
            "runs": runs,
            "lz4 packed": integers,
            "lz4 text": lines,
            "lz4 lines": lists(some(pa.concat_arrays([lines, lines]))),
            "zstd split": rounded,
            "zstd nulls": some(integers),
            "zstd text": some(lines),
        }
    )
    fields = []
    for field in rows.schema:
        compression = field.name.split()[0]
        options = {"lance-encoding:compression": compression} if " " in field.name else None
        if pa.types.is_list(field.type):
            field = pa.field(field.name, pa.list_(field.type.value_field.with_metadata(options)))
            options = None
        fields.append(field.with_metadata(options))
    return rows.cast(pa.schema(fields))


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, pa.Table]:
    """A file with many pages in each column."""
    path = tmp_path_factory.mktemp("direct") / "a.lance"
    rows = table()
    write_file(path, rows.to_batches(), rows.schema, request.param, page_bytes=30_000)
    return path, rows


def joined(arrays: list[pa.Array | None]) -> pa.Array:
    """Return the arrays in one, after all of them were checked."""
    assert all(array is not None for array in arrays)
    for array in arrays:
        array.validate(full=True)
    return pa.concat_arrays(arrays)


@pytest.mark.parametrize("name", DIRECT)
def test_pages_are_read_directly(written: tuple[Path, pa.Table], name: str) -> None:
    """First page by page, then, when all are known, those that are alike as one."""
    path, rows = written
    column = Columns(path).open(name)
    expected = rows[name].combine_chunks()
    first = column.page_ranges(0, NUM_ROWS)
    assert first is not None
    assert joined(decode_page_ranges(first)).equals(expected)
    again = column.page_ranges(0, NUM_ROWS)
    assert again is not None
    assert len(again) <= len(first)
    if name in ("plain", "numbers"):
        assert len(again) == 1 < len(first)
    assert joined(decode_page_ranges(again)).equals(expected)


@pytest.mark.parametrize("name", LONG_WAY)
def test_other_pages_are_not(written: tuple[Path, pa.Table], name: str) -> None:
    path, _ = written
    assert Columns(path).open(name).page_ranges(0, NUM_ROWS) is None


@settings(max_examples=draws(40), deadline=None)
@given(st.integers(0, NUM_ROWS - 1), st.integers(1, NUM_ROWS), st.booleans())
def test_ranges_are_those_of_the_long_way(
    written: tuple[Path, pa.Table], start: int, num_rows: int, is_known: bool
) -> None:
    path, rows = written
    end = min(start + num_rows, NUM_ROWS)
    columns = Columns(path)
    for name in DIRECT:
        column = columns.open(name)
        if is_known:
            column.page_ranges(0, NUM_ROWS)
        pieces = column.page_ranges(start, end)
        assert pieces is not None
        found = joined(decode_page_ranges(pieces))
        assert found.equals(joined(column.read(start, end)))
        assert found.equals(rows[name].combine_chunks().slice(start, end - start))


@settings(max_examples=draws(30), deadline=None)
@given(
    st.integers(0, NUM_ROWS - 1),
    st.integers(1, NUM_ROWS),
    st.sampled_from([0.01, 0.3, 0.7, 1]),
    st.sampled_from([1, 900, NUM_ROWS]),
)
def test_some_rows_of_ranges_are_those_of_a_take(
    written: tuple[Path, pa.Table], start: int, num_rows: int, share: float, most_rows: int
) -> None:
    path, rows = written
    end = min(start + num_rows, NUM_ROWS)
    wanted = start + np.flatnonzero(np.random.default_rng(start).random(end - start) <= share)
    columns = Columns(path)
    for name in DIRECT if len(wanted) else []:
        ranges = columns.open(name).page_ranges(start, end)
        assert ranges is not None
        parts = at_rows(ranges, start, wanted, most_rows if share < 1 and end - start < 3000 else NUM_ROWS)
        found = joined(decode_page_ranges(parts))
        assert found.equals(rows[name].combine_chunks().take(pa.array(wanted)))


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def masked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Columns, pa.Table]:
    """The columns of a file with many pages, which have been read before."""
    path = tmp_path_factory.mktemp("masked") / "a.lance"
    rows = table().select([*FIXED, "bits", "text", "words"])
    write_file(path, rows.to_batches(), rows.schema, request.param, page_bytes=30_000)
    return Columns(path), rows


@settings(max_examples=draws(30), deadline=None)
@given(
    st.integers(0, NUM_ROWS - 1),
    st.integers(1, NUM_ROWS),
    st.sampled_from([0.0, 0.01, 0.3, 0.9, 1.0]),
    st.integers(0, 70),
)
def test_rows_of_a_mask_are_those_of_arrow(
    masked: tuple[Columns, pa.Table], start: int, num_rows: int, share: float, offset: int
) -> None:
    """T23: several pages and blocks, nulls, a mask that begins at any bit, and rows of none of them."""
    columns, rows = masked
    end = min(start + num_rows, NUM_ROWS)
    mask = pa.array(np.random.default_rng(start).random(offset + end - start) < share).slice(offset)
    for name in FIXED:
        ranges = columns.open(name).page_ranges(start, end)
        assert ranges is not None
        arrays = decode_masked(ranges, mask)
        assert arrays is not None
        for array in arrays:
            array.validate(full=True)
        expected = rows[name].combine_chunks().slice(start, end - start).filter(mask)
        assert pa.concat_arrays(arrays).equals(expected)


def test_values_that_have_no_width_are_left_to_others(masked: tuple[Columns, pa.Table]) -> None:
    columns, _ = masked
    for name in ("bits", "text", "words"):
        column = columns.open(name)
        column.read(10, 20)  # this finds the dictionaries of 2.0 files
        ranges = column.page_ranges(10, 20)
        assert ranges is not None
        assert decode_masked(ranges, pa.array([True] * 10)) is None


def test_masks_that_do_not_fit_are_refused(masked: tuple[Columns, pa.Table]) -> None:
    """T22: no bit behind the mask is read."""
    (one,) = masked[0].open("plain").page_ranges(100, 106) or []
    piece = one[:4]
    for mask, start, is_there in (
        (b"\x3f", 0, True),
        (b"\x3f", 2, True),
        (b"\x3f", 3, False),
        (b"", 0, False),
    ):
        (found,) = kernels.decode_masked([piece], mask, [start])
        assert (found is not None) == is_there
    (found,) = kernels.decode_masked([piece], b"\xff", [2**64 - 1])
    assert found is None
    (found,) = kernels.decode_masked([(*piece[:2], 106, 100)], b"\xff", [0])
    assert found is None
    with pytest.raises(ValueError, match="another number of pieces"):
        kernels.decode_masked([piece], b"\xff", [])


@each_case("rows", [[4, 4], [5, 4], [9], [2], [3, 8, 4], [-(2**63)], [2**63 - 1]])
def test_rows_that_a_range_does_not_have_are_refused(written: tuple[Path, pa.Table], rows: list[int]) -> None:
    """T22: rows 3 to 8 are there."""
    for name in ("plain", "text", "numbers"):
        (piece,) = Columns(written[0]).open(name).page_ranges(100, 106) or []
        for some, is_there in (([3, 8], True), ([], True), (rows, False)):
            (found,) = decode_page_ranges([piece._replace(kept=(np.array(some, np.int64), 3))])
            assert (found is not None) == is_there
            assert found is None or len(found) == len(some)


@settings(max_examples=draws(60), deadline=None)
@given(st.integers(0, NUM_ROWS - 1), st.integers(1, 3000), st.lists(st.integers(0, 3000), max_size=5))
def test_batches_of_several_columns_in_one_step(
    written: tuple[Path, pa.Table], start: int, num_rows: int, cuts: list[int]
) -> None:
    path, rows = written
    num_rows = min(num_rows, NUM_ROWS - start)
    inside = np.array([0, *sorted(cut for cut in cuts if cut < num_rows), num_rows])
    columns = Columns(path)
    chosen: dict[str, PageRange] = {}
    for name in DIRECT:
        column = columns.open(name)
        column.page_ranges(0, NUM_ROWS)
        pieces = column.page_ranges(start, start + num_rows) or []
        if len(pieces) == 1:
            chosen[name] = pieces[0]
    found = read_batches(list(chosen.values()), inside, rows.select(list(chosen)).schema)
    expected = rows.select(list(chosen)).slice(start, num_rows).combine_chunks()
    if found is None:
        # The Python decoder handles bits in lists that do not begin at a byte.
        del chosen["switches"]
        found = read_batches(list(chosen.values()), inside, rows.select(list(chosen)).schema)
        expected = expected.select(list(chosen))
    assert found is not None
    found.rows.validate(full=True)
    assert pa.Table.from_batches([found.rows]).equals(expected)
    bits = sum(
        inside * (width + 1) if (width := value_bits(array.type)) is not None else bits_before(array, inside)
        for array in found.rows.columns
    )
    sizes = np.diff(bits)
    assert found.num_bytes == sizes.sum() // 8
    assert found.largest_bits == max(sizes[np.diff(inside) > 1], default=0)


def test_cuts_that_do_not_fit_are_refused(written: tuple[Path, pa.Table]) -> None:
    path, rows = written
    column = Columns(path).open("plain")
    schema = rows.select(["plain"]).schema
    (piece,) = column.page_ranges(0, 100) or []
    for cuts in ([0], [1, 100], [0, 99], [0, 101], [0, 50, 40, 100]):
        with pytest.raises(ValueError, match="cut"):
            read_batches([piece], np.array(cuts), schema)
    with pytest.raises(ValueError, match="no columns"):
        read_batches([], np.array([0, 100]), schema)


@pytest.mark.parametrize("name", DIRECT)
def test_what_is_wrong_is_said_by_the_long_way(
    written: tuple[Path, pa.Table], name: str, tmp_path: Path
) -> None:
    """T22: a page that the kernel gives up on is read again, and the error names it."""
    path = tmp_path / "a.lance"
    path.write_bytes(written[0].read_bytes())
    columns = Columns(path)
    column = columns.open(name)
    column.page_ranges(0, NUM_ROWS)
    pages = columns.pages(name)
    offset, size = pages[-1].buffers[1]
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * size)
    pieces = column.page_ranges(0, NUM_ROWS)
    assert pieces is not None
    assert None in [array if array is None else 0 for array in decode_page_ranges(pieces)]
    assert decode_masked(pieces, pa.array([True] * NUM_ROWS)) is None
    rows = written[1].select([name])
    last = pieces[-1]
    cuts = np.array([0, last.end - last.start])
    assert read_batches([last], cuts, rows.schema) is None
    with pytest.raises(CorruptFileError) as error:
        column.read(0, NUM_ROWS)
    assert error.value.page == len(pages) - 1


@pytest.mark.parametrize("num_reads", [0, 3], ids=["called", "mapped"])
def test_a_file_that_was_truncated(written: tuple[Path, pa.Table], num_reads: int, tmp_path: Path) -> None:
    """T25: neither a wrong answer nor the end of the process, also out of a map."""
    path = tmp_path / "a.lance"
    path.write_bytes(written[0].read_bytes())
    columns = Columns(path)
    names = ["plain", "text", "numbers"]
    for name in DIRECT * num_reads:
        assert columns.open(name).page_ranges(0, NUM_ROWS) is not None
        joined(decode_page_ranges(columns.open(name).page_ranges(0, NUM_ROWS) or []))
    pieces = [piece for name in names for piece in columns.open(name).page_ranges(0, NUM_ROWS) or []]
    os.truncate(path, 10_000)
    assert None in [array if array is None else 0 for array in decode_page_ranges(pieces)]
    plain = [piece for piece in pieces if piece.leaf_type == pa.float64()]
    assert decode_masked(plain, pa.array([True] * NUM_ROWS)) is None
    with pytest.raises(CorruptFileError, match="truncated"):
        columns.open("text").read(0, NUM_ROWS)


def test_a_mapped_file_of_2_0_that_was_truncated(tmp_path: Path) -> None:
    """T25: numbers that are compared and kept where they are mapped."""
    path = tmp_path / "a.lance"
    rows = table().select(["plain"])
    write_file(path, rows.to_batches(), rows.schema, "2.0", page_bytes=30_000)
    column = Columns(path).open("plain")
    mask = pa.array([number % 3 == 0 for number in range(NUM_ROWS)])
    condition = page_condition(parse_filter("plain > 0.5", rows.schema))
    assert condition is not None
    for _ in range(20):  # then the file is mapped
        ranges = column.page_ranges(0, NUM_ROWS)
        assert ranges is not None
        arrays = decode_masked(ranges, mask)
        assert arrays is not None
        assert pa.chunked_array(arrays) == pc.filter(rows["plain"], mask)
        found = condition.matches(ranges)
        assert found is not None
        assert found.equals(pc.greater(rows["plain"], 0.5).combine_chunks())
    os.truncate(path, 10_000)
    assert decode_masked(ranges, mask) is None
    assert condition.matches(ranges) is None


def test_chunks_that_contradict_each_other_are_refused() -> None:
    """T22: before any of them is read."""
    two, one = memoryview(np.array([0, 8], np.int64)), memoryview(np.array([8], np.int64))
    arguments: dict[str, Any] = {
        **{"num_rows": 8, "positions": one, "lengths": one, "first_values": two},
        **{
            "large": False,
            "compression": "none",
            "coding": "flat",
            "bits": 64,
            "def_": None,
            "max_def": 0,
            "has_nulls": False,
        },
        **{"symbols": None, "items": None},
    }
    kernels.MiniBlocks(**arguments)
    with pytest.raises(kernels.CorruptData, match="positions"):
        kernels.MiniBlocks(**{**arguments, "lengths": two})
    with pytest.raises(kernels.CorruptData, match="bytes"):
        kernels.MiniBlocks(**{**arguments, "lengths": memoryview(np.array([-8], np.int64))})
    with pytest.raises(ValueError, match="coding"):
        kernels.MiniBlocks(**{**arguments, "coding": "other"})
