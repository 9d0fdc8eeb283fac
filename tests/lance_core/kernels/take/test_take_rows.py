"""Single rows out of chunks in files, of many columns at once; beside the values that were put there."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import ColumnPages, CorruptData, MiniBlocks
from support.processes.waiting import wait_until
from support.runs.draws import draws
from support.twins import inputs, values
from support.twins.random_pages import (
    LEVELS,
    LOOKED_UP,
    NEVER,
    NUMBERS,
    TEXTS,
    WORDS,
    PageOf,
    bytes_of,
    column_of,
    file_of,
    random_list_page,
    random_page,
    take,
)


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize("coding", [*WORDS, *TEXTS, *LOOKED_UP])
@settings(max_examples=draws(8), deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 1 << 30))
def test_rows_in_any_order(coding: str, map_after: int, levels: str, seed: int) -> None:
    """Rows of two files, some of them requested twice, from pages that store levels in different ways."""
    rng = random.Random(seed)
    most = 1024 if "packing" in coding else 150
    first = [random_page(rng, coding, levels, most), random_page(rng, coding, rng.choice(LEVELS))]
    second = [random_page(rng, coding, "none")]
    stored = [[value for page in pages for value in page.found] for pages in (first, second)]
    count = rng.randint(1, 40)
    files = [rng.randrange(2) for _ in range(count)]
    rows = [rng.randrange(len(stored[file])) for file in files]
    rows[-1] = rows[0] if files[-1] == files[0] else rows[-1]
    head = rng.randbytes(16)
    with (
        file_of(head + bytes_of(first), map_after) as (_, one),
        file_of(bytes_of(second), map_after) as (_, other),
    ):
        columns = [column_of(first, one, 16), column_of(second, other)]
        parts = [
            (
                [column, column],
                inputs.int64s([rows[k] for k in range(count) if files[k] == file]),
                inputs.int64s([k for k in range(count) if files[k] == file]),
            )
            for file, column in enumerate(columns)
        ]
        taken = take(coding, parts, 2, count)
    expected = [stored[file][row] for file, row in zip(files, rows, strict=True)]
    assert taken == [expected, expected]


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize(
    "coding", ["flat 64", "inline_bitpacking 16", "variable 32", "fsst 64", "items 16", "numbers 8"]
)
@settings(max_examples=draws(40), deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 1 << 30))
def test_changed_bytes(coding: str, map_after: int, levels: str, seed: int) -> None:
    """T22: for any bytes in the chunks, the kernel answers or refuses."""
    rng = random.Random(seed)
    page = random_page(rng, coding, levels, most=70)
    data = bytearray(bytes_of([page]))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    rows = [rng.randrange(len(page.found)) for _ in range(20)]
    with file_of(bytes(data), map_after) as (_, file):
        take(coding, [([column_of([page], file)], inputs.int64s(rows), None)], 1, len(rows))


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize("coding", [*WORDS, *TEXTS, *LOOKED_UP])
@settings(max_examples=draws(12), deadline=None)
@given(st.sampled_from(LEVELS), st.sampled_from((32, 64)), st.integers(0, 1 << 30))
def test_lists_in_any_order(coding: str, map_after: int, levels: str, list_bits: int, seed: int) -> None:
    """Lists of two files, some of them requested twice, from pages with levels of different meanings.

    Half of the requests are in order: then the search for a list goes on behind the list before.
    """
    rng = random.Random(seed)
    first = [random_list_page(rng, coding, levels), random_list_page(rng, coding, rng.choice(LEVELS))]
    second = [random_list_page(rng, coding, rng.choice(LEVELS))]
    for page in first + second:
        page.offset_bits = list_bits
    stored = [[value for page in pages for value in page.found] for pages in (first, second)]
    count = rng.randint(1, 40)
    files = [rng.randrange(2) for _ in range(count)]
    if seed % 2:
        files.sort()
    rows = [rng.randrange(len(stored[file])) for file in files]
    if seed % 2:
        rows = [row for _, row in sorted(zip(files, rows, strict=True))]
    with (
        file_of(bytes_of(first), map_after) as (_, one),
        file_of(bytes_of(second), map_after) as (_, other),
    ):
        columns = [column_of(first, one), column_of(second, other)]
        parts = [
            (
                [column, column],
                inputs.int64s([rows[k] for k in range(count) if files[k] == file]),
                inputs.int64s([k for k in range(count) if files[k] == file]),
            )
            for file, column in enumerate(columns)
        ]
        taken = take(coding, parts, 2, count, list_bits)
    expected = [stored[file][row] for file, row in zip(files, rows, strict=True)]
    assert taken == [expected, expected]


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize("coding", ["flat 64", "inline_bitpacking 16", "variable 32", "items 16"])
@settings(max_examples=draws(60), deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 1 << 30))
def test_changed_bytes_of_lists(coding: str, map_after: int, levels: str, seed: int) -> None:
    """T22: for any bytes in the chunks of lists, the kernel answers or refuses."""
    rng = random.Random(seed)
    page = random_list_page(rng, coding, levels)
    data = bytearray(bytes_of([page]))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    rows = [rng.randrange(page.num_rows) for _ in range(20)]
    if seed % 2:
        rows.sort()
    with file_of(bytes(data), map_after) as (_, file):
        take(coding, [([column_of([page], file)], inputs.int64s(rows), None)], 1, len(rows), 32)


def test_lists_that_are_not_there() -> None:
    """T22: rows outside a page of lists, and pages of lists beside pages of other lists or of values."""
    rng = random.Random(4)
    page = random_list_page(rng, "flat 32", "flat")
    flat = random_page(rng, "flat 32", "flat")
    wide = random_list_page(rng, "flat 32", "flat")
    wide.offset_bits = 64
    with file_of(bytes_of([page, wide, flat]), 0) as (_, file):

        def is_taken(pages: Sequence[PageOf], rows: Sequence[int]) -> bool:
            (done,) = kernels.take_rows(
                [([column_of(pages, file)], inputs.int64s(rows), None)], 1, len(rows)
            ).is_there
            return done

        assert is_taken([page], [0, page.num_rows - 1])
        assert not is_taken([page], [page.num_rows])
        assert is_taken([page, wide], [0, 1])
        assert not is_taken([page, wide], [0, page.num_rows])
        assert not is_taken([page, wide, flat], [0, page.num_rows + wide.num_rows])
        assert not is_taken([flat, page], [0, flat.num_rows])


def test_lists_with_many_items() -> None:
    """If a call needs many items, it leaves them to the decoder of whole chunks."""
    page = random_list_page(random.Random(6), "flat 32", "flat")
    with file_of(bytes_of([page]), 0) as (_, file):
        for num_rows, is_taken in ((100, True), (5000, False)):
            wanted = [([column_of([page], file)], inputs.int64s([0] * num_rows), None)]
            assert kernels.take_rows(wanted, 1, num_rows).is_there == [is_taken]


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
def test_a_file_that_was_truncated(map_after: int) -> None:
    """T25: nothing is taken, neither zeros nor what lies behind the end, and the process lives."""
    rng = random.Random(5)
    page = random_page(rng, "flat 64", "flat", most=2000)
    while len(bytes_of([page])) < 10_000:
        page = random_page(rng, "flat 64", "flat", most=2000)
    with file_of(bytes_of([page]), map_after) as (descriptor, file):
        column = column_of([page], file)
        wanted = [([column], inputs.int64s([0, len(page.found) - 1]), None)]
        assert kernels.take_rows(wanted, 1, 2).is_there == [True]
        for length in (5000, 100, 0):
            os.truncate(descriptor, length)
            assert kernels.take_rows(wanted, 1, 2).is_there == [False]


def test_what_is_not_there() -> None:
    """T22: rows, places, columns and chunks outside what there is."""
    page = random_page(random.Random(1), "flat 32", "none")
    last = len(page.found) - 1
    with file_of(bytes_of([page]), 0) as (_, file):
        column = column_of([page], file)

        def is_taken(rows: Sequence[int], places: Sequence[int] | None, num_rows: int) -> bool:
            numbers = None if places is None else inputs.int64s(places)
            (done,) = kernels.take_rows([([column], inputs.int64s(rows), numbers)], 1, num_rows).is_there
            return done

        assert is_taken([last], None, 1)
        assert not is_taken([last + 1], None, 1)
        assert not is_taken([-1], None, 1)
        assert not is_taken([0, 0], None, 1)
        assert not is_taken([0], [1], 1)
        assert not is_taken([0], [-1], 1)
        assert not is_taken([0], [0], 2)  # a row that nobody gives
        with pytest.raises(CorruptData, match="places"):
            is_taken([0, 1], [0], 2)
        with pytest.raises(CorruptData, match="columns"):
            kernels.take_rows([([], inputs.int64s([0]), None)], 1, 1)
        behind = column_of([page], file, position=8)
        assert kernels.take_rows([([behind], inputs.int64s([last]), None)], 1, 1).is_there == [False]
        with pytest.raises(TypeError, match="None"):
            kernels.take_rows([([None], inputs.int64s([0]), None)], 1, 1)  # type: ignore[list-item]
        with pytest.raises(TypeError, match="None"):
            kernels.decode_rows([(page.pages(0), None, 0, 1)], [None])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="None"):
            kernels.decode_rows([(None, file, 0, 1)], [None])  # type: ignore[list-item]
        with pytest.raises(CorruptData, match="pages"):
            ColumnPages([], inputs.int64s([0]), file)
        with pytest.raises(CorruptData, match="page 0"):
            ColumnPages([page.pages(0)], inputs.int64s([0, -1]), file)


def test_pages_that_are_not_known() -> None:
    """Rows of a known page are taken, and those of an unknown page, which is named, are not."""
    rng = random.Random(8)
    for coding, lists in (("flat 32", False), ("variable 32", False), ("flat 32", True)):
        pages = [
            random_list_page(rng, coding, "none") if lists else random_page(rng, coding, "none")
            for _ in range(3)
        ]
        first, second, third = (page.num_rows for page in pages)
        starts = inputs.int64s([0, first, first + second, first + second + third])
        with file_of(bytes_of(pages), 0) as (_, file):
            known = column_of(pages, file).pages
            column = ColumnPages([None, known[1], None], starts, file)
            for rows, unknown in (
                ([first, first + second - 1], []),
                ([first, 0], [0]),
                ([first + second, first, 0, first + second], [0, 2]),
                ([-1, first + second + third], []),
            ):
                assert column.unknown(inputs.int64s(rows)) == unknown
            for rows, is_taken in (([first], True), ([0], False), ([first, first + second], False)):
                wanted = [([column], inputs.int64s(rows), None)]
                assert kernels.take_rows(wanted, 1, len(rows)).is_there == [is_taken]
            nothing = ColumnPages([None] * 3, starts, file)
            assert kernels.take_rows([([nothing], inputs.int64s([0]), None)], 1, 1).is_there == [False]


def test_pages_of_different_types() -> None:
    """T22: bytes of one page are not taken for values of another type."""
    rng = random.Random(2)
    for one, other in (("flat 32", "flat 64"), ("flat 32", "variable 32"), ("variable 32", "variable 64")):
        pages = [random_page(rng, one, "none"), random_page(rng, other, "none")]
        rows = inputs.int64s([0, len(pages[0].found)])
        with file_of(bytes_of(pages), 0) as (_, file):
            assert kernels.take_rows([([column_of(pages, file)], rows, None)], 1, 2).is_there == [False]


def test_pages_with_and_without_a_dictionary() -> None:
    rng = random.Random(3)
    pages = [random_page(rng, coding, "none") for coding in ("flat 64", "numbers 8", "numbers 16")]
    found = [value for page in pages for value in page.found]
    rows = rng.sample(range(len(found)), 20)
    with file_of(bytes_of(pages), 0) as (_, file):
        parts = [([column_of(pages, file)], inputs.int64s(rows), None)]
        assert take("flat 64", parts, 1, len(rows)) == [[found[row] for row in rows]]


@pytest.mark.parametrize("bits", [0, 4, 32, 128])
def test_items_of_another_width(bits: int) -> None:
    """T22: items that are not as many values of their width as there are bytes."""
    with pytest.raises(CorruptData, match=f"4 items of {bits} bits in 32 bytes"):
        MiniBlocks(
            1,
            inputs.int64s([0]),
            inputs.int64s([8]),
            inputs.int64s([0, 1]),
            False,
            "none",
            "flat",
            8,
            None,
            0,
            False,
            None,
            (None, values.integers(NUMBERS, 64), len(NUMBERS), bits),
        )


def test_what_nobody_imports() -> None:
    """Columns that were taken are given back with whoever has them: the object that holds them, or Arrow."""
    page = random_page(random.Random(1), "flat 32", "none")
    with file_of(bytes_of([page]), 0) as (_, file):
        wanted = [([column_of([page], file)], inputs.int64s([0] * 100_000), None)]
        before = kernels.pool_use()
        for _ in range(3):
            kernels.take_rows(wanted, 1, 100_000)
        taken = kernels.take_rows(wanted, 1, 100_000)
        batch = pa.RecordBatch._import_from_c(taken.address, pa.schema([("x", pa.int32())]))
        del taken
        assert batch.column(0).to_pylist()[-1] == page.found[0]
        del batch
        # Threads of other tests may hold blocks for a while.
        wait_until(lambda: kernels.pool_use()[0] <= before[0], "the blocks are given back")
