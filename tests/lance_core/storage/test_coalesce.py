"""Merging of byte ranges."""

from hypothesis import given
from hypothesis import strategies as st

from lance_core.storage.coalesce import MergedRange, coalesce

RANGES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 700)), max_size=30)


def test_neighbours_are_merged_up_to_the_gap() -> None:
    ranges = [(100, 10), (0, 10), (111, 5), (30, 5)]

    assert coalesce(ranges, max_gap=1, max_length=1000) == [
        MergedRange(0, 10, (1,)),
        MergedRange(30, 5, (3,)),
        MergedRange(100, 16, (0, 2)),
    ]


def test_a_merged_read_stays_below_its_limit_but_a_single_range_does_not_have_to() -> None:
    ranges = [(0, 50), (50, 50), (100, 500)]

    assert coalesce(ranges, max_gap=0, max_length=100) == [
        MergedRange(0, 100, (0, 1)),
        MergedRange(100, 500, (2,)),
    ]


def test_overlapping_and_repeated_ranges_share_a_read() -> None:
    assert coalesce([(0, 10), (5, 10), (0, 10)], max_gap=0, max_length=100) == [MergedRange(0, 15, (0, 2, 1))]


@given(ranges=RANGES, max_gap=st.integers(0, 200), max_length=st.integers(1, 2000))
def test_every_range_is_inside_the_read_that_serves_it(
    ranges: list[tuple[int, int]], max_gap: int, max_length: int
) -> None:
    merged = coalesce(ranges, max_gap=max_gap, max_length=max_length)

    served = {member: read for read in merged for member in read.members}
    assert set(served) == {index for index, (_, length) in enumerate(ranges) if length}
    assert sum(len(read.members) for read in merged) == len(served)
    for index, read in served.items():
        offset, length = ranges[index]
        assert read.offset <= offset
        assert offset + length <= read.offset + read.length
    for read in merged:
        assert read.length <= max_length or len(read.members) == 1
