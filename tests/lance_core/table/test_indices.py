"""Indices that the reference made, as our manifest reader lists them."""

import json
import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest

import lance_core
from lance_core.errors import CorruptFileError, LanceError
from lance_core.proto import index_pb2, table_pb2
from lance_core.table.fragment_reuse import parse_fragment_reuse
from lance_core.table.indices import parse_segments

_ROWS = 600
_SCALAR = {
    "number": "BTREE",
    "category": "BITMAP",
    "labels": "LABEL_LIST",
    "text": "INVERTED",
    "words": "NGRAM",
    "zone": "ZONEMAP",
    "bloom": "BLOOMFILTER",
}
_VECTOR = {
    "vector_pq": ("IVF_PQ", {"num_sub_vectors": 4}),
    "vector_flat": ("IVF_FLAT", {}),
    "vector_sq": ("IVF_HNSW_SQ", {}),
    "vector_rq": ("IVF_RQ", {}),
}


def rows() -> pa.Table:
    vectors = pa.array(np.random.default_rng(5).random(_ROWS * 32, dtype=np.float32))
    return pa.table(
        {
            "number": range(_ROWS),
            "category": [str(row % 5) for row in range(_ROWS)],
            "labels": [[str(row % 3)] for row in range(_ROWS)],
            "text": [f"hello {row} world" for row in range(_ROWS)],
            "words": [f"hello {row}" for row in range(_ROWS)],
            "zone": range(_ROWS),
            "bloom": range(_ROWS),
            "point": [{"x": row, "a name": row} for row in range(_ROWS)],
            **{name: pa.FixedSizeListArray.from_arrays(vectors, 32) for name in _VECTOR},
        }
    )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    """Every kind of index, two segments each, with rows that none of them covers."""
    table = rows()
    path = str(tmp_path_factory.mktemp("indexed"))
    dataset = lance.write_dataset(table, path, max_rows_per_file=200)
    for column, kind in _SCALAR.items():
        dataset.create_scalar_index(column, kind)
    for column, (kind, arguments) in _VECTOR.items():
        dataset.create_index(column, kind, num_partitions=2, **arguments)
    lance.write_dataset(table.slice(0, 50), path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(table.slice(0, 5), path, mode="append")
    dataset = lance.dataset(path)
    for column in ("point.x", "point.`a name`"):
        dataset.create_scalar_index(column, "BTREE")
    dataset.delete("number between 20 and 29 or number between 200 and 399")
    return lance.dataset(path)


_SEGMENT = ("uuid", "dataset_version_at_last_update", "index_version", "created_at", "size_bytes", "base_id")


def assert_equal_indices(reference: lance.LanceDataset) -> list[str]:
    """Our description of the indices of a dataset is the reference's; returns their kinds."""
    ours = lance_core.dataset(reference.uri, version=reference.version)
    theirs = reference.describe_indices()
    described = ours.describe_indices()
    for index, expected in zip(described, theirs, strict=True):
        for name in ("name", "index_type", "type_url", "num_rows_indexed", "total_size_bytes"):
            assert getattr(index, name) == getattr(expected, name), (index, name)
        assert index.details == expected.details
        assert list(index.fields) == expected.fields
        assert list(index.field_names) == expected.field_names
        for segment, segment_expected in zip(index.segments, expected.segments, strict=True):
            for name in _SEGMENT:
                assert getattr(segment, name) == getattr(segment_expected, name), (index, name)
            assert segment.fragment_ids == segment_expected.fragment_ids == set(segment.fragment_ids)
            assert list(segment.covering_fields) == segment_expected.covering_fields
    with pytest.warns(DeprecationWarning, match="describe_indices"):
        listed, listed_here = reference.list_indices(), ours.list_indices()
    assert listed_here == [_plain(entry) for entry in listed]
    assert ours.has_index == reference.has_index == bool(theirs)
    return [index.index_type for index in described]


def _plain(entry: Any) -> dict[str, Any]:
    return {**entry, "fragment_ids": set(entry["fragment_ids"])}


def test_every_kind_of_index(indexed: lance.LanceDataset) -> None:
    kinds = assert_equal_indices(indexed)
    assert {
        "BTree",
        "Bitmap",
        "LabelList",
        "Inverted",
        "NGram",
        "ZoneMap",
        "BloomFilter",
        *(kind for kind, _ in _VECTOR.values()),
    } == set(kinds)
    for version in range(1, indexed.version):
        assert_equal_indices(indexed.checkout_version(version))


def test_statistics_are_those_of_the_reference(indexed: lance.LanceDataset) -> None:
    ours = lance_core.dataset(indexed.uri)
    for index in ours.describe_indices():
        expected = indexed.stats.index_stats(index.name)
        found = ours.index_statistics(index.name)
        if not any(found["segments"]):  # kinds whose files are not described
            assert index.index_type not in ("BTree", "Bitmap", "LabelList", "NGram", "ZoneMap", "BloomFilter")
            expected |= {"indices": found["indices"], "segments": found["segments"]}
        for facts in [*expected["segments"], *expected["indices"], *found["segments"]]:
            facts.get("sub_index", {}).pop("bounds", None)  # the reference loses their last digit
        assert found == expected
        assert json.dumps(found)
    with pytest.raises(KeyError, match="absent"):
        ours.index_statistics("absent")


def test_no_index(tmp_path: Path) -> None:
    assert assert_equal_indices(lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"))) == []


def test_indices_follow_a_compaction(tmp_path: Path) -> None:
    """With the remap deferred, an entry of the manifest tells what became of the fragments."""
    path = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"a": range(400), "b": range(400)}), path, max_rows_per_file=100)
    dataset.create_scalar_index("a", "BTREE")
    dataset = lance.write_dataset(pa.table({"a": range(50), "b": range(50)}), path, mode="append")
    dataset.create_scalar_index("b", "BTREE")
    dataset.delete("a >= 110 and a < 150")
    for deferred in (True, True, False):
        dataset = lance.dataset(path)
        dataset.optimize.compact_files(defer_index_remap=deferred)
        kinds = assert_equal_indices(lance.dataset(path))
        lance.write_dataset(pa.table({"a": range(9), "b": range(9)}), path, mode="append")
    assert "FragmentReuse" in kinds


def test_a_dropped_column(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"a": range(9), "b": range(9)}), path)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("b", "BTREE")
    dataset.drop_columns(["a"])
    assert assert_equal_indices(lance.dataset(path)) == ["BTree"]


def section(**values: Any) -> table_pb2.IndexSection:
    values = {"uuid": {"uuid": uuid4().bytes}, "name": "i", **values}
    return table_pb2.IndexSection(indices=[table_pb2.IndexMetadata(**values)])


def test_entries_of_old_libraries() -> None:
    """Without details, fragments, files and time: unknown, not refused."""
    (segment,) = parse_segments(section(), "m")
    assert segment.index_type == "Unknown"
    described = segment.description
    assert (len(described.fragment_ids), described.size_bytes, described.created_at) == (0, None, None)
    details = {"type_url": "/lance.index.pb.VectorIndexDetails", "value": b""}
    (segment,) = parse_segments(section(index_details=details), "m")
    assert segment.index_type == "Vector"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"uuid": {"uuid": b"short"}}, "uuid"),
        ({"fragment_bitmap": b"\x01"}, "fragments of an index"),
        ({"created_at": (1 << 64) - 1}, "time of an index"),
    ],
)
def test_entries_that_are_wrong_are_corrupt(values: dict[str, Any], named: str) -> None:
    """T22"""
    with pytest.raises(CorruptFileError, match=named):
        parse_segments(section(**values), "m")


def test_a_bitmap_that_names_billions_of_fragments_stays_small() -> None:
    """T24"""
    everything = pyroaring.BitMap()
    everything.add_range(0, 1 << 32)
    everything.run_optimize()
    (segment,) = parse_segments(section(fragment_bitmap=everything.serialize()), "m")
    assert len(segment.description.fragment_ids) == 1 << 32


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        {"versions": [{"groups": [{"new_fragments": [{"id": 1 << 63}]}]}]},
        {"versions": [{"groups": [{"old_fragments": [{"id": 1}]}, {"old_fragments": [{"id": 1}]}]}]},
    ],
)
def test_a_reuse_entry_that_lies(content: Any) -> None:
    """T22: fragments that no compaction can have made are refused by name."""
    inline = index_pb2.FragmentReuseIndexDetails
    details = content if isinstance(content, bytes) else inline(inline=content).SerializeToString()
    with pytest.raises(CorruptFileError, match="fragment reuse index"):
        parse_fragment_reuse(details, "u", "d", None, "m")


def test_coverage_after_moves() -> None:
    """Groups that an index covers in part, and indices of zones, lose the new fragments."""
    groups = [
        {"old_fragments": [{"id": 0}, {"id": 1}], "new_fragments": [{"id": 5}]},
        {"old_fragments": [{"id": 2}, {"id": 3}], "new_fragments": [{"id": 6}, {"id": 7}]},
    ]
    later = {"old_fragments": [{"id": 6}], "new_fragments": [{"id": 8}]}
    versions = [{"dataset_version": 4, "groups": groups}, {"dataset_version": 9, "groups": [later]}]
    details = index_pb2.FragmentReuseIndexDetails(inline={"versions": versions}).SerializeToString()
    reuse = parse_fragment_reuse(details, "u", "d", None, "m")

    def followed(*covered: int, kind: str = "btree", dataset_version: int = 1) -> set[int]:
        return set(reuse.followed(pyroaring.BitMap(covered), kind, dataset_version))

    assert followed(0, 1, 4) == {4, 5}
    assert followed(0, 2, 3) == {7, 8}
    assert followed(7, 8) == {7, 8}
    assert followed(0, 1, 4, kind="zonemap") == {4}
    assert followed(5, 8, kind="zonemap") == set()
    assert followed(5, 8, kind="zonemap", dataset_version=5) == {5}
    assert followed(5, 6, kind="bloomfilter", dataset_version=5) == {5}


def test_any_details_give_a_kind_or_a_lance_error() -> None:
    """T22"""
    random.seed(11)
    details = index_pb2.VectorIndexDetails(pq={}, hnsw_index_config={}).SerializeToString()
    for _ in range(2_000):
        data = bytearray(details)
        data[random.randrange(len(data))] = random.randrange(256)
        for name in ("i", "__lance_frag_reuse"):
            any_details = {"type_url": "/a.VectorIndexDetails", "value": bytes(data)}
            try:
                parse_segments(section(name=name, index_details=any_details), "m")
            except LanceError:
                pytest.fail("details only name a kind")
