"""Effects of each operation on the manifest, compared with those of the same operation by the reference."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.api.dataset.operations import LanceOperation
from lance_core.api.schema import LanceSchema
from lance_core.commit.commit import commit
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import (
    CommitConflictError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_core.proto import table_pb2
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import new_transaction, reserve_fragments, update_bases
from support.changes.operations import OPERATIONS, Maker, base_table
from support.files.manifests import edit_manifest, newest_manifest, read_message

_OWN = (
    "timestamp",
    "writer_version",
    "transaction_file",
    "transaction_section",
    "transaction_section_deprecated",
    "index_section",
)
"""Fields that differ in any two commits."""


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable-ids"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three fragments of a table with or without stable row ids."""
    path = tmp_path_factory.mktemp("operations") / "base"
    base_table(path)
    if request.param:
        table = lance.dataset(str(path)).to_table()
        lance.write_dataset(
            table, str(path.parent / "stable"), max_rows_per_file=10, enable_stable_row_ids=True
        )
        shutil.rmtree(path)
        (path.parent / "stable").rename(path)
    return path


def _committed(library: ModuleType, name: str, base: Path, path: Path) -> tuple[Any, Any]:
    shutil.copytree(base, path / "base")
    shutil.copytree(base.parent / "parts", path / "parts")
    operation = OPERATIONS[name](Maker(library, path / "base"))
    library.LanceDataset.commit(str(path / "base"), operation, read_version=1)
    manifest = read_manifest(LocalStorage(str(path / "base")), 2)
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    for field in _OWN:
        message.ClearField(field)  # type: ignore[arg-type]
    for fragment in message.fragments:
        for file in fragment.files:
            file.path, file.file_size_bytes = "", 0
        fragment.deletion_file.id = 0
    indices = [
        (segment.name, list(segment.field_ids), list(segment.description.fragment_ids))
        for segment in manifest.index_segments
    ]
    return message, indices


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_the_manifest_is_that_of_the_reference(name: str, base: Path, tmp_path: Path) -> None:
    if name.startswith("rewrite") and lance.dataset(str(base)).has_stable_row_ids:
        # The reference makes a version that nobody can open.
        with pytest.raises(InvalidInputError, match="has no row ids"):
            _committed(lance_core, name, base, tmp_path / "ours")
        return
    ours, our_indices = _committed(lance_core, name, base, tmp_path / "ours")
    theirs, their_indices = _committed(lance, name, base, tmp_path / "theirs")
    if name.startswith(("replace", "columns")):
        # Without being told which rows changed, the reference says that none did; here it is all of them.
        for message in (ours, theirs):
            for fragment in message.fragments:
                fragment.ClearField("inline_last_updated_at_versions")
    assert ours == theirs
    assert our_indices == their_indices


def _storage(path: Path) -> LocalStorage:
    return LocalStorage(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    base_table(tmp_path / "base")
    return tmp_path / "base"


def test_reserved_ids_are_not_given_again(path: Path) -> None:
    commit(_storage(path), reserve_fragments(new_transaction(1), 4))
    assert read_message(newest_manifest(path)).max_fragment_id == 6
    LanceDataset.commit(path, OPERATIONS["append"](Maker(lance_core, path)), read_version=2)
    assert [fragment.fragment_id for fragment in lance.dataset(str(path)).get_fragments()] == [0, 1, 2, 7]
    edit_manifest(path, lambda message: setattr(message, "max_fragment_id", (1 << 32) - 2))
    with pytest.raises(InvalidInputError, match="no fragment ids left"):
        commit(_storage(path), reserve_fragments(new_transaction(3), 2))


def test_rewritten_fragments_take_reserved_ids(path: Path) -> None:
    commit(_storage(path), reserve_fragments(new_transaction(1), 2))
    make = Maker(lance_core, path)
    fragment = make.new()
    fragment.id = 3
    group = LanceOperation.RewriteGroup([make.old(0)], [fragment])
    LanceDataset.commit(path, LanceOperation.Rewrite([group], []), read_version=2)
    assert [each.fragment_id for each in lance.dataset(str(path)).get_fragments()] == [1, 2, 3]
    assert lance.dataset(str(path)).validate() is None
    taken = LanceOperation.RewriteGroup([make.old(1)], [fragment])
    with pytest.raises(InvalidInputError, match="is in use"):
        LanceDataset.commit(path, LanceOperation.Rewrite([taken], []), read_version=3)
    fewer = make.new()
    fewer.physical_rows = 9
    with pytest.raises(InvalidInputError, match="rows of rewritten fragments"):
        LanceDataset.commit(
            path, LanceOperation.Rewrite([LanceOperation.RewriteGroup([make.old(1)], [fewer])], []), 3
        )


def test_base_paths(path: Path) -> None:
    def bases(*given: dict[str, Any]) -> Any:
        version = lance_core.dataset(path).version
        return update_bases(new_transaction(version), [table_pb2.BasePath(**each) for each in given])

    commit(_storage(path), bases({"path": "/somewhere", "name": "a"}, {"path": "/other"}))
    assert {base.id: base.path for base in lance_core.dataset(path).snapshot.manifest.message.base_paths} == {
        1: "/somewhere",
        2: "/other",
    }
    assert lance.dataset(str(path)).count_rows() == 30
    for wrong in ({"path": "/other"}, {"path": "/x", "name": "a"}, {"path": "/x", "id": 2}, {"path": "x/y"}):
        with pytest.raises(InvalidInputError, match="base path"):
            commit(_storage(path), bases(wrong))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda make: make.operation.Delete([make.old(0, id=9)], [], "x"), "fragment 9 was removed"),
        (lambda make: make.operation.Delete([], [9], "x"), "fragment 9 was removed"),
        (lambda make: make.operation.Append([make.deleted(0)]), "has a deletion file"),
        (lambda make: make.operation.Merge([make.old(0)], make.schema("a", "b")), "fragments of a merge"),
        (
            lambda make: make.operation.Merge(
                [make.old(0), make.old(1), make.old(2, physical_rows=9)], make.schema("a", "b")
            ),
            "rows of fragment 2",
        ),
        (lambda make: make.config(field={"lance-schema:unenforced-primary-key": "no"}), "has no valid value"),
        (
            lambda make: make.operation.UpdateConfig(field_metadata_updates={9: _map(make)}),
            "no field with id 9",
        ),
        (lambda make: make.operation.Append([_twice(make)]), "two columns"),
        (lambda make: make.operation.Append([_of_version(make, 1)]), "another version"),
        (lambda make: make.operation.Append([make.fragment(0, [_no_columns(make)], 10)]), "without columns"),
        (lambda make: make.operation.Update(update_mode="other"), "update_mode"),
        (lambda make: make.operation.DataReplacement([_group(make, 0, [1])]), "fields of a file"),
        (lambda make: make.operation.DataReplacement([_group(make, 9, [0, 1])]), "fragment 9 was removed"),
    ],
)
def test_what_makes_no_sense_is_refused(change: Any, match: str, path: Path) -> None:
    """An operation that would make an unreadable version is refused before anything is written."""
    files = sorted(os.listdir(path / "_versions")), sorted(os.listdir(path / "_transactions"))
    with pytest.raises((InvalidInputError, CommitConflictError), match=match):
        LanceDataset.commit(path, change(Maker(lance_core, path)), read_version=1)
    assert files == (sorted(os.listdir(path / "_versions")), sorted(os.listdir(path / "_transactions")))


def _map(make: Maker) -> Any:
    return make.operation.UpdateMap({"x": "1"})


def _twice(make: Maker) -> Any:
    return make.fragment(0, [make.file([0, 1]), make.file([1])], 10)


def _of_version(make: Maker, minor: int) -> Any:
    fragment = make.new()
    fragment.files[0].file_minor_version = minor
    return fragment


def _no_columns(make: Maker) -> Any:
    file = make.file([1])
    file.fields, file.column_indices = [-3 - 3], [0]
    return file


def _group(make: Maker, fragment: int, fields: list[int]) -> Any:
    return make.operation.DataReplacementGroup(fragment, make.file(fields))


def test_a_primary_key_is_set_once(path: Path) -> None:
    """Later commits may not change a primary key, whichever writer wins a race, as in the reference."""
    make = Maker(lance_core, path)
    key = {"lance-schema:unenforced-primary-key": "true"}
    with pytest.raises(InvalidInputError, match="must not be nullable"):
        LanceDataset.commit(path, make.config(field=key), read_version=1)
    lance_core.dataset(path).alter_columns({"path": "a", "nullable": False})
    LanceDataset.commit(path, make.config(field=key), read_version=2)
    assert read_message(newest_manifest(path)).fields[0].unenforced_primary_key
    for changed in (key, {"lance-schema:unenforced-primary-key": None}):
        with pytest.raises(InvalidInputError, match="cannot be changed"):
            LanceDataset.commit(path, make.config(field=changed), read_version=3)
    LanceDataset.commit(path, make.config(field={"other": "1"}), read_version=3)
    assert lance.dataset(str(path)).schema.field("a").metadata[b"other"] == b"1"


def test_field_ids_that_are_never_used_again(path: Path) -> None:
    """New columns count on from the highest id ever."""

    def flag(message: table_pb2.Manifest) -> None:
        message.writer_feature_flags |= 32768
        message.max_allocated_field_id = 5

    edit_manifest(path, flag)
    make = Maker(lance_core, path)
    schema = make.schema("a", "b")
    for number, expected in ((5, None), (6, 6)):
        fields = [*schema.schema.messages]
        fields.append(type(fields[0])(name="c", id=number, parent_id=-1, logical_type="int64", nullable=True))
        wider = LanceSchema(lance_core.schema.Schema(fields, {}))
        merge = LanceOperation.Merge([make.old(n) for n in range(3)], wider)
        if expected is None:
            with pytest.raises(InvalidInputError, match="used before"):
                LanceDataset.commit(path, merge, read_version=1)
        else:
            LanceDataset.commit(path, merge, read_version=1)
            assert read_message(newest_manifest(path)).max_allocated_field_id == expected


def test_what_is_not_supported_is_named(path: Path) -> None:
    make = Maker(lance_core, path)
    with pytest.raises(InvalidInputError, match="read_version is required"):
        LanceDataset.commit(path, make.config(config={"x": "1"}))
    transaction = new_transaction(1)
    with pytest.raises(UnsupportedFeatureError, match="committing this operation"):
        commit(_storage(path), transaction)
    transaction.update_mem_wal_state.SetInParent()
    with pytest.raises(UnsupportedFeatureError, match="update_mem_wal_state"):
        commit(_storage(path), transaction)


def test_an_overwrite_without_retries_wants_the_version_it_read(path: Path) -> None:
    make = Maker(lance_core, path)
    overwrite = OPERATIONS["overwrite"](make)
    LanceDataset.commit(path, make.config(config={"x": "1"}), read_version=1)
    with pytest.raises(CommitConflictError, match="another writer made it"):
        LanceDataset.commit(path, overwrite, read_version=1, max_retries=0)
    assert LanceDataset.commit(path, overwrite, read_version=2, max_retries=0).version == 3
    assert LanceDataset.commit(path, overwrite).version == 4
    assert lance.dataset(str(path)).config() == {"x": "1"}


def test_a_committed_transaction_is_found(path: Path) -> None:
    """T38: by the name of its file, in the newest manifest, or in all where there are no files."""
    make, numbers = Maker(lance_core, path), []
    for version in range(1, 4):
        transaction = lance_core.Transaction(version, make.config(config={f"x{version}": "1"}))
        numbers.append(transaction.uuid)
        assert find_committed(_storage(path), transaction.uuid) is None
        LanceDataset.commit(path, transaction)

    def found() -> list[int | None]:
        manifests = [find_committed(_storage(path), number) for number in numbers]
        return [manifest.version if manifest else None for manifest in manifests]

    assert found() == [2, 3, 4]
    assert find_committed(_storage(path), numbers[0].upper()) is not None
    assert find_committed(_storage(path / "elsewhere"), numbers[0]) is None
    newest_manifest(path).rename(path / "kept")
    assert found() == [2, 3, None]
    (path / "kept").rename(path / "_versions" / "18446744073709551611.manifest")
    shutil.rmtree(path / "_transactions")
    assert found() == [None, None, 4]
    message = read_message(newest_manifest(path))
    assert message.transaction_file


def test_metadata_of_fragments_survives_json(path: Path) -> None:
    """Our metadata of fragments equals the reference's, and commits of it give the original fragments."""
    lance.dataset(str(path)).delete("a = 3")
    ours = lance_core.dataset(path).get_fragments()
    theirs = lance.dataset(str(path)).get_fragments()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.metadata.to_json() == other.metadata.to_json()
    assert ours[0].metadata.deletion_file is not None
    deleted = ours[0].metadata.deletion_file
    assert type(deleted).from_json(deleted.json()) == deleted
