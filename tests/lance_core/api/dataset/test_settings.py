"""Settings, metadata and restored versions, beside the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.settings import restore_version, update_settings
from lance_core.errors import CommitConflictError, InvalidInputError, LanceError, VersionNotFoundError
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot, read_manifest
from lance_core.table.transaction import read_transaction

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": [{"a": 1, "b": [1]}] * 3,
        "spaced name": ["x"] * 3,
        "key": pa.array([1, 2, 3], pa.int32()),
    },
    schema=pa.schema(
        [
            pa.field("id", pa.int64(), metadata={"kept": "1", "unit": "m"}),
            pa.field("s", pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.int64()))])),
            pa.field("spaced name", pa.string()),
            pa.field("key", pa.int32(), nullable=False),
        ],
        metadata={"origin": "test", "other": "1"},
    ),
)

Act = Callable[[Any], object]
ACTS: dict[str, Act] = {
    "set": lambda ds: ds.update_config({"a": "1", "b": ""}),
    "set and remove": lambda ds: ds.update_config({"old": None, "missing": None, "new": "1"}),
    "replace": lambda ds: ds.update_config({"new": "1", "old": None}, replace=True),
    "replace by nothing": lambda ds: ds.update_config({}, replace=True),
    "set nothing": lambda ds: ds.update_config({}),
    "delete keys": lambda ds: ds.delete_config_keys(["old", "missing"]),
    "metadata": lambda ds: ds.update_metadata({"note": "text", "old": None}),
    "replace metadata": lambda ds: ds.update_metadata({"note": "text"}, replace=True),
    "schema metadata": lambda ds: ds.update_schema_metadata({"origin": None, "new": "é"}),
    "replace schema metadata": lambda ds: ds.update_schema_metadata({"new": "1"}, replace=True),
    "replace schema metadata, old": lambda ds: ds.replace_schema_metadata({"new": "1"}),
    "field": lambda ds: ds.update_field_metadata({"id": {"unit": None, "new": "1"}}),
    "nested fields": lambda ds: ds.update_field_metadata({"s.a": {"k": "v"}, "s.b": {"k": "v"}}),
    "item of a list": lambda ds: ds.update_field_metadata({"s.b.item": {"k": "v"}}),
    "quoted field": lambda ds: ds.update_field_metadata({"`spaced name`": {"k": "v"}}),
    "replace field": lambda ds: ds.update_field_metadata({"id": {"new": "1"}}, replace=True),
    "replace field, old": lambda ds: ds.replace_field_metadata("id", {"new": "1"}),
    "missing field": lambda ds: ds.update_field_metadata({"missing": {"k": "v"}}),
    "field in another case": lambda ds: ds.update_field_metadata({"ID": {"k": "v"}}),
    "no field": lambda ds: ds.update_field_metadata({}),
    "primary key": lambda ds: ds.update_field_metadata(
        {"key": {"lance-schema:unenforced-primary-key": "true"}}
    ),
    "primary key with nulls": lambda ds: ds.update_field_metadata(
        {"id": {"lance-schema:unenforced-primary-key": "true"}}
    ),
    "restore": lambda ds: ds.checkout_version(1).restore(),
    "restore the latest": lambda ds: ds.restore(),
    "old handle": lambda ds: ds.checkout_version(2).update_config({"new": "1"}),
}


def prepared(place: Path, **options: Any) -> str:
    lance.write_dataset(TABLE, str(place), **options)
    dataset = lance.dataset(str(place))
    dataset.delete("id = 2")
    dataset.update_config({"old": "1", "kept": "1"})
    dataset.update_metadata({"old": "1"})
    lance.write_dataset(TABLE, str(place), mode="append")
    return str(place)


def state(path: str) -> list[object]:
    """Return the settings and metadata that the reference reads from the latest version."""
    dataset = lance.dataset(path)
    dataset.validate()
    manifest = read_manifest(LocalStorage(path), dataset.version)
    primary_key = [
        (field.id, field.unenforced_primary_key, field.unenforced_primary_key_position)
        for field in manifest.message.fields
    ]
    return [
        dataset.version,
        dataset.config(),
        dataset.metadata,
        dataset.schema_metadata,
        [described(field) for field in dataset.schema],
        dataset.to_table().to_pylist(),
        primary_key,
        (manifest.reader_feature_flags, manifest.writer_feature_flags),
        (manifest.max_fragment_id, manifest.next_row_id),
        _operation(path),
    ]


def described(field: pa.Field) -> tuple[object, ...]:
    children = [field.type.field(index) for index in range(field.type.num_fields)]
    return (
        field.name,
        field.nullable,
        str(field.type),
        field.metadata,
        [described(child) for child in children],
    )


def _operation(path: str) -> str:
    storage = LocalStorage(path)
    transaction = read_transaction(storage, open_snapshot(storage).manifest)
    if transaction.WhichOneof("operation") == "append":  # of the preparation, whose file has a random name
        return "append"
    for changes in (
        transaction.update_config.config_updates,
        transaction.update_config.table_metadata_updates,
        transaction.update_config.schema_metadata_updates,
        *transaction.update_config.field_metadata_updates.values(),
    ):
        changes.update_entries.sort(key=lambda entry: entry.key)
    transaction.uuid = ""
    return str(transaction)


@pytest.mark.filterwarnings("ignore:replace_:DeprecationWarning")
@pytest.mark.parametrize("name", ACTS)
def test_a_version_is_that_of_the_reference(name: str, tmp_path: Path) -> None:
    outcomes = []
    for library in (lance, lance_core):
        path = prepared(tmp_path / library.__name__)
        expected = (OSError, ValueError) if library is lance else LanceError
        try:
            result, failed = ACTS[name](library.dataset(path)), False
        except expected:
            result, failed = None, True
        outcomes.append((failed, result, state(path)))
    assert outcomes[0] == outcomes[1]


def test_the_object_moves_to_the_new_version(tmp_path: Path) -> None:
    dataset = lance_core.dataset(prepared(tmp_path / "t"))
    assert dataset.update_config({"new": "1"}) == {"old": "1", "kept": "1", "new": "1"} == dataset.config()
    assert dataset.update_metadata({"a": "b"}) == {"old": "1", "a": "b"} == dataset.metadata
    assert dataset.update_schema_metadata({"a": "b"}) == dataset.schema_metadata
    dataset.update_field_metadata({"id": {"a": "b"}})
    assert dataset.schema.field("id").metadata == {b"kept": b"1", b"unit": b"m", b"a": b"b"}
    assert dataset.version == 9
    with pytest.warns(DeprecationWarning, match="update_schema_metadata"):
        dataset.replace_schema_metadata({})
    with pytest.warns(DeprecationWarning, match="update_field_metadata"):
        dataset.replace_field_metadata("id", {})
    old = dataset.checkout_version(1)
    old.restore()
    assert (old.version, old.config(), old.count_rows()) == (12, {}, 3)


@pytest.mark.parametrize("stable", [False, True])
def test_rows_after_a_restore_get_fresh_ids(tmp_path: Path, stable: bool) -> None:
    path = prepared(tmp_path / "t", enable_stable_row_ids=stable)
    lance_core.dataset(path, 1).restore()
    lance_core.write_dataset(TABLE, path, mode="append")
    lance.write_dataset(TABLE, path, mode="append")
    dataset = lance.dataset(path)
    dataset.validate()
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 2, 3]
    ids = dataset.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(ids)) == 9
    assert lance_core.dataset(path).to_table(["_rowid"])["_rowid"].to_pylist() == ids
    if stable:
        assert ids == [0, 1, 2, *range(6, 12)]


def test_text_by_text_only(tmp_path: Path) -> None:
    dataset = lance_core.dataset(prepared(tmp_path / "t"))
    for values in ({"a": 1}, {1: "a"}, {"a": b"x"}):
        with pytest.raises(TypeError, match="values text or None"):
            dataset.update_config(values)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"s\.missing"):
        dataset.update_field_metadata({"s.missing": {}})
    assert dataset.latest_version == 5


def test_changes_of_the_same_key_are_in_conflict(tmp_path: Path) -> None:
    """T37"""
    path = prepared(tmp_path / "t")
    mine = lance_core.dataset(path)
    lance.dataset(path).update_config({"theirs": "1", "both": "1"})
    with pytest.raises(CommitConflictError):
        mine.update_config({"both": "2"})
    assert mine.version == 5
    assert mine.update_config({"mine": "1"})["theirs"] == "1"


def test_a_version_that_is_gone_is_not_restored(tmp_path: Path) -> None:
    path = prepared(tmp_path / "t")
    old = lance_core.dataset(path, 1)
    lance.dataset(path).cleanup_old_versions(retain_versions=1)
    with pytest.raises(VersionNotFoundError):
        old.restore()


def test_a_transaction_id_is_used_once(tmp_path: Path) -> None:
    """T38"""
    path = prepared(tmp_path / "t")
    first, second = str(uuid4()), str(uuid4())
    start = open_snapshot(LocalStorage(path))
    changed = update_settings(start, config={"new": "1"}, transaction_id=first)
    again = update_settings(start, config={"new": "1"}, transaction_id=first)
    assert changed.manifest.version == again.manifest.version == 6
    old = open_snapshot(LocalStorage(path), 1)
    versions = [restore_version(old, transaction_id=second).manifest.version for _ in range(2)]
    assert versions == [7, 7]
    assert lance.dataset(path).latest_version == 7
