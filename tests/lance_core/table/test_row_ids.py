"""Stable row ids."""

import contextlib
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.proto import rowids_pb2, table_pb2
from lance_core.storage import LocalStorage
from lance_core.table.deletions import read_deletions
from lance_core.table.fragment import Fragment
from lance_core.table.row_ids import decode_row_ids, find_row_ids, read_row_ids
from lance_core.table.snapshot import open_snapshot
from support.runs.each_case import each_case


def encoded(values: list[int], width: int, base: int = 0) -> rowids_pb2.EncodedU64Array:
    """Values of `width` bytes each; those of 8 bytes have no base."""
    data = (np.array(values, np.uint64) - np.uint64(base if width < 8 else 0)).astype(f"<u{width}").tobytes()
    match width:
        case 2:
            return rowids_pb2.EncodedU64Array(u16_array={"base": base, "offsets": data})
        case 4:
            return rowids_pb2.EncodedU64Array(u32_array={"base": base, "offsets": data})
    return rowids_pb2.EncodedU64Array(u64_array={"values": data})


def sequence(*segments: dict[str, object]) -> bytes:
    return rowids_pb2.RowIdSequence(
        segments=[rowids_pb2.U64Segment(**segment) for segment in segments]
    ).SerializeToString()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_ids_are_those_of_the_reference(tmp_path: Path, version: str) -> None:
    """Rows keep their ids through updates and compactions, which leave segments of every kind."""
    path = str(tmp_path)
    table = pa.table({"number": range(2000)})
    lance.write_dataset(
        table, path, max_rows_per_file=500, enable_stable_row_ids=True, data_storage_version=version
    )
    lance.dataset(path).delete("number % 7 = 0 AND number < 900")
    lance.dataset(path).update({"number": "number + 5000"}, where="number % 11 = 3")
    lance.write_dataset(table, path, mode="append")
    lance.dataset(path).delete("number BETWEEN 400 AND 1200")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    lance.dataset(path).update({"number": "0"}, where="number = 1500 OR number = 20")

    for number in range(1, lance.dataset(path).version + 1):
        theirs = lance.dataset(path, version=number)
        snapshot = open_snapshot(LocalStorage(path), number)
        for mine, other in zip(snapshot.manifest.fragments, theirs.get_fragments(), strict=True):
            row_ids = np.delete(read_row_ids(mine), read_deletions(snapshot.storage, mine))
            assert row_ids.tolist() == other.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()


@pytest.mark.parametrize("width", [2, 4, 8])
def test_segments_of_every_kind(width: int) -> None:
    data = sequence(
        {"range": {"start": 5, "end": 8}},
        {
            "range_with_holes": {
                "start": 100,
                "end": 106,
                "holes": encoded([101, 104], width, base=100),
            }
        },
        {"range_with_bitmap": {"start": 200, "end": 210, "bitmap": bytes([0b10000001, 0b10])}},
        {"sorted_array": encoded([1000, 1001, 1500], width, base=1000)},
        {"array": encoded([9, 3, 7], width)},
    )
    expected = [5, 6, 7, 100, 102, 103, 105, 200, 207, 209, 1000, 1001, 1500, 9, 3, 7]
    assert decode_row_ids(data, len(expected), "ids").tolist() == expected


@given(
    ranges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans()), max_size=6),
    wanted=st.sets(st.integers(0, 200)),
)
def test_ids_are_found_where_they_are(ranges: list[tuple[int, int, bool]], wanted: set[int]) -> None:
    """Ranges are searched without spelling them out; the other kinds are spelled out."""
    segments: list[dict[str, object]] = []
    ids: list[int] = []
    for length, gap, spelled in ranges:
        start = max(ids, default=0) + gap + 1
        values = list(range(start, start + length))
        ids += values
        span: dict[str, object] = {"range": {"start": start, "end": start + length}}
        segments.append({"array": encoded(values, 8)} if spelled else span)
    message = table_pb2.DataFragment(id=3, physical_rows=len(ids), inline_row_ids=sequence(*segments))
    keys = np.array(sorted(wanted), np.uint64)
    places, rows = find_row_ids(Fragment(message, "manifest", None, {}), keys)
    assert {int(keys[place]): row for place, row in zip(places, rows.tolist(), strict=True)} == {
        value: row for row, value in enumerate(ids) if value in wanted
    }


def test_no_ids_and_the_largest_ones() -> None:
    assert decode_row_ids(sequence({"range": {"start": 0, "end": 0}}), 0, "ids").tolist() == []
    assert decode_row_ids(b"", 0, "ids").tolist() == []
    top = (1 << 64) - 1
    assert decode_row_ids(sequence({"range": {"start": top - 1, "end": top}}), 1, "ids").tolist() == [top - 1]
    assert decode_row_ids(sequence({"array": encoded([top], 8)}), 1, "ids").tolist() == [top]


@each_case(
    "segment",
    [
        {"range": {"start": 0, "end": 2}},
        {"range": {"start": 0, "end": 4}},
        {"range": {"start": 5, "end": 2}},
        {"range": {"start": 0, "end": (1 << 64) - 1}},
        {"range_with_holes": {"start": 0, "end": 4, "holes": encoded([9], 2)}},
        {"range_with_holes": {"start": 0, "end": 5, "holes": encoded([1, 1], 2)}},
        {"range_with_holes": {"start": 0, "end": 1 << 62, "holes": encoded([1], 2)}},
        {"range_with_bitmap": {"start": 0, "end": 3, "bitmap": b"\xff"}},
        {"range_with_bitmap": {"start": 0, "end": 3, "bitmap": b""}},
        {"range_with_bitmap": {"start": 0, "end": 1 << 62, "bitmap": b"\x07"}},
        {"range_with_bitmap": {"start": 8, "end": 0, "bitmap": b"\x07"}},
        {"array": rowids_pb2.EncodedU64Array(u16_array={"offsets": b"123"})},
        {"array": rowids_pb2.EncodedU64Array(u64_array={"values": b"1234567"})},
        {"array": encoded([1, 2], 4)},
        {"array": rowids_pb2.EncodedU64Array(u16_array={"base": (1 << 64) - 1, "offsets": bytes(5) + b"\1"})},
    ],
)
def test_a_sequence_of_another_length_is_corrupt(segment: dict[str, object]) -> None:
    """T22, T24: and no memory is taken for a length that the fragment does not have."""
    with pytest.raises(CorruptFileError, match="ids"):
        decode_row_ids(sequence(segment), 3, "ids")


def test_a_segment_of_an_unknown_kind_is_refused() -> None:
    """T43"""
    with pytest.raises(UnsupportedFeatureError, match="kind of segment"):
        decode_row_ids(sequence({}), 1, "ids")


@given(data=st.binary(max_size=60), rows=st.integers(0, 40))
def test_any_bytes_give_ids_or_a_lance_error(data: bytes, rows: int) -> None:
    """T22"""
    with contextlib.suppress(LanceError):
        assert len(decode_row_ids(data, rows, "ids")) == rows
