"""Row ids as fragments carry them, read back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.proto import rowids_pb2
from lance_core.table.row_ids import decode_row_ids
from lance_core.table.row_sequences import encode_row_ids


@given(
    st.one_of(
        st.lists(st.integers(0, 100), unique=True),
        st.lists(st.integers(0, 1 << 20), unique=True),
        st.lists(st.integers(0, (1 << 64) - 1), unique=True),
        st.lists(st.integers(0, 100), unique=True).map(sorted),
        st.lists(st.integers(0, (1 << 64) - 1), unique=True).map(sorted),
    )
)
def test_row_ids_come_back_in_their_order(values: list[int]) -> None:
    ids = np.array(values, dtype=np.uint64)
    assert decode_row_ids(encode_row_ids(ids), len(ids), "ids").tolist() == values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (range(7, 5000), "range"),
        (range(0, 5000, 2), "range_with_bitmap"),
        (range(0, 1 << 22, 1 << 10), "sorted_array"),
        ([5, 4, 6], "array"),
        ([4], "range"),
    ],
)
def test_the_smallest_kind_of_segment_is_chosen(values: list[int], kind: str) -> None:
    sequence = rowids_pb2.RowIdSequence.FromString(encode_row_ids(np.array(values, dtype=np.uint64)))
    assert [segment.WhichOneof("segment") for segment in sequence.segments] == [kind]
