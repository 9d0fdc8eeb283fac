"""Sets of row keys in index files: read, moved and written; and bytes that are no set."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pyroaring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.index.moving import moved_sets
from lance_core.index.moving.moved_rows import FragmentGroup, MovedRows, NewFragment, OldFragment
from lance_core.index.moving.moved_sets import move_set, move_sets
from lance_core.index.row_sets import Container, Map64, TreeMap
from support.runs.draws import draws

CONTAINERS: list[Container] = [TreeMap(), Map64()]
EXAMPLE = bytes.fromhex("010000000000000014000000" + "3a300000010000000000010010000000" + "02000400")
"""Rows 2 and 4 of fragment 0, as the format's description has them."""


def _moved() -> MovedRows:
    """Fragments 0 and 2 become fragment 9; row 4 of fragment 0 is deleted."""
    old = [OldFragment(0, 6, np.array([4], np.uint32)), OldFragment(2, 3, np.empty(0, np.uint32))]
    return MovedRows.of([FragmentGroup(old, [NewFragment(9, 8)])])


def _keys(data: bytes, container: Container) -> list[int]:
    bitmaps = container.read(data)
    return sorted((upper << 32) + lower for upper, bitmap in bitmaps.items() for lower in bitmap)


def test_the_example_of_the_format() -> None:
    assert _keys(EXAMPLE, TreeMap()) == [2, 4]
    assert TreeMap().write({0: pyroaring.BitMap([2, 4])}) == EXAMPLE
    assert TreeMap().write({}) == bytes(4)
    assert _keys(move_set(EXAMPLE, TreeMap(), _moved(), "f"), TreeMap()) == [(9 << 32) + 2]


@pytest.mark.parametrize("container", CONTAINERS, ids=["tree map", "64-bit map"])
@pytest.mark.parametrize("most_keys", [1, 5, 1 << 20])
def test_keys_that_move(container: Container, most_keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of many keys are translated in parts, with the same result."""
    monkeypatch.setattr(moved_sets, "_MOST_KEYS", most_keys)
    keys = [[0, 5, 4, (1 << 32) + 3, (2 << 32) + 1], [4], [(7 << 32) + 1, 3]]
    sets = [
        container.write(
            {
                upper: pyroaring.BitMap([k & 0xFFFFFFFF for k in each if k >> 32 == upper])
                for upper in {k >> 32 for k in each}
            }
        )
        for each in keys
    ]
    moved = move_sets(sets, container, _moved(), "f")
    assert moved[1] is None
    nine = 9 << 32
    assert _keys(moved[0] or b"", container) == [(1 << 32) + 3, nine, nine + 4, nine + 6]
    assert _keys(moved[2] or b"", container) == [(7 << 32) + 1, nine + 3]


def test_runs_and_bitsets_are_read() -> None:
    many = pyroaring.BitMap(range(0, 20_000, 2))
    run = pyroaring.BitMap(range(70_000))
    run.run_optimize()
    for bitmap in (many, run):
        data = bytes(bitmap.serialize())
        found = TreeMap().read(struct.pack("<III", 1, 7, len(data)) + data)
        assert found == {7: bitmap}


def test_a_set_of_all_rows_is_not_supported() -> None:
    with pytest.raises(UnsupportedFeatureError, match="all rows of a fragment"):
        move_sets([struct.pack("<III", 1, 0, 0)], TreeMap(), _moved(), "f")


@pytest.mark.parametrize("container", CONTAINERS, ids=["tree map", "64-bit map"])
def test_cut_sets_are_corrupt(container: Container) -> None:
    """T22: sizes that lie."""
    whole = container.write({0: pyroaring.BitMap([1, 2]), 3: pyroaring.BitMap([7])})
    for end in range(len(whole)):
        with pytest.raises(CorruptFileError, match="does not decode"):
            move_sets([whole[:end]], container, _moved(), "f")


@given(data=st.binary(max_size=80), number=st.integers(0, 1))
@settings(max_examples=draws(300), deadline=None)
def test_any_bytes_are_a_set_or_a_lance_error(data: bytes, number: int) -> None:
    """T22: any bytes."""
    with suppress(LanceError):
        move_sets([data], CONTAINERS[number], _moved(), "f")
