"""Detached versions, which are not part of the history."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from lance_core.table.versions import DETACHED


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def append(library: Any, path: Path, read_version: int, *values: int, detached: bool = True) -> Any:
    """Append rows to a version, by a commit of files that were written before."""
    write = lance.fragment.write_fragments if library is lance else lance_core.write_fragments
    fragments: Any = write(rows(*values), str(path))
    operation = library.LanceOperation.Append(fragments)
    return library.LanceDataset.commit(str(path), operation, read_version=read_version, detached=detached)


@pytest.mark.parametrize(
    ("writer", "reader"), [(lance_core, lance), (lance, lance_core), (lance_core, lance_core)]
)
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_a_detached_version_is_opened_by_its_number_only(
    writer: Any, reader: Any, stable_row_ids: bool, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    writer.write_dataset(rows(1), str(path), enable_stable_row_ids=stable_row_ids)
    first = append(writer, path, 1, 2)
    reader.write_dataset(rows(3), str(path), mode="append")
    second = append(reader, path, first.version, 4)
    # With a version of the history as read version, the reference makes it on the latest one instead.
    stale = append(lance_core, path, 1, 5)

    assert min(first.version, second.version, stale.version) >= DETACHED
    for library in (writer, reader):
        dataset = library.dataset(str(path))
        assert (dataset.version, dataset.latest_version) == (2, 2)
        assert [entry["version"] for entry in dataset.versions()] == [1, 2]
        assert dataset.to_table() == rows(1, 3)
        for made, expected in ((first, [1, 2]), (second, [1, 2, 4]), (stale, [1, 5])):
            opened = dataset.checkout_version(made.version)
            assert opened.to_table()["x"].to_pylist() == expected
            opened = library.dataset(str(path), version=made.version)
            assert opened.to_table(filter="x > 1")["x"].to_pylist() == expected[1:]
            opened.validate()


def test_row_ids_and_versions_are_those_of_the_reference(tmp_path: Path) -> None:
    found = []
    columns = ["x", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    for library in (lance_core, lance):
        path = tmp_path / library.__name__
        library.write_dataset(rows(1), str(path), enable_stable_row_ids=True)
        found.append(append(library, path, 1, 2).to_table(columns=columns))
    assert found[0] == found[1]


def test_all_operations_can_be_detached(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(rows(1, 2, 3), path)
    dataset.insert(rows(4))
    operations = lance_core.LanceOperation
    deleted = dataset.get_fragments()[0].delete("x = 2")
    assert deleted is not None
    new = lance_core.write_fragments(rows(9), dataset)
    assert isinstance(new, list)
    for operation, expected in (
        (operations.Delete([deleted], [], "x = 2"), [1, 3, 4]),
        (operations.Overwrite(rows().schema, new), [9]),
        (operations.Restore(1), [1, 2, 3]),
        (operations.UpdateConfig(config_updates=operations.UpdateMap({"a": "b"})), [1, 2, 3, 4]),
    ):
        made = lance_core.LanceDataset.commit(dataset, operation, read_version=2, detached=True)
        assert lance.dataset(str(path), version=made.version).to_table()["x"].to_pylist() == expected
    merged = lance_core.LanceDataset.commit_batch(
        dataset, [lance_core.Transaction(2, operations.Append(new))] * 2, detached=True
    )
    assert merged["dataset"].to_table()["x"].to_pylist() == [1, 2, 3, 4, 9, 9]
    assert lance_core.dataset(path).version == 2


def test_a_transaction_can_be_detached_often_and_then_be_committed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(rows(1), path)
    fragments = lance_core.write_fragments(rows(2), dataset)
    assert isinstance(fragments, list)
    transaction = lance_core.Transaction(1, lance_core.LanceOperation.Append(fragments))
    numbers = {lance_core.LanceDataset.commit(path, transaction, detached=True).version for _ in range(2)}
    assert len(numbers) == 2
    for _ in range(2):
        assert lance_core.LanceDataset.commit(path, transaction).version == 2
    assert lance.dataset(str(path)).to_table() == rows(1, 2)


def test_the_history_does_not_continue_a_detached_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance_core.write_dataset(rows(1), path)
    detached = append(lance_core, path, 1, 2)
    before = sorted(path.rglob("*"))
    for change in (
        lambda: detached.delete("x = 1"),
        lambda: detached.insert(rows(3)),
        lambda: detached.update_config({"a": "b"}),
        lambda: lance_core.LanceDataset.commit(
            path, lance_core.LanceOperation.Append([]), read_version=detached.version
        ),
    ):
        with pytest.raises(InvalidInputError, match=f"detached=True.*{detached.version}"):
            change()
    assert sorted(path.rglob("*")) == before
    detached.checkout_latest()
    assert detached.version == 1


def test_cleanup_keeps_detached_versions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance_core.write_dataset(rows(1), path)
    detached = append(lance_core, path, 1, 2)
    for _ in range(2):
        lance_core.write_dataset(rows(5), path, mode="overwrite")
    lance_core.dataset(path).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert lance_core.dataset(path).versions()[0]["version"] == 3
    assert lance.dataset(str(path), version=detached.version).to_table() == rows(1, 2)


def test_what_cannot_be_detached(tmp_path: Path) -> None:
    path = tmp_path / "t"
    empty = lance_core.LanceOperation.Overwrite(rows().schema, [])
    with pytest.raises(UnsupportedFeatureError, match="creates a dataset"):
        lance_core.LanceDataset.commit(path, empty, detached=True)
    lance_core.write_dataset(rows(1), path, enable_v2_manifest_paths=False)
    with pytest.raises(UnsupportedFeatureError, match=r"v1 manifest paths.*migrate_manifest_paths_v2"):
        lance_core.LanceDataset.commit(path, empty, detached=True)
    lance_core.write_dataset(rows(1), tmp_path / "v2")
    with pytest.raises(VersionNotFoundError):
        append(lance_core, tmp_path / "v2", DETACHED + 7, 1)
