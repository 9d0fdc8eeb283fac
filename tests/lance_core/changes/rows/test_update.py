"""Updating rows: values and their types, what stays of a row, what is refused."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.table.transaction import read_transaction
from support.oracles.row_twins import Twins

TABLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "small": pa.array([*range(9), 2_000_000_000], pa.int32()),
        "byte": pa.array(range(10), pa.uint8()),
        "real": pa.array([0.5, None] * 5),
        "text": [f"t{number}" for number in range(10)],
        "word": pa.array(["a", "b"] * 5).dictionary_encode(),
        "day": pa.array(range(10), pa.date32()),
        "time": pa.array(range(10), pa.timestamp("us", "UTC")),
        "price": pa.array([f"{number}.25" for number in range(10)]).cast(pa.decimal128(5, 2)),
        "flag": pa.array([True, None] * 5),
        "point": [{"x": number, "y": None} for number in range(10)],
    }
)


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("updates", "where"),
    [
        ({"small": "small + 1"}, "id = 2"),
        ({"small": "real"}, "real IS NOT NULL"),
        ({"small": "'7'", "byte": "id"}, "id < 5"),
        ({"small": "9 / 2.0"}, "id < 5"),
        ({"small": "null", "text": "null", "word": "null", "price": "null", "time": "null"}, "id < 3"),
        ({"real": "id", "text": "id", "flag": "id"}, None),
        ({"word": "'new'"}, "id = 1"),
        ({"word": "text"}, "id > 1"),
        ({"day": "'2020-02-03'", "time": "'2020-02-03 04:05:06'"}, "id = 1"),
        ({"time": "day"}, "id = 1"),
        ({"price": "price * 2"}, None),
        ({"price": "12.345"}, "id = 4"),
        ({"flag": "'true'"}, "id = 4"),
        ({"id": "point.x + 100"}, "point.x > 5"),
        ({"text": "upper(concat(text, '-', cast(id as string)))"}, None),
    ],
)
def test_values_become_the_type_of_the_column_as_in_the_reference(
    updates: dict[str, str], where: str | None, tmp_path: Path
) -> None:
    twins = Twins(tmp_path, TABLE, max_rows_per_file=4)
    assert twins.ours.update(updates, where) == twins.theirs.update(updates, where)
    twins.check()


def test_expressions_see_the_old_values(tmp_path: Path) -> None:
    """The reference computes one column after the other, in no particular order."""
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    dataset.update({"text": "word", "word": "text", "id": "small", "small": "id"}, "id < 2")
    rows = dataset.to_table(columns=["text", "word", "id", "small"]).to_pylist()[-2:]
    assert rows == [
        {"text": "a", "word": "t0", "id": 0, "small": 0},
        {"text": "b", "word": "t1", "id": 1, "small": 1},
    ]


@pytest.mark.parametrize(
    ("updates", "named"),
    [
        ({"small": "small * 1000"}, r"column .*overflow"),
        ({"small": "small + 2000000000"}, r"column .*overflow"),
        ({"byte": "byte - 5"}, r"column .*overflow"),
        ({"id": "-id - 9223372036854775807"}, r"column .*overflow"),
        ({"byte": "small"}, "not in range"),
        ({"byte": "-1"}, "byte"),
        ({"small": "'u'"}, "small"),
        ({"small": "3000000000"}, "small"),
        ({"price": "id * 1000"}, "precision 5"),
        ({"id": "1 / (id - 3)"}, "column 'id': .*divide by zero"),
        ({"id": "text"}, r"'t\d'"),
        ({"nosuch": "1"}, "nosuch"),
        ({"ID": "1"}, "ID"),
        ({"point.x": "1"}, "point.x"),
        ({"point": "id"}, "point"),
        ({"id": "nosuch + 1"}, "nosuch"),
        ({"id": ""}, "id"),
        ({}, "no updates"),
    ],
)
def test_what_does_not_fit_changes_nothing(updates: dict[str, str], named: str, tmp_path: Path) -> None:
    path = tmp_path / "d"
    lance.write_dataset(TABLE, str(path), max_rows_per_file=4)
    before = files(path)
    with pytest.raises(InvalidInputError, match=named):
        lance_core.dataset(path).update(updates)
    assert files(path) == before


def test_a_null_where_none_is_allowed_changes_nothing(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("real", pa.float64())])
    lance.write_dataset(pa.table({"id": [1, 2], "real": [1.0, None]}, schema=schema), str(tmp_path / "d"))
    dataset = lance_core.dataset(tmp_path / "d")
    before = files(tmp_path / "d")
    for value in ("null", "real"):
        with pytest.raises(InvalidInputError, match="null in a column that allows none"):
            dataset.update({"id": value})
    assert files(tmp_path / "d") == before
    assert dataset.update({"id": "real"}, "real IS NOT NULL") == {"num_rows_updated": 1}


def test_the_transaction_says_what_the_reference_says(tmp_path: Path) -> None:
    twins = Twins(tmp_path, TABLE, max_rows_per_file=4, enable_stable_row_ids=True)
    ours, theirs = twins.ours, twins.theirs
    for where in ("id IN (2, 5, 6)", "id BETWEEN 4 AND 7", "id = 100"):
        ours.update({"text": "'x'", "real": "1"}, where)
        theirs.update({"text": "'x'", "real": "1"}, where)
        expected = theirs.read_transaction(theirs.version).operation
        found = read_transaction(ours.snapshot.storage, ours.snapshot.manifest).update
        assert sorted(found.removed_fragment_ids) == sorted(expected.removed_fragment_ids)
        assert [f.id for f in found.updated_fragments] == sorted(f.id for f in expected.updated_fragments)
        assert [f.physical_rows for f in found.new_fragments] == [
            f.physical_rows for f in expected.new_fragments
        ]
        assert list(found.fields_modified) == expected.fields_modified
        assert sorted(found.fields_for_preserving_frag_bitmap) == sorted(
            expected.fields_for_preserving_frag_bitmap
        )
        twins.check()


def test_rows_keep_their_ids_and_the_version_they_were_made_in(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d", enable_stable_row_ids=True)
    dataset.update({"text": "'x'"}, "id IN (7, 2)")
    dataset.update({"real": "1"}, pc.field("id") == 7)
    rows = dataset.to_table(
        columns=["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    ).to_pylist()
    assert [tuple(row.values()) for row in rows[-2:]] == [(2, 2, 1, 2), (7, 7, 1, 3)]
    assert all(row["id"] == row["_rowid"] for row in rows)
    assert lance.dataset(str(tmp_path / "d"))._take_rows([7], columns=["text"])["text"].to_pylist() == ["x"]


def test_rows_whose_ids_are_in_a_column(tmp_path: Path) -> None:
    """Row lineage that the reference wrote into data files instead of the manifest."""
    path = str(tmp_path / "d")
    rows = pa.table({"k": range(100), "v": range(100)})
    reference = lance.write_dataset(rows, path, enable_stable_row_ids=True, max_rows_per_file=30)
    reference.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"})
    reference.delete("k % 7 = 3")
    reference.optimize.compact_files()
    (fragment,) = lance.dataset(path).get_fragments()
    assert {-3, -4, -5} <= {field for file in fragment.metadata.files for field in file.fields}
    made = lance.dataset(path).version
    dataset = lance_core.dataset(path)
    dataset.update({"v": "v + 1000"}, "k IN (11, 12)")
    source = pa.table({"k": [13, 500], "v": [-13, -500]})
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)
    dataset.validate()
    columns = ["k", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = dataset.to_table(columns=columns)
    assert lance.dataset(path).to_table(columns=columns).equals(found)
    assert [tuple(row.values()) for row in found.to_pylist()[-4:]] == [
        (11, 1011, 11, 1, made + 1),
        (12, 1012, 12, 1, made + 1),
        (13, -13, 13, 1, made + 2),
        (500, -500, 100, made + 2, made + 2),
    ]


def test_clones_and_branches_get_files_of_their_own(tmp_path: Path) -> None:
    twins = Twins(tmp_path, TABLE, max_rows_per_file=4, enable_stable_row_ids=True)
    source = lance.dataset(str(twins.our_path))
    source.shallow_clone(str(tmp_path / "clone"), reference=source.version)
    source.create_branch("side")
    before = files(twins.our_path / "data")
    for path in (tmp_path / "clone", twins.our_path / "tree" / "side"):
        dataset = lance_core.dataset(path)
        dataset.update({"text": "'x'"}, "id IN (3, 8)")
        merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table({"id": [5, 100], "text": ["y", "z"]}))
        assert len(files(path / "data")) == 2
        dataset.validate()
        found = dataset.to_table(columns=["id", "text", "small"])
        assert lance.dataset(str(path)).to_table(columns=["id", "text", "small"]).equals(found)
        changed = {row["id"]: (row["text"], row["small"]) for row in found.to_pylist()[-4:]}
        assert changed == {3: ("x", 3), 8: ("x", 8), 5: ("y", 5), 100: ("z", None)}
    assert files(twins.our_path / "data") == before
    twins.check()


def test_repeating_a_transaction_gives_its_first_result(tmp_path: Path) -> None:
    """T38: a client that did not hear the answer asks again."""
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    name = str(uuid4())
    assert dataset.update({"id": "id + 1"}, "id > 6", transaction_id=name) == {"num_rows_updated": 3}
    assert dataset.update({"id": "id + 1"}, "id > 6", transaction_id=name) == {"num_rows_updated": 3}
    assert dataset.latest_version == 2
    assert sorted(dataset.to_table()["id"].to_pylist()) == [*range(7), 8, 9, 10]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_are_copied(version: str, tmp_path: Path) -> None:
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [b"x" * 70_000, None, b"", b"small"]
    table = pa.table(
        {"id": pa.array(range(4)), "blob": values}, schema=pa.schema([("id", pa.int64()), field])
    )
    lance.write_dataset(table, str(tmp_path / "d"), data_storage_version=version)
    dataset = lance_core.dataset(tmp_path / "d")
    assert dataset.update({"id": "id + 10"}, "id <> 2") == {"num_rows_updated": 3}
    order = dataset.to_table(columns=["id"])["id"].to_pylist()
    assert order == [2, 10, 11, 13]
    for opened in (dataset, lance.dataset(str(tmp_path / "d"))):
        found = opened.to_table(columns=["blob"], blob_handling="all_binary")["blob"].to_pylist()
        assert found == [values[number % 10 if number > 9 else number] for number in order]
    with pytest.raises(UnsupportedFeatureError, match="blob"):
        dataset.update({"blob": "null"})


def test_blobs_of_the_second_form_are_copied(tmp_path: Path) -> None:
    values = [b"in", None, b"", b"x" * 100_000, b"y" * 5_000_000]
    table = pa.table({"id": range(5), "blob": lance.blob_array(values)})
    path = str(tmp_path / "d")
    lance.write_dataset(table, path, data_storage_version="2.2")
    dataset = lance_core.dataset(path)
    assert dataset.update({"id": "id + 10"}, "id <> 2") == {"num_rows_updated": 4}
    source = pa.table({"id": [13, 7], "blob": lance.blob_array([b"new", b"more"])})
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute(source)["num_inserted_rows"] == 1
    ids = pa.table({"id": [14]})
    assert dataset.merge_insert("id").when_matched_update_all().execute(ids)["num_updated_rows"] == 1
    dataset.validate()
    expected = {2: b"", 10: b"in", 11: None, 13: b"new", 7: b"more", 14: values[4]}
    order = dataset.to_table(columns=["id"])["id"].to_pylist()
    assert sorted(order) == sorted(expected)
    for opened in (dataset, lance.dataset(path)):
        found = opened.to_table(columns=["blob"], blob_handling="all_binary")["blob"].to_pylist()
        assert found == [expected[number] for number in order]


def test_blobs_outside_the_dataset_are_not_copied_into_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"far")
    blobs = lance.blob_array([b"in", lance.Blob.from_uri(outside.as_uri())])
    path = tmp_path / "d"
    lance.write_dataset(
        pa.table({"id": [1, 2], "blob": blobs}), str(path), allow_external_blob_outside_bases=True
    )
    before = files(path)
    dataset = lance_core.dataset(path)
    with pytest.raises(UnsupportedFeatureError, match="outside the dataset"):
        dataset.update({"id": "id + 10"})
    with pytest.raises(UnsupportedFeatureError, match="outside the dataset"):
        dataset.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [2]}))
    assert files(path) == before
    assert dataset.update({"id": "id + 10"}, "id = 1") == {"num_rows_updated": 1}
    assert dataset.delete("id = 2") == {"num_deleted_rows": 1}


def test_json_columns_are_copied_as_they_are(tmp_path: Path) -> None:
    values = ['{"a": [1, 2.5, null]}', None, '"text"', "[]"]
    table = pa.table({"id": range(4), "doc": pa.array(values, pa.json_())})
    path = str(tmp_path / "d")
    lance.write_dataset(table, path)
    dataset = lance_core.dataset(path)
    shown = dict(enumerate(dataset.to_table()["doc"].to_pylist()))
    dataset.update({"id": "id + 10"}, "id <> 1")
    merged = dataset.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [12]}))
    assert merged["num_updated_rows"] == 1
    for opened in (dataset, lance.dataset(path)):
        rows = opened.to_table().to_pylist()
        assert {row["id"] % 10: row["doc"] for row in rows} == shown


def test_indices_of_the_reference_stay_right(tmp_path: Path) -> None:
    """An index that claims rows it has never seen would lose them."""
    for stable in (False, True):
        path = tmp_path / str(stable)
        lance.write_dataset(TABLE, str(path), max_rows_per_file=4, enable_stable_row_ids=stable)
        reference = lance.dataset(str(path))
        reference.create_scalar_index("id", "BTREE")
        reference.create_scalar_index("text", "BITMAP")
        dataset = lance_core.dataset(path)
        dataset.update({"id": "id + 100"}, "id IN (1, 2, 7)")
        dataset.update({"text": "'new'"}, "id IN (3, 101)")
        reference = lance.dataset(str(path))
        assert len(reference.describe_indices()) == 2
        for condition in ("id = 101", "id = 1", "id >= 100", "text = 'new'", "text = 't3'", "id < 9"):
            indexed, plain = (
                reference.to_table(filter=condition, use_scalar_index=use).to_pylist()
                for use in (True, False)
            )
            assert sorted(map(repr, indexed)) == sorted(map(repr, plain)), condition
        assert reference.count_rows("id = 101 AND text = 'new'") == 1


def test_only_the_own_file_version_is_written(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d", data_storage_version="2.1")
    assert dataset.update({"id": "id"}, "id = 1", data_storage_version="2.1") == {"num_rows_updated": 1}
    with pytest.raises(UnsupportedFeatureError, match=r"2\.2"):
        dataset.update({"id": "id"}, "id = 1", data_storage_version="2.2")
