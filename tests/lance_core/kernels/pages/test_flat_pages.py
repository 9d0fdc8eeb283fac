"""Rows of pages of 2.0 files, read and decoded by one kernel, beside their Python values."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.encodings.v2_1.layouts.direct import direct_array
from lance_core.kernels import (
    ColumnPages,
    CorruptData,
    FlatPage,
    PieceReader,
    decode_batches,
    decode_rows,
    match_intervals,
    take_rows,
)
from support.processes.descriptors import kept_open
from support.runs.draws import draws
from support.twins import inputs

NUMBERS = [pa.int8(), pa.uint16(), pa.int32(), pa.float64(), pa.decimal128(20, 2)]
FRONT = b"front"


@contextmanager
def file_of(data: bytes, map_after: int = 1 << 60) -> Iterator[PieceReader]:
    descriptor = os.memfd_create("page")
    try:
        os.write(descriptor, data)
        yield PieceReader(kept_open(descriptor), len(data), 0, map_after)
    finally:
        os.close(descriptor)


def decoded(
    page: FlatPage,
    file: PieceReader,
    start: int,
    end: int,
    data_type: pa.DataType,
    list_type: pa.DataType | None = None,
) -> pa.Array | None:
    """Rows of the page, as single reads and as batches give them; None if the kernel refuses them."""
    wanted = np.flatnonzero(np.random.default_rng(start).random(end - start) < 0.6)
    piece = (page, file, start, end)
    rows, kept = decode_rows([piece, piece], [None, (inputs.int64s((wanted + 7).tolist()), 7)])
    batches = decode_batches([(page, file, start, end)], inputs.int64s([0, end - start]))
    if rows is None:
        assert kept is None
        assert batches.is_there == [False]
        return None
    assert kept is not None
    array = direct_array(rows, data_type, list_type)
    array.validate(full=True)
    chosen = direct_array(kept, data_type, list_type)
    chosen.validate(full=True)
    assert chosen.equals(array.take(pa.array(wanted)))
    assert batches.is_there == [True]
    shown = data_type if list_type is None else list_type
    schema = pa.schema([("c", shown)])
    assert pa.RecordBatch._import_from_c(batches.address, schema).column(0).equals(array)
    rows = np.random.default_rng(end).integers(start, end, 6)
    one = taken([page], [0, end], file, rows.tolist(), shown)
    if start == 0:
        assert one is not None
        assert one.equals(array.take(pa.array(rows)))
    return array


def taken(
    pages: Sequence[FlatPage | None],
    starts: Sequence[int],
    file: PieceReader,
    rows: Sequence[int],
    data_type: pa.DataType,
) -> pa.Array | None:
    """Single rows of a column of pages that begin at rows `starts`; None if the kernel refuses them.

    Each row gets the place of its opposite, so that the result is reversed.
    """
    column = ColumnPages(list(pages), inputs.int64s(starts), file)
    places = inputs.int64s(range(len(rows))[::-1])
    result = take_rows([([column], inputs.int64s(rows), places)], 1, len(rows))
    if result.is_there == [False]:
        return None
    array = pa.RecordBatch._import_from_c(result.address, pa.schema([("c", data_type)])).column(0)
    array.validate(full=True)
    return array.take(pa.array(range(len(rows))[::-1]))


def texts(seed: int, num_rows: int, share: float) -> list[str | None]:
    chance = random.Random(seed)
    return [
        None if chance.random() < share else "äbc"[: chance.randrange(4)] * chance.randrange(3)
        for _ in range(num_rows)
    ]


@settings(max_examples=draws(60), deadline=None)
@given(
    data_type=st.sampled_from([*NUMBERS, pa.bool_()]),
    num_rows=st.integers(1, 300),
    share=st.sampled_from([0.0, 0.02, 0.5, 1.0, None]),
    map_after=st.sampled_from([0, 1 << 60]),
    data=st.data(),
)
def test_numbers(
    data_type: pa.DataType, num_rows: int, share: float | None, map_after: int, data: st.DataObject
) -> None:
    """Values and the bitmap of a page, which may begin at any row."""
    chance = np.random.default_rng(num_rows)
    values = pa.array(chance.integers(0, 2, num_rows) * 100, pa.int8()).cast(data_type)
    is_null = np.zeros(num_rows, bool) if share is None else chance.random(num_rows) < share
    stored = values.buffers()[1].to_pybytes()[: -(-num_rows * data_type.bit_width // 8)]
    bitmap = np.packbits(~is_null, bitorder="little").tobytes()
    places = (len(FRONT), len(stored)), (len(FRONT) + len(stored), len(bitmap))
    page = FlatPage(num_rows, data_type.bit_width, places[0], None if share is None else places[1])
    rows = [None if null else value for null, value in zip(is_null, values.to_pylist(), strict=True)]
    expected = pa.array(rows, data_type)
    start = data.draw(st.integers(0, num_rows - 1))
    end = data.draw(st.integers(start + 1, num_rows))
    with file_of(FRONT + stored + bitmap, map_after) as file:
        for _ in range(2):
            found = decoded(page, file, start, end, data_type)
            assert found is not None
            assert found.equals(expected.slice(start, end - start))
        if data_type == pa.int32():
            matched = match_intervals((page, file, start, end), 32, False, [(100, 100, False)], False)
            assert matched is not None
            assert matched[1] == rows[start:end].count(100)


@settings(max_examples=draws(60), deadline=None)
@given(
    data_type=st.sampled_from([pa.string(), pa.large_string()]),
    seed=st.integers(0, 1 << 20),
    num_rows=st.integers(1, 100),
    share=st.sampled_from([0.0, 0.2, 1.0]),
    has_dictionary=st.booleans(),
    data=st.data(),
)
def test_strings(
    data_type: pa.DataType, seed: int, num_rows: int, share: float, has_dictionary: bool, data: st.DataObject
) -> None:
    """Strings with their ends, or with the indices of a dictionary, in which 0 is null."""
    rows = texts(seed, num_rows, share)
    bits = 32 if data_type == pa.string() else 64
    start = data.draw(st.integers(0, num_rows - 1))
    end = data.draw(st.integers(start + 1, num_rows))
    if has_dictionary:
        page, stored = with_dictionary(rows, bits, data.draw(st.sampled_from([8, 16, 32, 64])))
    else:
        page, stored = with_ends(rows, bits)
    with file_of(stored) as file:
        found = decoded(page, file, start, end, data_type)
    assert found is not None
    assert found.equals(pa.array(rows[start:end], data_type))


def with_ends(rows: Sequence[str | None], bits: int) -> tuple[FlatPage, bytes]:
    parts = [(row or "").encode() for row in rows]
    ends = np.cumsum([len(part) for part in parts]).astype("<u8")
    adjustment = int(ends[-1]) + 1
    ends[[row is None for row in rows]] += adjustment
    stored = ends.tobytes() + b"".join(parts)
    text = (ends.nbytes, len(stored) - ends.nbytes), adjustment, bits
    return FlatPage(len(rows), 64, (0, ends.nbytes), None, text), stored


def with_dictionary(rows: Sequence[str | None], bits: int, index_bits: int) -> tuple[FlatPage, bytes]:
    items = sorted({row for row in rows if row is not None})
    parts = [b"", *(item.encode() for item in items)]
    offsets = np.cumsum([0, *map(len, parts)]).astype(f"<i{bits // 8}")
    indices = np.array([0 if row is None else items.index(row) + 1 for row in rows], f"<u{index_bits // 8}")
    known = offsets.data, memoryview(b"".join(parts)), len(parts), bits
    return FlatPage(len(rows), index_bits, (0, indices.nbytes), None, None, known), indices.tobytes()


@pytest.mark.parametrize("map_after", [0, 1 << 60], ids=["mapped", "called"])
def test_rows_of_several_pages_are_taken_together(map_after: int) -> None:
    """Strings with their ends and with a dictionary, whose rows share bytes and ranges."""
    first, second = texts(3, 40, 0.2), texts(4, 30, 0.2)
    with_items, indices = with_dictionary(first, 32, 16)
    # The second page lies behind the indices of the first.
    behind = len(indices)
    _, ends = with_ends(second, 32)
    parts = [(row or "").encode() for row in second]
    adjustment = sum(map(len, parts)) + 1
    data = (behind + 8 * 30, len(ends) - 8 * 30), adjustment, 32
    page = FlatPage(30, 64, (behind, 8 * 30), None, data)
    rows = [69, 40, 41, 42, 41, 0, 39, 5, 55, 5]
    expected = pa.array([[*first, *second][row] for row in rows])
    with file_of(indices + ends, map_after) as file:
        for _ in range(2):
            found = taken([with_items, page], [0, 40, 70], file, rows, pa.string())
            assert found is not None
            assert found.equals(expected)
        assert taken([with_items, None], [0, 40, 70], file, [3, 40], pa.string()) is None
        assert taken([with_items, None], [0, 40, 70], file, [3, 39], pa.string()) is not None
        assert taken([with_items, page], [0, 40, 71], file, [70], pa.string()) is None
        assert taken([with_items, page], [0, 40, 70], file, [-1], pa.string()) is None
        assert taken([with_items, FlatPage(30, 8, (0, 30))], [0, 40, 70], file, [3, 40], pa.string()) is None


@pytest.mark.parametrize("damage", ["decreasing", "too far", "index"])
def test_damaged_pages_are_left_to_the_decoder_that_names_them(damage: str) -> None:
    """T22"""
    rows = ["ab", "c", None, "def"]
    page, stored = with_dictionary(rows, 32, 8) if damage == "index" else with_ends(rows, 32)
    changed = bytearray(stored)
    if damage == "index":
        changed[1] = 4
    else:
        changed[8:16] = (1 if damage == "decreasing" else 1 << 60).to_bytes(8, "little")
    with file_of(bytes(changed)) as file:
        assert decoded(page, file, 0, 4, pa.string()) is None
        assert decoded(page, file, 3, 4, pa.string()) is not None
        assert taken([page], [0, 4], file, [1], pa.string()) is None
        assert taken([page], [0, 4], file, [3], pa.string()) is not None


@pytest.mark.parametrize(
    "arguments",
    [
        (5, 64, (0, 39)),
        (5, 0, (0, 40)),
        (5, 12, (0, 40)),
        (1 << 60, 64, (0, (1 << 64) - 1)),
        (9, 8, (0, 9), (9, 1)),
        (1, 32, (0, 8), None, ((8, 0), 1, 32)),
        (1, 24, (0, 8), None, None, (bytes(8), b"", 1, 32)),
    ],
)
def test_pages_that_contradict_themselves(arguments: tuple[object, ...]) -> None:
    """T22"""
    with pytest.raises(CorruptData):
        FlatPage(*arguments)  # type: ignore[arg-type]


def test_rows_beyond_the_page_or_the_file() -> None:
    """T22, T25"""
    page = FlatPage(4, 64, (0, 32))
    with file_of(bytes(24)) as file:
        assert decoded(page, file, 0, 3, pa.int64()) is not None
        assert decoded(page, file, 0, 4, pa.int64()) is None
        assert decoded(page, file, 3, 5, pa.int64()) is None
        assert decode_rows([(page, file, 2, 2)], [None]) == [None]


@settings(max_examples=draws(80), deadline=None)
@given(
    item_type=st.sampled_from([pa.int32(), pa.bool_(), pa.string(), pa.large_string()]),
    list_type=st.sampled_from([pa.list_, pa.large_list]),
    seed=st.integers(0, 1 << 20),
    num_rows=st.integers(1, 60),
    map_after=st.sampled_from([0, 1 << 60]),
    data=st.data(),
)
def test_lists(item_type, list_type, seed: int, num_rows: int, map_after: int, data: st.DataObject) -> None:
    """Items in one page or in two, after items of an earlier page of lists; null and empty lists."""
    chance = random.Random(seed)
    counts = [chance.choice([0, 0, 1, 2, 9]) for _ in range(num_rows)]
    is_null = [count == 0 and chance.random() < 0.5 for count in counts]
    num_items, before = sum(counts), chance.randrange(1, 20)
    items = _items(chance, item_type, before + num_items)
    ends = np.cumsum(counts, dtype=np.uint64)
    stored_ends = (ends + np.array(is_null, np.uint64) * np.uint64(num_items + 1)).tobytes()
    starts = [0, before + num_items]
    if data.draw(st.booleans()):
        starts.insert(1, data.draw(st.integers(0, starts[1])))
    content, pages = FRONT + stored_ends, []
    for first, end in pairwise(starts):
        page, stored = _page_of_items(pa.array(items[first:end], item_type), len(content))
        pages.append(page)
        content += stored
    bits = 32 if list_type is pa.list_ else 64
    lists = pages, starts, before, num_items, num_items + 1, bits
    page = FlatPage(num_rows, 64, (len(FRONT), len(stored_ends)), None, None, None, lists)
    firsts = [before, *(before + int(end) for end in ends)]
    rows = [
        None if null else items[first:end]
        for null, (first, end) in zip(is_null, pairwise(firsts), strict=True)
    ]
    whole = list_type(item_type)
    expected = pa.array(rows, whole)
    start = data.draw(st.integers(0, num_rows - 1))
    end = data.draw(st.integers(start + 1, num_rows))
    with file_of(content, map_after) as file:
        found = decoded(page, file, start, end, item_type, whole)
        if found is None:  # the items are in two pages
            assert firsts[start] < starts[1] < firsts[end]
        else:
            assert found.equals(expected.slice(start, end - start))
        wanted = [data.draw(st.integers(0, num_rows - 1)) for _ in range(4)]
        one = taken([page], [0, num_rows], file, wanted, whole)
        assert one is not None
        assert one.equals(expected.take(pa.array(wanted)))


def _items(chance: random.Random, item_type: pa.DataType, count: int) -> list[object]:
    if pa.types.is_boolean(item_type):
        values: Sequence[object] = [True, False, None]
    else:
        values = [1, 2, None] if pa.types.is_integer(item_type) else ["", "a", "bcd", None]
    return [chance.choice(values) for _ in range(count)]


def _page_of_items(items: pa.Array, offset: int) -> tuple[FlatPage, bytes]:
    """The page of items, and its bytes, which begin at `offset` of the file."""
    count = len(items)
    if items.type in (pa.string(), pa.large_string()):
        values = ["" if value is None else value for value in items.to_pylist()]
        data = "".join(values).encode()
        nulls = np.array([value is None for value in items.to_pylist()], np.uint64)
        ends = np.cumsum([len(value) for value in values], dtype=np.uint64) if values else np.empty(0, "u8")
        stored = (ends + nulls * np.uint64(len(data) + 1)).tobytes()
        text = (offset + len(stored), len(data)), len(data) + 1, 32 if items.type == pa.string() else 64
        return FlatPage(count, 64, (offset, len(stored)), None, text), stored + data
    width = items.type.bit_width
    stored = (
        items.fill_null(False if width == 1 else 0).buffers()[1].to_pybytes()[: -(-count * width // 8)]
        if count
        else b""
    )
    valid = np.array([value is not None for value in items.to_pylist()], bool)
    bitmap = np.packbits(valid, bitorder="little").tobytes()
    places = (offset, len(stored)), (offset + len(stored), len(bitmap))
    return FlatPage(count, width, *places), stored + bitmap


@pytest.mark.parametrize(
    "lists",
    [
        ([], [0], 0, 0, 1, 32),
        (1, [0], 0, 4, 5, 32),
        (1, [0, 5], 0, 4, 5, 32),
        (1, [0, 4], 0, 5, 6, 32),
        (1, [0, 4], 5, 0, 1, 32),
        (1, [1, 4], 0, 3, 4, 32),
        (1, [0, 4], 0, 4, 4, 32),
        (1, [0, 4], 0, 4, 5, 16),
        (1, [4, 0], 0, 0, 1, 32),
        (1, [0, 4], 1 << 63, 4, 5, 32),
    ],
    ids=repr,
)
def test_lists_that_do_not_fit_their_items(lists) -> None:
    pages, *others = lists
    items = [FlatPage(4, 32, (0, 16))] if pages else []
    with pytest.raises(CorruptData):
        FlatPage(1, 64, (0, 8), None, None, None, (items, *others))
    nested = FlatPage(1, 64, (0, 8), None, None, None, ([FlatPage(4, 32, (0, 16))], [0, 4], 0, 4, 5, 32))
    with pytest.raises(CorruptData):
        FlatPage(1, 64, (0, 8), None, None, None, ([nested], [0, 1], 0, 1, 2, 32))


@pytest.mark.parametrize("ends", [[5, 4], [0, 12], [9, 2], [1 << 63, 1], [2, 1 << 40]], ids=repr)
def test_ends_of_lists_that_lie(ends: list[int]) -> None:
    """Ends that decrease, or that are beyond the items of the page."""
    content = np.array(ends, np.uint64).tobytes() + bytes(20)
    lists = [FlatPage(5, 32, (16, 20))], [0, 5], 0, 5, 6, 32
    with file_of(content) as file:
        page = FlatPage(2, 64, (0, 16), None, None, None, lists)
        assert decoded(page, file, 0, 2, pa.int32(), pa.list_(pa.int32())) is None
        assert taken([page], [0, 2], file, [0, 1], pa.list_(pa.int32())) is None
