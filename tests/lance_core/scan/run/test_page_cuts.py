"""Division of ranges of rows."""

from hypothesis import given
from hypothesis import strategies as st

from lance_core.scan.run.page_cuts import cut_rows


def cuts(boundaries, start, end, aimed_rows, growth=1.5, most_rows=None, multiple=1):
    return list(
        cut_rows(
            boundaries,
            start,
            end,
            aimed_rows=aimed_rows,
            growth=growth,
            most_rows=most_rows,
            multiple=multiple,
        )
    )


@given(
    boundaries=st.lists(st.integers(0, 5000), max_size=40).map(sorted),
    start=st.integers(0, 3000),
    length=st.integers(0, 3000),
    aimed_rows=st.integers(1, 2000),
    growth=st.sampled_from([1, 1.25, 1.5]),
    most_rows=st.none() | st.integers(1, 500),
    multiple=st.sampled_from([1, 8, 64]),
)
def test_pieces_cover_the_range_in_order(boundaries, start, length, aimed_rows, growth, most_rows, multiple):
    pieces = cuts(boundaries, start, start + length, aimed_rows, growth, most_rows, multiple)
    assert [row for piece in pieces for row in range(*piece)] == list(range(start, start + length))
    most = min(int(aimed_rows * growth), most_rows or 10**9)
    assert all(0 < last - first <= most for first, last in pieces)


def test_long_distances_are_divided_evenly_within_their_boundaries():
    assert cuts([0, 1000, 1900], 0, 1900, 250) == [
        *[(first, first + 250) for first in range(0, 1000, 250)],
        *[(first, first + 225) for first in range(1000, 1900, 225)],
    ]


def test_short_distances_are_gathered_up_to_one_and_a_half_times_the_aim():
    assert cuts([0, 50, 100, 150, 200], 0, 200, 100) == [(0, 150), (150, 200)]


def test_pieces_that_may_not_grow_are_divided_into_more():
    assert cuts([0, 1400], 0, 1400, 1000, growth=1) == [(0, 700), (700, 1400)]
    assert cuts([0, 60, 120, 180], 0, 180, 100, growth=1) == [(0, 60), (60, 120), (120, 180)]


def test_boundaries_outside_the_range_are_ignored():
    assert cuts([0, 10, 20, 30], 12, 18, 100) == [(12, 18)]


def test_cuts_between_boundaries_lie_at_multiples():
    pieces = cuts([0, 100_000], 0, 100_000, 10_000, multiple=64)
    assert all(first % 64 == 0 for first, _ in pieces)
    assert len(pieces) == 10


def test_pieces_limited_in_rows_have_exactly_so_many():
    assert cuts([], 0, 10, 8, most_rows=3) == [(0, 3), (3, 6), (6, 9), (9, 10)]
