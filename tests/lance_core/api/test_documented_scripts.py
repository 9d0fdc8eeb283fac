"""Scripts in the manner of the reference's user guide give the same with both libraries.

Each docstring names the page of the guide, and the topic there. The scripts are our own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet

from support.oracles.both_libraries import Library, module_of, same_in_both

PEOPLE = {
    "name": ["Ida", "Jon", "Kim", "Leo"],
    "age": [31, 42, 17, 58],
    "city": ["Bonn", None, "Oslo", "Rome"],
}


def people(library: Library, folder: Path) -> Library:
    return library.write_dataset(pa.table(PEOPLE), folder / "people.lance", max_rows_per_file=2)


@same_in_both
def test_a_frame_becomes_a_dataset_and_a_frame_again(lance: Library, folder: Path) -> object:
    """Getting started, "Create a Simple Dataset"."""
    frame = pd.DataFrame(PEOPLE)
    dataset = lance.write_dataset(frame, folder / "frame.lance")
    back = dataset.to_table().to_pandas()
    pd.testing.assert_frame_equal(back, frame)
    return dataset.schema, back.to_dict("list"), dataset.version


@same_in_both
def test_a_folder_of_parquet_becomes_a_dataset(lance: Library, folder: Path) -> object:
    """Getting started, "Convert Your Existing Parquet Files"."""
    for number in range(3):
        part = pa.table({"part": [number] * 4, "value": pa.array(range(4), pa.int16())})
        pyarrow.parquet.write_table(part, folder / f"{number}.parquet")
    source = pyarrow.dataset.dataset(folder, format="parquet")
    dataset = lance.write_dataset(source, folder / "out.lance")
    return dataset.to_table(), dataset.count_rows("part = 1")


@same_in_both
def test_versions_tags_and_time(lance: Library, folder: Path) -> object:
    """Versioning: append, overwrite, old versions, tags."""
    uri = folder / "v.lance"
    lance.write_dataset(pa.table({"a": [5]}), uri)
    lance.write_dataset(pa.table({"a": [10]}), uri, mode="append")
    latest = lance.write_dataset(pa.table({"a": [50, 100]}), uri, mode="overwrite")
    latest.tags.create("stable", 2)
    latest.tags.create("nightly", 3)
    return (
        [each["version"] for each in latest.versions()],
        [lance.dataset(uri, version=version).to_table() for version in (1, 2, 3, "stable", "nightly")],
        {name: tag["version"] for name, tag in latest.tags.list().items()},
        lance.dataset(uri, asof=datetime.now() + timedelta(days=1)).version,
    )


@same_in_both
def test_a_tag_moves_and_goes(lance: Library, folder: Path) -> object:
    """Tags and branches, "Tags": create, update, delete, ordered lists."""
    dataset = people(lance, folder)
    dataset.delete("age < 18")
    seen = [len(dataset.versions()), dataset.tags.list()]
    dataset.tags.create("prod", (None, 1))
    dataset.tags.create("older", 1)
    dataset.tags.update("prod", (None, 2))
    seen += [[(name, tag["version"]) for name, tag in dataset.tags.list_ordered()]]
    seen += [dataset.checkout_version("prod").count_rows(), dataset.checkout_version("older").count_rows()]
    dataset.tags.delete("older")
    return [*seen, list(dataset.tags.list())]


@same_in_both
def test_a_branch_has_rows_of_its_own(lance: Library, folder: Path) -> object:
    """Tags and branches, "Branches": create, write, check out, list, delete."""
    dataset = people(lance, folder)
    trial = dataset.create_branch("trial")
    lance.write_dataset(pa.table(PEOPLE).slice(0, 1), trial, mode="append")
    dataset.tags.create("candidate", ("trial", None))
    again = dataset.checkout_version("candidate").create_branch("again", ("trial", None))
    again.insert(pa.table(PEOPLE).slice(3))
    counts = [
        dataset.count_rows(),
        dataset.checkout_version(("trial", None)).count_rows(),
        again.count_rows(),
    ]
    listed = {name: branch["parent_branch"] for name, branch in dataset.branches.list().items()}
    dataset.tags.delete("candidate")
    dataset.branches.delete("again")
    return counts, listed, list(dataset.branches.list())


@same_in_both
def test_an_iterator_of_batches_is_written(lance: Library, folder: Path) -> object:
    """Read and write data, "Writing Lance Dataset": a generator together with a schema."""
    schema = pa.schema([("name", pa.string()), ("age", pa.int32())])

    def batches() -> Iterator[pa.RecordBatch]:
        for row in ({"name": "Ida", "age": 31}, {"name": "Jon", "age": 42}):
            yield pa.RecordBatch.from_pylist([row], schema)

    dataset = lance.write_dataset(batches(), folder / "g.lance", schema=schema, mode="overwrite")
    return dataset.schema, dataset.to_table(), dataset.count_rows()


@same_in_both
def test_rows_are_inserted(lance: Library, folder: Path) -> object:
    """Read and write data, "Adding Rows": `insert`, and `write_dataset` into an opened dataset."""
    dataset = people(lance, folder)
    dataset.insert(pa.Table.from_pylist([{"name": "Mia", "age": 8, "city": "Bern"}]))
    more = pa.Table.from_pylist([{"name": "Ned", "age": 9, "city": "Graz"}])
    dataset = lance.write_dataset(more, dataset, mode="append")
    return dataset.to_table(), dataset.version, len(dataset.get_fragments())


@same_in_both
def test_rows_are_deleted(lance: Library, folder: Path) -> object:
    """Read and write data, "Deleting rows": also seen by whoever opens the dataset anew."""
    people(lance, folder).delete("name = 'Jon' OR city IN ('Rome', 'Oslo')")
    opened = lance.dataset(folder / "people.lance")
    return opened.to_table(), [fragment.num_deletions for fragment in opened.get_fragments()]


@same_in_both
def test_rows_are_updated(lance: Library, folder: Path) -> object:
    """Read and write data, "Updating rows": by condition, of all rows, from other columns."""
    dataset = people(lance, folder)
    counts = [
        dataset.update({"city": "'Lima'"}, where="city IS NULL"),
        dataset.update({"age": "age + 2"}),
        dataset.update({"name": "upper(name)", "age": "age * 10"}, where="age > 50"),
    ]
    return counts, dataset.to_table().sort_by("name")


@same_in_both
def test_many_rows_are_updated_by_key(lance: Library, folder: Path) -> object:
    """Read and write data, "Bulk Update": a merge that only updates."""
    dataset = people(lance, folder)
    source = pa.table({"name": ["Kim", "Ida", "Zoe"], "age": [1, 2, 3], "city": ["A", "B", "C"]})
    stats = dataset.merge_insert("name").when_matched_update_all().execute(source)
    return stats["num_updated_rows"], stats["num_inserted_rows"], dataset.to_table().sort_by("name")


@same_in_both
def test_rows_are_inserted_if_their_key_is_new(lance: Library, folder: Path) -> object:
    """Read and write data, "Insert if not Exists"."""
    dataset = people(lance, folder)
    source = pa.table({"name": ["Kim", "Zoe"], "age": [1, 3], "city": ["A", "C"]})
    stats = dataset.merge_insert("name").when_not_matched_insert_all().execute(source)
    return stats["num_inserted_rows"], dataset.to_table().sort_by("name")


@same_in_both
def test_rows_are_updated_or_inserted(lance: Library, folder: Path) -> object:
    """Read and write data, "Update or Insert (Upsert)", with a condition on the pairs."""
    dataset = people(lance, folder)
    source = pa.table({"name": ["Kim", "Leo", "Zoe"], "age": [18, 20, 3], "city": ["A", "B", "C"]})
    merge = dataset.merge_insert(["name"]).when_matched_update_all("source.age > target.age")
    stats = merge.when_not_matched_insert_all().execute(source)
    return stats["num_updated_rows"], stats["num_inserted_rows"], dataset.to_table().sort_by("name")


@same_in_both
def test_a_part_of_the_rows_is_replaced(lance: Library, folder: Path) -> object:
    """Read and write data, "Replace a Portion of Data": rows that the source lacks are deleted."""
    dataset = people(lance, folder)
    source = pa.table({"name": ["Abe", "Bea"], "age": [60, 70], "city": ["X", "Y"]})
    merge = dataset.merge_insert("name").when_not_matched_insert_all()
    stats = merge.when_not_matched_by_source_delete("age >= 40").execute(source)
    return stats["num_deleted_rows"], dataset.to_table().sort_by("name")


@same_in_both
def test_columns_filter_limit_and_offset(lance: Library, folder: Path) -> object:
    """Read and write data, "Reading Lance Dataset"."""
    table = pa.table(
        {"id": range(100), "label": [number % 4 for number in range(100)], "text": ["t", None] * 50}
    )
    dataset = lance.write_dataset(table, folder / "d.lance", max_rows_per_file=30)
    return (
        dataset.to_table(columns=["id"], filter="label = 2 AND text IS NOT NULL", limit=9, offset=3),
        dataset.to_table(limit=5, offset=28),
        dataset.to_table(["text", "id"], "id >= 95"),
    )


@same_in_both
def test_batches_of_a_filter(lance: Library, folder: Path) -> object:
    """Read and write data, "Iterative Read"."""
    dataset = lance.write_dataset(pa.table({"x": range(1000), "y": range(1000)}), folder / "d.lance")
    batches = list(dataset.to_batches(columns=["y"], filter="x % 10 = 3", batch_size=64))
    return pa.Table.from_batches(batches), dataset.count_rows("x % 10 = 3")


@same_in_both
def test_conditions_of_every_kind(lance: Library, folder: Path) -> object:
    """Read and write data, "Filter push-down": operators, nested fields, keywords, dates, casts."""
    table = pa.table(
        {
            "label": [10, 20, 30, None],
            "note": [{"email": "a@x.org"}, {"email": None}, None, {"email": "b@y.net"}],
            "order": [1.5, 2.5, 3.5, 4.5],
            "born": [date(2000, 1, 1), date(2010, 6, 1), None, date(2020, 12, 31)],
            "seen": pa.array([datetime(2024, 1, day) for day in (1, 2, 3, 4)], pa.timestamp("us")),
            "is_new": [True, False, None, True],
        }
    )
    dataset = lance.write_dataset(table, folder / "d.lance")
    conditions = [
        "((label IN (10, 20)) AND (note.email IS NOT NULL)) OR NOT is_new",
        "`order` BETWEEN 2 AND 4",
        "note.email LIKE '%.org'",
        "regexp_match(note.email, '^b@')",
        "born >= date '2010-01-01'",
        "seen < timestamp '2024-01-03 00:00:00'",
        "is_new IS NOT TRUE",
        "CAST(label AS string) = '30'",
        "label IS NULL OR label + 5 > 30",
    ]
    return [dataset.to_table(["order"], condition)["order"].to_pylist() for condition in conditions]


@same_in_both
def test_random_rows_are_taken(lance: Library, folder: Path) -> object:
    """Read and write data, "Random read"."""
    table = pa.table({"image": [b"%d" % number for number in range(600)], "label": range(600)})
    dataset = lance.write_dataset(table, folder / "d.lance", max_rows_per_file=200)
    return dataset.take([1, 100, 500], columns=["image", "label"]), dataset.take([599, 0, 300], ["label"])


@same_in_both
def test_small_files_are_compacted(lance: Library, folder: Path) -> object:
    """Read and write data, "Compact data files": rows stay, fragments go."""
    dataset = lance.write_dataset(pa.table({"x": range(100)}), folder / "d.lance", max_rows_per_file=10)
    dataset.delete("x % 3 = 0")
    metrics = dataset.optimize.compact_files(target_rows_per_fragment=1024 * 1024)
    return (
        metrics.fragments_removed,
        metrics.fragments_added,
        len(dataset.get_fragments()),
        dataset.to_table(),
    )


@same_in_both
def test_old_versions_are_cleaned_up(lance: Library, folder: Path) -> object:
    """Read and write data, "Cleanup old versions"."""
    dataset = people(lance, folder)
    for _ in range(3):
        dataset.delete("age > 40")
        dataset = lance.write_dataset(pa.table(PEOPLE), dataset.uri, mode="overwrite")
    kept = dataset.cleanup_old_versions(older_than=timedelta(days=1))
    removed = dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    return kept.old_versions, removed.old_versions, len(dataset.versions()), dataset.to_table()


@same_in_both
def test_settings_of_the_automatic_cleanup(lance: Library, folder: Path) -> object:
    """Read and write data, "Automatic cleanup": settings of a new dataset, then others."""
    options = {"interval": 20, "older_than_seconds": 50}
    dataset = lance.write_dataset(pa.table(PEOPLE), folder / "d.lance", auto_cleanup_options=options)
    before = dict(dataset.config())
    dataset.update_config({"lance.auto_cleanup.interval": "5", "owner": "me"})
    dataset.delete_config_keys(["lance.auto_cleanup.older_than"])
    return before, dict(dataset.config())


@same_in_both
def test_columns_without_values_are_added(lance: Library, folder: Path) -> object:
    """Data evolution, "Schema only": a field, then a schema."""
    dataset = lance.write_dataset(pa.table({"id": [1, 2, 3]}), folder / "d.lance")
    dataset.add_columns(pa.field("embedding", pa.list_(pa.float32(), 8)))
    dataset.add_columns(pa.schema([("label", pa.string()), ("score", pa.float32())]))
    return dataset.schema, dataset.to_table(), dataset.version


@same_in_both
def test_columns_are_computed_in_sql(lance: Library, folder: Path) -> object:
    """Data evolution, "With data backfill": expressions and a constant."""
    dataset = people(lance, folder)
    dataset.add_columns({"initial": "left(name, 1)", "status": "'active'", "decade": "age / 10"})
    return dataset.schema, dataset.to_table()


@same_in_both
def test_columns_are_computed_by_a_function(lance: Library, folder: Path) -> object:
    """Data evolution, "With data backfill": a function of batches with a file of checkpoints."""
    dataset = people(lance, folder)

    @lance.batch_udf(checkpoint_file=folder / "done.sqlite")
    def initials(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pc.utf8_slice_codeunits(batch["name"], 0, 1)], ["initial"])

    dataset.add_columns(initials, read_columns=["name"])
    return dataset.to_table(), (folder / "done.sqlite").exists()


@same_in_both
def test_columns_of_another_table_are_merged(lance: Library, folder: Path) -> object:
    """Data evolution, "Using merge": rows without a partner get nulls."""
    dataset = people(lance, folder)
    dataset.merge(pa.table({"who": ["Leo", "Ida"], "club": ["north", "south"]}), "name", "who")
    return dataset.to_table()


@same_in_both
def test_columns_are_dropped_renamed_and_cast(lance: Library, folder: Path) -> object:
    """Data evolution, "Dropping columns", "Renaming columns", "Casting column data types"."""
    schema = pa.schema(
        [
            ("meta", pa.struct([("id", pa.int32()), ("name", pa.string())])),
            ("vector", pa.list_(pa.float32(), 2)),
            ("extra", pa.int64()),
        ]
    )
    rows = [{"meta": {"id": 1, "name": "Ida"}, "vector": [0.5, 1.5], "extra": 7}]
    dataset = lance.write_dataset(pa.Table.from_pylist(rows, schema), folder / "d.lance")
    dataset.drop_columns(["extra"])
    dataset.alter_columns({"path": "meta.id", "name": "key"})
    dataset.alter_columns({"path": "vector", "data_type": pa.list_(pa.float16(), 2)})
    return dataset.schema, dataset.to_table().to_pylist(), dataset.version


@same_in_both
def test_workers_write_fragments_and_one_commits(lance: Library, folder: Path) -> object:
    """Distributed write, "Write new data" and "Append data": descriptions of fragments travel as JSON."""
    write_fragments = module_of(lance, "fragment").write_fragments
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    uri = str(folder / "d.lance")

    def work(first: int) -> list[str]:
        data = {"a": range(first, first + 3), "b": [f"b{number}" for number in range(first, first + 3)]}
        written = write_fragments(pa.table(data, schema), uri, schema=schema)
        return [json.dumps(fragment.to_json()) for fragment in written]

    fragments = [lance.FragmentMetadata.from_json(text) for text in work(0) + work(3)]
    overwrite = lance.LanceOperation.Overwrite(schema, fragments)
    dataset = lance.LanceDataset.commit(uri, overwrite, read_version=0)
    more = [lance.FragmentMetadata.from_json(text) for text in work(6)]
    dataset = lance.LanceDataset.commit(uri, lance.LanceOperation.Append(more), read_version=dataset.version)
    return dataset.to_table(), [fragment.fragment_id for fragment in dataset.get_fragments()], dataset.version


@same_in_both
def test_workers_add_a_column_fragment_by_fragment(lance: Library, folder: Path) -> object:
    """Distributed write, "Add New Columns": `merge_columns` per fragment, one commit of all."""
    dataset = people(lance, folder)

    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pc.utf8_length(batch["name"])], ["length"])

    merged = [fragment.merge_columns(lengths, ["name"]) for fragment in dataset.get_fragments()]
    operation = lance.LanceOperation.Merge([fragment for fragment, _ in merged], merged[0][1])
    dataset = lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    return dataset.to_table(), dataset.schema


@same_in_both
def test_workers_update_columns_of_a_fragment(lance: Library, folder: Path) -> object:
    """Distributed write, "Update Columns": values by key, and one commit."""
    dataset = people(lance, folder)
    source = pa.table({"name": ["Jon", "Nobody"], "age": [99, 1]})
    fragment, fields = dataset.get_fragments()[0].update_columns(source, left_on="name")
    operation = lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=fields)
    dataset = lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    return fields, dataset.to_table()


@same_in_both
def test_blobs_are_read_in_every_way(lance: Library, folder: Path) -> object:
    """Blob columns, "Blob v2": values and nulls; by offset, id, address, as a column and as files."""
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob", nullable=True)])
    values = lance.blob_array([b"one" * 9, None, b"", b"four" * 9])
    table = pa.table({"id": [1, 2, 3, 4], "blob": values}, schema=schema)
    dataset = lance.write_dataset(table, folder / "d.lance", data_storage_version="2.2")
    keys = dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    with dataset.take_blobs("blob", indices=[3])[0] as file:
        parts = [file.read(4), file.tell(), file.read()]
    return (
        [list(row) for row in dataset.read_blobs("blob", indices=[0, 3])],
        [list(row) for row in dataset.read_blobs("blob", ids=keys["_rowid"].to_pylist()[:1])],
        [list(row) for row in dataset.read_blobs("blob", addresses=keys["_rowaddr"].to_pylist()[3:])],
        dataset.scanner(columns=["blob"], blob_handling="all_binary").to_table()["blob"].to_pylist(),
        parts,
    )


@same_in_both
def test_old_blobs_are_rewritten_as_new_ones(lance: Library, folder: Path) -> object:
    """Blob columns, "Rewrite to a New Blob v2 Dataset"."""
    marked = pa.field("video", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), marked])
    table = pa.table({"id": [1, 2], "video": [b"foo", b"bar"]}, schema=schema)
    old = lance.write_dataset(table, folder / "old.lance", data_storage_version="2.1")
    raw = old.scanner(columns=["id", "video"], blob_handling="all_binary").to_table()
    columns = {"id": raw["id"], "video": lance.blob_array(raw["video"].to_pylist())}
    fields = pa.schema([pa.field("id", pa.int64()), lance.blob_field("video")])
    new = lance.write_dataset(pa.table(columns, fields), folder / "new.lance", data_storage_version="2.2")
    return raw["video"].to_pylist(), [bytes(value) for _, value in new.read_blobs("video", indices=[1, 0])]
