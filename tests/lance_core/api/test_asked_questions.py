"""Scripts from questions and reports in the reference's issue tracker give the same with both libraries.

Each docstring names the issue. The scripts are our own.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from support.oracles.both_libraries import Library, same_in_both


@same_in_both
def test_append_and_overwrite_of_nothing_create(lance: Library, folder: Path) -> object:
    """Issue 568, "overwrite and append mode behavior": each mode without a dataset, and with one."""
    table = pa.table({"x": [1, 2]})
    rows = {}
    for mode in ("create", "append", "overwrite"):
        lance.write_dataset(table, folder / mode, mode=mode)
        rows[mode] = lance.dataset(folder / mode).count_rows()
    with pytest.raises(OSError, match="exists"):
        lance.write_dataset(table, folder / "create", mode="create")
    return rows, lance.write_dataset(table, folder / "append", mode="append").count_rows()


@same_in_both
def test_a_filter_holds_with_and_without_a_batch_size(lance: Library, folder: Path) -> object:
    """Issue 2699: the filter was ignored if no `batch_size` was given."""
    values = [number if number % 3 else None for number in range(3000)]
    dataset = lance.write_dataset(pa.table({"x": values}), folder / "d", max_rows_per_file=1000)
    found = []
    for size in (None, 16, 1024):
        scan = dataset.to_batches(columns=["x"], filter="x IS NOT NULL", with_row_id=True, batch_size=size)
        found.append(pa.Table.from_batches(scan))
    assert found[0] == found[1] == found[2]
    return found


@same_in_both
def test_a_filter_on_the_row_id(lance: Library, folder: Path) -> object:
    """Issue 3220: batches of a filter on `_rowid`."""
    table = pa.Table.from_pylist([{"s": "one"}, {"s": "two"}] * 100)
    dataset = lance.write_dataset(table, folder / "d")
    batches = list(dataset.to_batches(batch_size=4, with_row_id=True, filter="_rowid > 190"))
    return pa.Table.from_batches(batches), dataset.count_rows("_rowid < 7")


@same_in_both
def test_counting_a_scan(lance: Library, folder: Path) -> object:
    """Issue 3848, "why count_rows can't be called on selecting columns": the two ways that work."""
    dataset = lance.write_dataset(pa.table({"x": range(50), "y": range(50)}), folder / "d")
    scan = dataset.scanner(filter="x > 40", columns=[], with_row_id=True)
    return dataset.count_rows("x > 40"), scan.count_rows()


@same_in_both
def test_counting_nulls(lance: Library, folder: Path) -> object:
    """Issue 2040, "Count nulls is slow"."""
    words = [None if number % 7 == 0 else f"word {number}" for number in range(5000)]
    dataset = lance.write_dataset(pa.table({"word": words}), folder / "d", max_rows_per_file=1500)
    return dataset.count_rows("word IS NOT NULL"), dataset.count_rows(filter="word IS NULL")


@same_in_both
def test_a_frame_with_empty_columns_and_dates(lance: Library, folder: Path) -> object:
    """Issue 2199: a frame with text in other scripts, dates, and columns of NaN only."""
    frame = pd.DataFrame(
        {
            "date": pd.to_datetime(["2023-04-07", "2023-04-10"]),
            "market": ["深A", "沪B"],
            "fee": [0.0488, 0.05],
            "previous": [np.nan, np.nan],
            "comment": [None, None],
        }
    )
    dataset = lance.write_dataset(frame, folder / "d")
    return dataset.schema, dataset.to_table().to_pylist()[0]["market"], dataset.count_rows("comment IS NULL")


@same_in_both
def test_rows_with_fewer_columns_are_appended(lance: Library, folder: Path) -> object:
    """Ray, pull request 64474: appending some of the columns. The others are null."""
    dataset = lance.write_dataset(pa.table({"id": [1], "a": ["x"], "b": [1.5]}), folder / "d")
    dataset.insert(pa.table({"id": [2], "b": [2.5]}))
    with pytest.raises(OSError, match="unexpected"):
        dataset.insert(pa.table({"id": [3], "unknown": [1]}))
    return dataset.to_table()


@same_in_both
def test_columns_in_another_order_are_merged(lance: Library, folder: Path) -> object:
    """LanceDB, issue 2366: the source of a merge has the columns in another order."""
    target = pa.table({"id": [1, 2], "title": ["a", "b"], "content": ["c", "d"]})
    dataset = lance.write_dataset(target, folder / "d")
    source = pa.table({"content": ["new", "more"], "title": ["B", "C"], "id": [2, 3]})
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    return dataset.to_table().sort_by("id")


@same_in_both
def test_dictionaries_that_differ_are_appended(lance: Library, folder: Path) -> object:
    """Pull request 1053, "make sure we can append with dictionary columns"."""
    kind = pa.dictionary(pa.int32(), pa.string())
    first = pa.array(["on", "off", "on"]).dictionary_encode().cast(kind)
    second = pa.array(["fault", None, "off"]).dictionary_encode().cast(kind)
    dataset = lance.write_dataset(pa.table({"state": first}), folder / "d")
    dataset.insert(pa.table({"state": second}))
    back = dataset.to_table()["state"]
    return back.type, back.to_pylist(), dataset.count_rows("state = 'off'")


@same_in_both
def test_columns_are_added_later_and_rows_after_them(lance: Library, folder: Path) -> object:
    """Issue 767: rows, then a new column for them, then rows that have it; and every version stays."""
    dataset = lance.write_dataset(pa.table({"day": [1, 1], "a": [1.0, 2.0]}), folder / "d")
    dataset.insert(pa.table({"day": [2], "a": [3.0]}))
    dataset.add_columns({"b": "a * 2"})
    dataset.insert(pa.table({"day": [3], "a": [4.0], "b": [0.0]}))
    files = [len(fragment.data_files()) for fragment in dataset.get_fragments()]
    old = [dataset.checkout_version(version).to_table() for version in (1, 2, 3)]
    return dataset.to_table(), files, old


@same_in_both
def test_a_tag_survives_a_cleanup(lance: Library, folder: Path) -> object:
    """Issue 8516, "A tagged version permanently prevents cleanup": the tagged version stays readable."""
    dataset = lance.write_dataset(pa.table({"x": [1]}), folder / "d")
    dataset.tags.create("keep", 1)
    for number in range(3):
        dataset = lance.write_dataset(pa.table({"x": [number]}), folder / "d", mode="overwrite")
    arguments = {"older_than": timedelta(0), "error_if_tagged_old_versions": False}
    removed = dataset.cleanup_old_versions(**arguments)
    kept = [each["version"] for each in dataset.versions()]
    return removed.old_versions, kept, dataset.checkout_version("keep").to_table(), dataset.to_table()


@same_in_both
def test_one_intermediate_version_is_cleaned_up_by_time(lance: Library, folder: Path) -> object:
    """Issue 3563: versions with their time; a cleanup removes them from the list."""
    dataset = lance.write_dataset(pa.table({"x": [1]}), folder / "d")
    dataset.insert(pa.table({"x": [2]}))
    dataset.insert(pa.table({"x": [3]}))
    times = [each["timestamp"] for each in dataset.versions()]
    assert times == sorted(times)
    dataset.cleanup_old_versions(retain_versions=2)
    return [each["version"] for each in dataset.versions()], len(times)


@same_in_both
def test_compacting_an_old_version(lance: Library, folder: Path) -> object:
    """Issue 3625: a compaction of an opened old version makes a new version on the latest one."""
    dataset = lance.write_dataset(pa.table({"x": range(30)}), folder / "d", max_rows_per_file=10)
    old = lance.dataset(folder / "d")
    dataset.insert(pa.table({"x": [100]}))
    old.optimize.compact_files()
    latest = lance.dataset(folder / "d")
    return (
        latest.to_table().sort_by("x"),
        latest.version > 2,
        lance.dataset(folder / "d", version=2).count_rows(),
    )


@same_in_both
def test_text_types_are_not_mixed_silently(lance: Library, folder: Path) -> object:
    """Daft, issue 4598: a table with `large_string` is appended to a dataset of `string`."""
    dataset = lance.write_dataset(pa.table({"s": pa.array(["a"], pa.string())}), folder / "d")
    try:
        dataset.insert(pa.table({"s": pa.array(["b"], pa.large_string())}))
    except (OSError, ValueError):
        return "refused", lance.dataset(folder / "d").to_table()
    return "appended", lance.dataset(folder / "d").to_table()


@same_in_both
def test_one_row_twice_and_rows_backwards(lance: Library, folder: Path) -> object:
    """Pull request 848, "Random read": `take` keeps the order of the request, also of repeated rows."""
    dataset = lance.write_dataset(pa.table({"x": range(100)}), folder / "d", max_rows_per_file=30)
    dataset.delete("x = 2")
    return dataset.take([5, 1, 5, 97, 0]), dataset.take([2]), dataset.take([])
