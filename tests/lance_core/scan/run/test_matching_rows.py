"""Ends of the batches of a filtered stream."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_core.scan.run.matching_rows import BatchEnds

MOST_PLACES = 20_000_000


@given(
    st.lists(st.integers(0, MOST_PLACES), max_size=60, unique=True).map(sorted),
    st.lists(st.integers(0, MOST_PLACES), max_size=6).map(sorted),
    st.integers(1, 20),
)
def test_ends_depend_on_the_rows_alone(places, windows, aimed_rows):
    """The batches are the same for any division of the rows into windows."""

    def cut(edges):
        ends, sizes, start = BatchEnds(), [], 0
        for edge in (*edges, MOST_PLACES + 1):
            inside = np.array([place for place in places if start <= place < edge], dtype=np.int64)
            sizes += ends.add(inside, aimed_rows)
            if edge in windows:
                sizes += ends.reach(edge)
            start = edge
        return sizes + ends.finish()

    at_once, in_windows = cut([]), cut(windows)
    assert at_once == in_windows
    assert sum(at_once) == len(places)
    assert all(0 < size <= aimed_rows for size in at_once)


def test_a_match_is_not_held_back_until_a_batch_is_full():
    ends = BatchEnds()
    assert ends.add(np.array([5]), 1000) == []
    assert ends.reach(100_000) == []
    assert ends.reach(200_000) == [1]


def test_batches_end_where_they_are_full():
    ends = BatchEnds()
    assert ends.add(np.arange(25), 10) == [10, 10]
    assert ends.add(np.arange(25, 36), 10) == [10]
    assert ends.finish() == [6]
    assert ends.finish() == []
