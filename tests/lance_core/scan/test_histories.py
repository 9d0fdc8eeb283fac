"""Histories: tables through every kind of change; each version reads as the reference reads it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from support.oracles.comparison import assert_tables_equal

STORAGE_VERSIONS = ["legacy", "2.0", "2.1", "2.2"]
ROWS = 6000


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"name {number}" for number in numbers],
            "size": pa.array([number % 100 for number in numbers], pa.int32()),
            "point": [{"x": number, "y": float(number)} for number in numbers],
            "vector": pa.array([[number, 0.5] for number in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def upsert(path: str) -> None:
    merge = lance.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(5990, 30))


def insert_only(path: str) -> None:
    lance.dataset(path).merge_insert("id").when_not_matched_insert_all().execute(rows(6500, 600))


def delete_by_source(path: str) -> None:
    merge = lance.dataset(path).merge_insert("id").when_matched_update_all()
    merge.when_not_matched_by_source_delete("size = 7").execute(rows(100, 5))


def rewrite_column(path: str) -> None:
    """Replace a column of one fragment in place."""
    dataset = lance.dataset(path)
    fragment = dataset.get_fragments()[0]
    ids = fragment.to_table(columns=["id"])["id"]
    changes = pa.table({"id": ids, "name": pa.array([f"new {number}" for number in ids.to_pylist()])})
    metadata, fields = fragment.update_columns(changes, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[metadata], fields_modified=fields)
    lance.LanceDataset.commit(path, operation, read_version=dataset.version)


def alter(*changes: dict[str, object]) -> Callable[[str], object]:
    return lambda path: lance.dataset(path).alter_columns(*changes)


def delete(predicate: str) -> Callable[[str], object]:
    return lambda path: lance.dataset(path).delete(predicate)


CHANGES: dict[str, Callable[[str], object]] = {
    "append": lambda path: lance.write_dataset(rows(ROWS * 2, 500), path, mode="append"),
    "delete few rows": delete("id IN (1, 2, 3, 6100)"),
    "delete many rows of a fragment": delete("id >= 500 AND id < 5700"),
    "delete more of them": delete("id = 480"),
    "delete a whole fragment": delete(f"id >= {ROWS * 2}"),
    "update": lambda path: lance.dataset(path).update({"name": "'updated'"}, where="id % 5 = 0"),
    "upsert": upsert,
    "insert only": insert_only,
    "delete by source": delete_by_source,
    # Columns cannot be added to 0.1 files while many rows are deleted.
    "materialize deletions": lambda path: lance.dataset(path).optimize.compact_files(),
    "add a computed column": lambda path: lance.dataset(path).add_columns({"double": "id * 2"}),
    "add a column without values": lambda path: lance.dataset(path).add_columns(
        pa.field("empty", pa.string())
    ),
    "merge columns": lambda path: lance.dataset(path).merge(
        pa.table({"id": range(7000), "extra": [f"e{number}" for number in range(7000)]}), "id"
    ),
    "rewrite a column": rewrite_column,
    "rename": alter({"path": "name", "name": "label"}),
    "rename inside a struct": alter({"path": "point.x", "name": "east"}),
    "cast": alter({"path": "size", "data_type": pa.int64()}),
    "append after changes": lambda path: lance.write_dataset(
        lance.dataset(path).to_table(limit=50), path, mode="append"
    ),
    "drop a column": lambda path: lance.dataset(path).drop_columns(["double"]),
    "drop inside a struct": lambda path: lance.dataset(path).drop_columns(["point.y"]),
    "add inside after a drop": lambda path: lance.dataset(path).add_columns({"later": "id + 1"}),
    "configure": lambda path: lance.dataset(path).update_config({"a.key": "value"}),
    "note on the table": lambda path: lance.dataset(path).update_metadata({"owner": "somebody"}),
    "note on the schema": lambda path: lance.dataset(path).update_schema_metadata({"unit": "m"}),
    "note on a field": lambda path: lance.dataset(path).update_field_metadata({"id": {"key": "yes"}}),
    "index": lambda path: lance.dataset(path).create_scalar_index("id", "BTREE"),
    "compact": lambda path: lance.dataset(path).optimize.compact_files(),
    "update after compacting": lambda path: lance.dataset(path).update({"label": "'x'"}, where="id < 400"),
    "restore": lambda path: lance.dataset(path, version=3).restore(),
    "append after restoring": lambda path: lance.write_dataset(rows(20_000, 10), path, mode="append"),
    "overwrite": lambda path: lance.write_dataset(
        pa.table({"id": ["another", "schema"], "flag": [True, False]}), path, mode="overwrite"
    ),
    "append after overwriting": lambda path: lance.write_dataset(
        pa.table({"id": ["more"], "flag": [True]}), path, mode="append"
    ),
    "delete all": delete("true"),
    "append to nothing": lambda path: lance.write_dataset(
        pa.table({"id": ["again"], "flag": [False]}), path, mode="append"
    ),
}


LEFT_OUT = {
    "legacy": {"add a column without values"},
    **{version: {"materialize deletions"} for version in ("2.0", "2.1", "2.2")},
}
"""Changes that the reference refuses for a table of this version, or that would hide the tested effect."""


@pytest.fixture(
    scope="module",
    params=[
        (version, stable)
        for version in STORAGE_VERSIONS
        for stable in (False, True)
        if not (version == "legacy" and stable)
    ],
    ids=lambda param: f"{param[0]}-{'stable' if param[1] else 'addressed'}",
)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a table that went through all `CHANGES`, was branched, tagged and cloned."""
    version, stable = request.param
    path = str(tmp_path_factory.mktemp("history") / "t.lance")
    lance.write_dataset(
        rows(0, ROWS * 2),
        path,
        max_rows_per_file=ROWS,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    for name, change in CHANGES.items():
        if name not in LEFT_OUT[version]:
            change(path)
    dataset = lance.dataset(path)
    dataset.tags.create("gold", 4)
    branch = dataset.create_branch("dev/one", 9)
    branch.delete("id < 20")
    lance.write_dataset(branch.to_table(limit=5), branch.uri, mode="append")
    return path


def assert_same(ours: lance_core.LanceDataset, theirs: lance.LanceDataset) -> None:
    context = f"version {theirs.version}"
    assert ours.schema.equals(theirs.schema, check_metadata=True), context
    assert ours.count_rows() == theirs.count_rows(), context
    assert ours.data_storage_version == theirs.data_storage_version, context
    assert ours.has_stable_row_ids == theirs.has_stable_row_ids, context
    assert ours.config() == theirs.config(), context
    assert ours.metadata == theirs.metadata, context
    assert ours.schema_metadata == theirs.schema_metadata, context
    assert_tables_equal(
        theirs.to_table(with_row_id=True, with_row_address=True),
        ours.to_table(with_row_id=True, with_row_address=True),
        label=context,
    )
    versions = ["_row_created_at_version", "_row_last_updated_at_version"]
    assert ours.to_table(columns=versions).equals(theirs.to_table(columns=versions)), context
    for mine, other in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert mine.fragment_id == other.fragment_id, context
        assert mine.count_rows() == other.count_rows(), context
        assert mine.num_deletions == other.num_deletions, context
        assert mine.physical_rows == other.physical_rows, context


def test_every_version_reads_as_the_reference_reads_it(history: str) -> None:
    theirs, ours = lance.dataset(history), lance_core.dataset(history)
    assert ours.version == theirs.version
    for mine, other in zip(ours.versions(), theirs.versions(), strict=True):
        # The reference computes its times with floats, which are off by up to a microsecond.
        assert abs(mine.pop("timestamp") - other.pop("timestamp")) <= timedelta(microseconds=1)
        assert mine == other
        assert_same(ours.checkout_version(mine["version"]), theirs.checkout_version(mine["version"]))


def test_tags_branches_and_times_name_versions(history: str) -> None:
    theirs, ours = lance.dataset(history), lance_core.dataset(history)
    assert_same(ours.checkout_version("gold"), theirs.checkout_version("gold"))
    for number in (9, 10, 11):
        assert_same(ours.checkout_version(("dev/one", number)), theirs.checkout_version(("dev/one", number)))
    between = theirs.versions()[5]["timestamp"] - timedelta(microseconds=2)
    assert lance_core.dataset(history, asof=between).version == 5
    assert lance.dataset(history, asof=between).version == 5


def test_clones_of_any_version_read_as_the_reference_reads_them(history: str, tmp_path: Path) -> None:
    for version in (2, 9, 14, 26):
        path = tmp_path / str(version)
        clone = lance.dataset(history).shallow_clone(str(path), version)
        assert_same(lance_core.dataset(path), clone)
        clone.delete("id % 3 = 0")
        assert_same(lance_core.dataset(path), lance.dataset(str(path)))


def test_histories_hold_what_they_are_meant_to_hold(history: str) -> None:
    """Otherwise the comparisons above would prove less than they seem to."""
    kinds = {file.suffix for file in Path(history, "_deletions").iterdir()}
    assert kinds == {".arrow", ".bin"}
    manifests = [
        lance_core.dataset(history, version=entry["version"]).snapshot.manifest
        for entry in lance_core.dataset(history).versions()
    ]
    assert any(manifest.index_segments for manifest in manifests)
    assert any(len(fragment.files) > 1 for manifest in manifests for fragment in manifest.fragments)
    assert any(not manifest.fragments for manifest in manifests)
