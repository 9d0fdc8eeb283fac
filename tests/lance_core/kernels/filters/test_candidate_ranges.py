"""Candidate ranges from flags of statistics, compared with NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.kernels import CorruptData, candidate_ranges

Flags = npt.NDArray[np.bool_]
Found = tuple[int, int, int, tuple[int, ...]]


def by_numpy(
    kept: Flags, sure: Flags, edges: npt.NDArray[np.int64], starts: Sequence[int]
) -> Iterator[Found]:
    """Yield what the kernel returns."""
    is_kept, in_doubt = np.logical_and.reduce(kept), ~sure
    begins = np.ones(len(is_kept), np.bool_)
    begins[1:] = np.logical_or.reduce(in_doubt[:, 1:] != in_doubt[:, :-1]) | (is_kept[1:] != is_kept[:-1])
    begins |= np.isin(edges[:-1], starts)
    firsts = np.flatnonzero(begins)
    for first, end in zip(firsts, [*firsts[1:], len(is_kept)], strict=True):
        if is_kept[first]:
            number = int(np.searchsorted(starts, edges[first], side="right")) - 1
            begin, stop = int(edges[first]) - starts[number], int(edges[end]) - starts[number]
            yield number, begin, stop, tuple(np.flatnonzero(in_doubt[:, first]).tolist())


@given(
    fragments=st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=5).filter(any),
    num_conditions=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    shares=st.tuples(st.sampled_from([0.0, 0.3, 0.9, 1.0]), st.sampled_from([0.0, 0.2, 0.9, 1.0])),
)
def test_candidates_are_those_of_numpy(
    fragments: list[list[int]], num_conditions: int, seed: int, shares: tuple[float, float]
) -> None:
    """T23: fragments of any number of ranges, also of none, with one or more conditions."""
    rows = [length for lengths in fragments for length in lengths]
    edges = np.array([0, *accumulate(rows)], np.int64)
    starts = [0, *accumulate(map(sum, fragments))]
    random = np.random.default_rng(seed)
    kept = random.random((num_conditions, len(rows))) < shares[0]
    sure = kept & (random.random(kept.shape) < shares[1])
    found = candidate_ranges(kept.data, sure.data, num_conditions, edges.data, starts)
    assert found == list(by_numpy(kept, sure, edges, starts))


def test_sizes_that_do_not_fit_are_refused() -> None:
    """T22: nothing is read behind the flags or the edges."""
    edges = np.arange(3).astype(np.int64).tobytes()
    assert candidate_ranges(b"\1\1", b"\0\0", 1, edges, [0, 2]) == [(0, 0, 2, (0,))]
    for kept, sure, num_conditions in ((b"\1", b"\0\0", 1), (b"\1\1", b"\0", 1), (b"\1\1", b"\0\0", 0)):
        with pytest.raises(CorruptData, match=r"flags of . conditions in 2 ranges"):
            candidate_ranges(kept, sure, num_conditions, edges, [0, 2])
    with pytest.raises(CorruptData, match="flags of 3 conditions"):
        candidate_ranges(bytes(4), bytes(4), 3, edges, [0, 2])
    for wrong in (b"", edges[:-1]):
        with pytest.raises(CorruptData, match="bytes of edges"):
            candidate_ranges(b"\1\1", b"\0\0", 1, wrong, [0, 2])
    with pytest.raises(CorruptData, match="1 starts of fragments"):
        candidate_ranges(b"\1\1", b"\0\0", 1, edges, [0])
    with pytest.raises(CorruptData, match="flags of 1 conditions in 0 ranges"):
        candidate_ranges(b"\1", b"\0", 1, bytes(8), [0, 0])
