"""Row masks combine like the conditions that they answer."""

from __future__ import annotations

import numpy as np
import pyroaring

from lance_core.index.row_mask import RowMask, by_fragment, joined, nothing_covered
from support.runs.each_case import each_case

FRAGMENTS, ROWS = 6, 5
EVERYTHING = {(fragment, row) for fragment in range(FRAGMENTS) for row in range(ROWS)}


def random_condition(chance: np.random.Generator) -> tuple[set[tuple[int, int]], RowMask]:
    """Return the rows that meet a condition, and a mask that says about them what an index may say."""
    truth = {place for place in EVERYTHING if chance.random() < 0.4}
    covered = {fragment for fragment in range(FRAGMENTS) if chance.random() < 0.7}
    exact = {fragment for fragment in covered if chance.random() < 0.5}
    said = {
        (f, row)
        for f, row in EVERYTHING
        if f in covered and ((f, row) in truth or (f not in exact and chance.random() < 0.3))
    }
    rows = {f: pyroaring.BitMap(row for other, row in said if other == f) for f in covered}
    return truth, RowMask(
        {f: bitmap for f, bitmap in rows.items() if bitmap or chance.random() < 0.5},
        pyroaring.BitMap(covered),
        pyroaring.BitMap(exact),
    )


def check(truth: set[tuple[int, int]], mask: RowMask) -> None:
    """A mask has all rows that meet the condition, and no others where it is exact."""
    assert mask.exact <= mask.covered
    assert set(mask.rows) <= set(mask.covered)
    for fragment in mask.covered:
        expected = [row for row in range(ROWS) if (fragment, row) in truth]
        offsets = mask.offsets(fragment)
        assert offsets is not None
        assert set(expected) <= set(offsets.tolist())
        if fragment in mask.exact:
            assert offsets.tolist() == expected


@each_case("seed", range(200))
def test_masks_combine_like_conditions(seed: int) -> None:
    chance = np.random.default_rng(seed)
    (one, one_mask), (other, other_mask) = random_condition(chance), random_condition(chance)
    check(one & other, one_mask & other_mask)
    check(one | other, one_mask | other_mask)
    check(one & other, one_mask.inexact() & other_mask)
    assert (one_mask & other_mask).covered == one_mask.covered | other_mask.covered
    assert (one_mask | other_mask).covered == one_mask.covered & other_mask.covered
    check(one, one_mask.within(pyroaring.BitMap([0, 2])))
    assert one_mask.within(pyroaring.BitMap([0, 2])).covered <= pyroaring.BitMap([0, 2])


def test_segments_are_joined() -> None:
    one = RowMask({1: pyroaring.BitMap([4])}, pyroaring.BitMap([0, 1]), pyroaring.BitMap([0, 1]))
    other = RowMask({2: pyroaring.BitMap([5, 6])}, pyroaring.BitMap([2]), pyroaring.BitMap())
    whole = joined([one, other])
    assert (whole.num_rows, set(whole.covered), set(whole.exact)) == (3, {0, 1, 2}, {0, 1})
    assert joined([]) == nothing_covered()
    offsets = whole.offsets(2)
    assert offsets is not None
    assert offsets.tolist() == [5, 6]
    assert whole.offsets(7) is None


def test_addresses_become_offsets_by_fragment() -> None:
    addresses = np.array([(3 << 32) + 7, 5, (3 << 32) + 1, 5, (1 << 63) + 2], np.uint64)
    found = {fragment: list(bitmap) for fragment, bitmap in by_fragment(addresses).items()}
    assert found == {0: [5], 3: [1, 7], 1 << 31: [2]}
    assert by_fragment(np.empty(0, np.uint64)) == {}
