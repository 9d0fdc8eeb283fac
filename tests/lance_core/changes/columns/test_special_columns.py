"""Compaction and new columns beside blobs, JSON, extension types, dictionaries, and files in other places."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import UnsupportedFeatureError
from support.oracles.comparison import assert_tables_equal
from support.oracles.two_copies import TwoCopies


def blob_table(first: int, *, second_form: bool) -> pa.Table:
    values = [None, b"", b"small", bytes([first]) * 100_000, b"x" * (first + 1)]
    if second_form:
        return pa.table({"id": range(first, first + 5), "image": lance.blob_array(values)})
    field = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table([pa.array(range(first, first + 5)), pa.array(values, pa.large_binary())], schema=schema)


def blobs(dataset: Any) -> list[bytes | None]:
    """All values of the column, by either library."""
    ids = dataset.to_table(columns=["id"])["id"].to_pylist()
    files = dataset.take_blobs("image", indices=list(range(len(ids))))
    return [None if file is None else file.readall() for file in files]


@pytest.mark.parametrize(("version", "second_form"), [("2.0", False), ("2.1", False), ("2.2", True)])
def test_blobs(version: str, second_form: bool, tmp_path: Path) -> None:
    """Values come to the new file, and are read as before; a new column stands beside them."""
    path = str(tmp_path / "d")
    for first in (0, 5, 10):
        lance.write_dataset(
            blob_table(first, second_form=second_form),
            path,
            mode="append" if first else "create",
            data_storage_version=version,
        )
    lance.dataset(path).delete("id = 6 or id = 12")
    before = lance_core.dataset(path)
    expected = before.scanner(blob_handling="all_binary").to_table()
    ours = lance_core.dataset(path)
    ours.optimize.compact_files()
    ours.add_columns({"n": "id + 1"})
    assert len(ours.get_fragments()) == 1
    ours.validate()
    theirs = lance.dataset(path)
    assert theirs.validate() is None
    assert theirs.to_table(columns=["id", "n"]).equals(ours.to_table(columns=["id", "n"]))
    found = ours.scanner(["id", "image"], blob_handling="all_binary").to_table()
    assert_tables_equal(expected, found)
    assert blobs(ours) == expected["image"].to_pylist()
    assert [value for value in blobs(theirs) if value] == [v for v in expected["image"].to_pylist() if v]


def test_blobs_outside_the_dataset_are_not_copied_into_it(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"elsewhere")
    path = str(tmp_path / "d")
    values = lance.blob_array([f"file://{tmp_path}/outside", b"here"])
    for mode in ("create", "append"):
        table = pa.table({"id": [1, 2], "image": values})
        lance.write_dataset(
            table, path, mode=mode, data_storage_version="2.2", allow_external_blob_outside_bases=True
        )
    files = sorted((tmp_path / "d" / "data").rglob("*"))
    with pytest.raises(UnsupportedFeatureError, match="outside the dataset"):
        lance_core.dataset(path).optimize.compact_files()
    assert sorted((tmp_path / "d" / "data").rglob("*")) == files
    assert lance_core.dataset(path).version == 2


def special(first: int) -> pa.Table:
    numbers = range(first, first + 6)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([uuid.UUID(int=n).bytes for n in numbers], pa.binary(16))
        ),
        "json": pa.ExtensionArray.from_storage(
            pa.json_(), pa.array([json.dumps({"n": n, "l": [n, None]}) for n in numbers])
        ),
        "kind": pa.array([None if n % 4 == 0 else "abc"[n % 3] for n in numbers]).dictionary_encode(),
        "vector": pa.array([[n, n + 0.5] for n in numbers], pa.list_(pa.float32(), 2)),
        "map": pa.array([[("k", n)] * (n % 3) for n in numbers], pa.map_(pa.string(), pa.int64())),
        "packed": pa.array([{"p": n, "q": n / 2} for n in numbers]),
    }
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    fields[-1] = fields[-1].with_metadata({"lance-encoding:packed": "true"})
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def write(path: str, columns: list[str], **options: Any) -> None:
    """Three fragments by the reference."""
    for first in (0, 6, 12):
        mode = "append" if first else "create"
        lance.write_dataset(special(first).select(columns), path, mode=mode, **options)


def test_special_types(tmp_path: Path) -> None:
    path = str(tmp_path / "ours")
    for first in (0, 6, 12):
        lance.write_dataset(
            special(first), path, mode="append" if first else "create", enable_stable_row_ids=True
        )
    lance.dataset(path).delete("id in (0, 7, 17)")
    shutil.copytree(path, tmp_path / "theirs")
    both = TwoCopies(tmp_path / "ours", tmp_path / "theirs")
    both.do(
        lambda d: d.merge(
            special(3).slice(0, 6).select(["id", "uuid", "kind"]).rename_columns(["id", "uuid_2", "kind_2"]),
            "id",
        )
    )
    both.do(lambda d: d.alter_columns({"path": "kind", "data_type": pa.string()}))
    both.check()
    both.do(lambda d: d.optimize.compact_files())
    both.check(compare_versions=False)
    both.go_on()


def test_spilled_row_ids(tmp_path: Path) -> None:
    """Row ids and versions that are kept in columns come to the new fragments, too."""
    path = str(tmp_path / "d")
    for first in (0, 6, 12):
        lance.write_dataset(
            special(first), path, mode="append" if first else "create", enable_stable_row_ids=True
        )
    dataset = lance.dataset(path)
    dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "0"})
    dataset.update({"id": "id + 100"}, where="id in (1, 8, 13)")
    dataset.optimize.compact_files(target_rows_per_fragment=7)
    ours = lance_core.dataset(path)
    messages = [fragment.message for fragment in ours.snapshot.manifest.fragments]
    assert any(message.HasField("column_row_ids") for message in messages)
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    expected = lance.dataset(path).to_table(columns=columns)
    ours.optimize.compact_files()
    theirs = lance.dataset(path)
    assert theirs.validate() is None
    assert len(ours.get_fragments()) == 1
    assert theirs.to_table(columns=columns).equals(expected)
    assert ours.to_table(columns=columns).equals(expected)


def test_files_of_row_ids_alone_stay(tmp_path: Path) -> None:
    """A file that has no field of the schema may still say which ids its rows have."""
    path = str(tmp_path / "d")
    data = pa.table({"id": range(10), "value": range(10)})
    lance.write_dataset(data, path, enable_stable_row_ids=True)
    dataset = lance.dataset(path)
    dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "0"})
    source = pa.table({"id": [3, 5, 20], "value": [30, 50, 200]})
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(source)
    ours = lance_core.dataset(path)
    files = [file for each in ours.snapshot.manifest.message.fragments for file in each.files]
    assert any(max(file.fields) < 0 for file in files)
    columns = ["id", "_rowid", "_row_created_at_version"]
    expected = lance.dataset(path).to_table(columns=columns)
    ours.drop_columns(["value"])
    assert lance.dataset(path).to_table(columns=columns).equals(expected)
    ours.add_columns(pa.field("more", pa.string()))
    for opened in (lance_core.dataset(path), lance.dataset(path)):
        assert opened.to_table(columns=columns).equals(expected)
        opened.validate()


def test_clones_write_into_their_own_place(tmp_path: Path) -> None:
    source, clone = tmp_path / "source", tmp_path / "clone"
    for first in (0, 6, 12):
        lance.write_dataset(
            special(first).select(["id", "uuid"]), str(source), mode="append" if first else "create"
        )
    lance.dataset(str(source)).shallow_clone(str(clone), lance.dataset(str(source)).version)
    before = sorted(source.rglob("*"))
    ours = lance_core.dataset(clone)
    ours.add_columns({"n": "id * 2"})
    lance.dataset(str(clone)).delete("id = 7")
    ours.checkout_latest()
    ours.optimize.compact_files()
    assert sorted(source.rglob("*")) == before
    theirs = lance.dataset(str(clone))
    assert theirs.validate() is None
    assert theirs.to_table()["n"].to_pylist() == [2 * n for n in range(18) if n != 7]
    assert not [
        file for each in ours.get_fragments() for file in each.data_files() if file.base_id is not None
    ]
