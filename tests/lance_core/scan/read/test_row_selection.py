"""Single values out of arrays and columns, by their row numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.scan.read.row_selection import by_density, read_rows, select_rows

NUM_ROWS = 20_000
VALUES = pa.array([f"row {row}" if row % 5 else None for row in range(NUM_ROWS)])
LISTS = pa.array([[row] * (row % 3) for row in range(NUM_ROWS)])


class _Column:
    """Keeps which rows are asked for one by one, and how many are decoded in ranges."""

    page_rows = (0, 7_000, NUM_ROWS)
    bytes_per_row = 8.0
    dense_share = 3 / 4

    def __init__(self) -> None:
        self.num_taken = 0
        self.num_read = 0

    def read(self, start: int, end: int) -> list[pa.Array]:
        self.num_read += end - start
        cuts = [start, *(page for page in self.page_rows if start < page < end), end]
        return [VALUES.slice(a, b - a) for a, b in itertools.pairwise(cuts)]

    def take(self, rows: np.ndarray) -> list[pa.Array]:
        self.num_taken += len(rows)
        return [VALUES.take(pa.array(rows))]


@st.composite
def row_sets(draw: st.DrawFn) -> np.ndarray:
    """Rows that are dense here, thin there, and missing elsewhere."""
    chosen = np.zeros(NUM_ROWS, dtype=bool)
    source = np.random.default_rng(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, NUM_ROWS - 1))
        end = draw(st.integers(start, NUM_ROWS))
        chosen[start:end] |= source.random(end - start) < draw(st.sampled_from([0.001, 0.1, 0.7, 1]))
    return np.flatnonzero(chosen)


@given(row_sets(), st.sampled_from([None, 0, 1 / 32, 0.5, 2]))
def test_rows_of_a_column_are_those_asked_for(rows, dense_share):
    arrays = read_rows(_Column(), rows, dense_share)
    expected = VALUES.take(pa.array(rows))
    assert pa.chunked_array(arrays, pa.string()).equals(pa.chunked_array([expected]))


@given(row_sets(), st.lists(st.integers(0, NUM_ROWS), max_size=5), st.sampled_from([VALUES, LISTS]))
def test_rows_of_arrays_are_those_asked_for(rows, cuts, values):
    edges = sorted({0, NUM_ROWS, *cuts})
    arrays = [values.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    found = pa.chunked_array(select_rows(arrays, rows), values.type)
    assert found.equals(pa.chunked_array([values.take(pa.array(rows))]))


@pytest.mark.parametrize(
    ("rows", "num_taken", "num_read"),
    [
        (np.arange(NUM_ROWS), 0, NUM_ROWS),
        (np.flatnonzero(np.arange(NUM_ROWS) % 10), 0, NUM_ROWS - 1),
        (np.arange(0, NUM_ROWS, 2), NUM_ROWS // 2, 0),
        (np.arange(0, NUM_ROWS, 1000), 20, 0),
        (np.array([5, 6]), 0, 2),
        (np.concatenate((np.arange(500, 4096), [9000, 19_000])), 2, 3596),
        (np.flatnonzero(np.arange(16_384, NUM_ROWS) % 5) + 16_384, 0, 3616),
    ],
    ids=["all", "nine of ten", "every other", "thin", "neighbours", "dense, then thin", "short last block"],
)
def test_dense_blocks_are_decoded_whole_and_thin_blocks_row_by_row(rows, num_taken, num_read):
    column = _Column()
    read_rows(column, rows)
    assert (column.num_taken, column.num_read) == (num_taken, num_read)


@pytest.mark.parametrize("dense_share", [1 / 32, 1 / 8, 0.2, 3 / 4])
@pytest.mark.parametrize("factor", [0.9, 1, 1.1])
def test_random_rows_about_as_dense_as_the_share_are_read_together(dense_share: float, factor: float) -> None:
    """Blocks alternate around the share. They are not read one by one."""
    num_rows = 1 << 20
    rows = np.flatnonzero(np.random.default_rng(1).random(num_rows) < dense_share * factor)
    found = list(by_density(rows, dense_share, num_rows))
    assert np.concatenate([some for some, _ in found]).tolist() == rows.tolist()
    assert len(found) < 8
    assert {is_dense for _, is_dense in found} != {True, False} or factor == 1


def test_blocks_that_differ_much_are_read_apart() -> None:
    """Dense blocks between sparse ones, and blocks without a row, begin and end parts of their own."""
    random = np.random.default_rng(1)
    blocks = [0.5, 0.5, 0.01, 0.01, 0, 0, 0.5, 0.1]
    rows = np.concatenate(
        [4096 * number + np.flatnonzero(random.random(4096) < share) for number, share in enumerate(blocks)]
    )
    found = list(by_density(rows, 1 / 8, 8 * 4096))
    assert [is_dense for _, is_dense in found] == [True, False, True]
    assert [int(some[0]) // 4096 for some, _ in found] == [0, 2, 6]


@pytest.mark.parametrize("dense_share", [0, 1 / 32])
def test_blocks_without_a_row_are_never_decoded(dense_share: float) -> None:
    """T30: two groups of rows far from each other are two reads."""
    rows = np.concatenate((np.arange(0, 4000, 2), np.arange(40_000_000, 40_004_000, 2)))
    found = list(by_density(rows, dense_share, 50_000_000))
    assert [(len(some), is_dense) for some, is_dense in found] == [(2000, True), (2000, True)]
