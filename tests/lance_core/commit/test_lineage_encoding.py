"""Sequences of row ids and versions as they are written: read back by us, and by the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_core.commit.lineage_encoding import (
    consecutive_row_ids,
    encode_row_ids,
    encode_versions,
    followed_by,
    one_version,
)
from lance_core.proto import rowids_pb2
from lance_core.table.row_ids import decode_row_ids
from lance_core.table.row_versions import decode_versions
from support.files.manifests import edit_manifest
from support.runs.draws import draws

_IDS = st.one_of(
    st.lists(st.integers(0, 200), unique=True, max_size=200),
    st.lists(st.integers(0, 100_000), unique=True, max_size=50),
    st.lists(st.integers(0, (1 << 64) - 1), unique=True, max_size=20),
)


@settings(max_examples=draws(200))
@given(_IDS, st.booleans())
@example(list(range(1000)), True)
@example([*range(500), *range(501, 1000)], True)
@example([*range(0, 1000, 2)], True)
@example([0, 1 << 63], True)
@example([(1 << 64) - 1], True)
@example([(1 << 64) - 3, (1 << 64) - 1], True)
def test_row_ids_come_back(values: list[int], ascending: bool) -> None:
    row_ids = np.array(sorted(values) if ascending else values, dtype=np.uint64)
    data = encode_row_ids(row_ids)
    assert decode_row_ids(data, len(row_ids), "ids").tolist() == row_ids.tolist()
    longer = decode_row_ids(followed_by(data, 7, 3), len(row_ids) + 3, "ids")
    assert longer.tolist() == [*row_ids.tolist(), 7, 8, 9]


@given(st.lists(st.integers(1, 4), max_size=40))
def test_versions_come_back(versions: list[int]) -> None:
    data = encode_versions(np.array(versions, dtype=np.uint64))
    assert decode_versions(data, len(versions), "versions").tolist() == versions
    assert not versions or len(set(versions)) > 1 or data == one_version(versions[0], len(versions))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (range(7, 5000), "range"),
        ([*range(500), *range(501, 1000)], "range_with_holes"),
        (range(0, 5000, 2), "range_with_bitmap"),
        (range(0, 1 << 22, 1 << 10), "sorted_array"),
        ([5, 4, 6], "array"),
        ([4], "range"),
        ([], "range"),
    ],
)
def test_the_smallest_kind_of_segment_is_chosen(values: list[int], kind: str) -> None:
    sequence = rowids_pb2.RowIdSequence.FromString(encode_row_ids(np.array(values, dtype=np.uint64)))
    assert [segment.WhichOneof("segment") for segment in sequence.segments] == [kind]


def test_the_reference_reads_every_kind(tmp_path: Path) -> None:
    kinds = [
        np.arange(10),
        np.array([*range(5), *range(6, 11)]),
        np.arange(0, 1000, 100),
        np.arange(0, 10_000_000, 1_000_000),
        np.array([*range(9), 1 << 40]),
        np.arange(10)[::-1],
        np.array([*range(0, 20, 2)]),
    ]
    for number, values in enumerate(kinds):
        path = tmp_path / str(number)
        lance.write_dataset(pa.table({"a": range(10)}), str(path), enable_stable_row_ids=True)
        data = encode_row_ids(values.astype(np.uint64))
        edit_manifest(path, lambda message, data=data: setattr(message.fragments[0], "inline_row_ids", data))
        table = lance.dataset(str(path)).to_table(with_row_id=True)
        assert table["_rowid"].to_pylist() == values.tolist()
    assert consecutive_row_ids(3, 4) == encode_row_ids(np.arange(3, 7, dtype=np.uint64))
