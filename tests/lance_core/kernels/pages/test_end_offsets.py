"""Ends with marked nulls against plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData, OffsetOverflow
from support.runs.draws import draws
from support.twins import inputs, values


@settings(max_examples=draws(120), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40),
    st.booleans(),
    st.sampled_from((32, 64)),
    st.randoms(use_true_random=False),
)
def test_ends_become_offsets_and_validity(
    lengths: list[int | None], has_previous: bool, offset_bits: int, rng: random.Random
) -> None:
    """A null is its end plus an adjustment beyond all ends; the end before the first may be marked too."""
    begin = rng.randrange(20) if has_previous else 0
    ends = [begin]
    for length in lengths:
        ends.append(ends[-1] + (length or 0))
    adjustment = ends[-1] + rng.randint(1, 5)
    stored = [end + adjustment * (length is None) for end, length in zip(ends[1:], lengths, strict=True)]
    if has_previous:
        stored.insert(0, begin + adjustment * rng.choice((0, 1)))
    offsets, bitmap, num_nulls, first, last = kernels.split_null_ends(
        inputs.place(values.integers(stored, 64), rng.randrange(8)),
        len(lengths),
        has_previous,
        adjustment,
        ends[-1],
        offset_bits,
    )
    assert inputs.numbers(offsets, f"<u{offset_bits // 8}") == [end - begin for end in ends]
    assert (first, last, num_nulls) == (begin, ends[-1], lengths.count(None))
    if num_nulls:
        assert inputs.bits(bitmap, len(lengths)) == [length is not None for length in lengths]
    else:
        assert len(bitmap) == 0


@pytest.mark.parametrize(
    ("ends", "count", "has_previous", "limit"),
    [
        ([3, 2], 2, False, 9),
        ([3, 2], 1, True, 9),
        ([3, 10], 2, False, 9),
        ([3, 109], 2, False, 8),
        ([3, 250], 2, False, 60),
        ([3], 2, False, 9),
        ([3], 1, True, 9),
        ([], 0, True, 9),
        ([3], (1 << 64) - 1, False, 9),
        ([10], 0, True, 9),
    ],
)
def test_ends_that_lie(ends: list[int], count: int, has_previous: bool, limit: int) -> None:
    """T22: ends that decrease, leave what there is, or are fewer than claimed."""
    with pytest.raises(CorruptData):
        kernels.split_null_ends(inputs.place(values.integers(ends, 64)), count, has_previous, 100, limit, 32)


def test_more_than_offsets_address() -> None:
    with pytest.raises(OffsetOverflow):
        kernels.split_null_ends(values.integers([1 << 31], 64), 1, False, 1 << 40, 1 << 32, 32)


@settings(max_examples=draws(120), deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=20), max_size=6),
    st.sampled_from((32, 64)),
    st.randoms(use_true_random=False),
)
def test_ends_of_pages_are_joined(
    pages: list[list[int | None]], offset_bits: int, rng: random.Random
) -> None:
    """Each page has an adjustment of its own, and its ends count from its own beginning."""
    stored, adjustments, sizes, offsets = [], [], [], [0]
    for lengths in pages:
        ends = [sum(length or 0 for length in lengths[: k + 1]) for k in range(len(lengths))]
        sizes.append(ends[-1] if ends else 0)
        adjustments.append(sizes[-1] + rng.randint(1, 5))
        marks = [adjustments[-1] * (length is None) for length in lengths]
        stored += [end + mark for end, mark in zip(ends, marks, strict=True)]
        offsets += [end + sum(sizes[:-1]) for end in ends]
    counts, limits = [len(lengths) for lengths in pages], [size + rng.randrange(3) for size in sizes]
    found, bitmap, num_nulls, found_sizes = kernels.join_null_ends(
        inputs.place(values.integers(stored, 64), rng.randrange(8)),
        *(inputs.int64s(each) for each in (counts, adjustments, limits)),
        offset_bits,
    )
    every = [length for lengths in pages for length in lengths]
    assert inputs.numbers(found, f"<u{offset_bits // 8}") == offsets
    assert inputs.numbers(found_sizes, "<i8") == sizes
    assert num_nulls == every.count(None)
    if num_nulls:
        assert inputs.bits(bitmap, len(every)) == [length is not None for length in every]
    else:
        assert len(bitmap) == 0


@pytest.mark.parametrize(
    ("ends", "counts", "adjustments", "limits"),
    [
        ([3, 2], [2], [9], [9]),
        ([3, 2], [1, 1], [9, 9], [9, 1]),
        ([3, 12], [1, 1], [9, 9], [9, 2]),
        ([3], [2], [9], [9]),
        ([3, 4], [1, 2], [9, 9], [9, 9]),
        ([3], [-1], [9], [9]),
        ([3, 4], [-1, 2], [9, 9], [9, 9]),
        ([3], [1], [-1], [9]),
        ([3], [1], [9], [-1]),
        ([3], [1], [9], [1 << 49]),
        ([3], [1], [9], []),
        ([3], [1], [], [9]),
    ],
)
def test_pages_whose_ends_lie(
    ends: list[int], counts: list[int], adjustments: list[int], limits: list[int]
) -> None:
    """T22: ends that decrease or leave their page, and counts that do not match."""
    with pytest.raises(CorruptData):
        kernels.join_null_ends(
            values.integers(ends, 64), *(inputs.int64s(each) for each in (counts, adjustments, limits)), 32
        )


def test_pages_of_more_bytes_than_offsets_can_address() -> None:
    limit = 1 << 30
    arguments = [inputs.int64s(each) for each in ([1, 1], [4 << 30] * 2, [limit] * 2)]
    ends = values.integers([limit, limit], 64)
    with pytest.raises(OffsetOverflow):
        kernels.join_null_ends(ends, *arguments, 32)
    found, *_ = kernels.join_null_ends(ends, *arguments, 64)
    assert inputs.numbers(found, "<u8") == [0, limit, 2 * limit]
