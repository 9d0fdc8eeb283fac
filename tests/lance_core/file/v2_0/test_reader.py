"""Columns of 2.0 files as a whole: ranges over pages, sizes, threads, what is stored and what is not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError
from lance_core.file.data_file import open_data_file
from lance_core.file.v2_0 import nodes as v2_0_nodes
from lance_core.schema import nodes
from lance_core.storage.local import LocalStorage
from support.files.files_2_0 import (
    NAME,
    ColumnPages,
    Page,
    all_nulls,
    leaf,
    no_nulls,
    write_column,
    write_file,
)
from support.oracles.comparison import assert_tables_equal
from support.tables.reference import write_reference_pages


def _batches() -> list[pa.RecordBatch]:
    """Pages of different lengths in every column."""
    batches = []
    for first in (0, 500, 501, 900):
        rows = range(first, first + 300 + first // 3)
        point = [{"x": i / 2, "tags": [f"t{i}"] * (i % 3)} for i in rows]
        batches.append(
            pa.record_batch(
                {
                    "id": pa.array(rows, pa.int64()),
                    "text": pa.array([None if i % 7 == 0 else f"row {i}" for i in rows]),
                    "point": pa.array(point),
                    "lists": pa.array([None if i % 5 == 0 else [[i], None, []][: i % 4] for i in rows]),
                }
            )
        )
    return batches


def test_any_range_of_rows(tmp_path: Path) -> None:
    """T22: rows of any range, over pages, under limits, with children chosen, without the deleted."""
    batches = _batches()
    dataset = write_reference_pages(batches, tmp_path / "d", "2.0")
    expected = pa.Table.from_batches(batches)
    ours = lance_core.dataset(tmp_path / "d")
    rng = np.random.default_rng(20)
    for start, end in np.sort(rng.integers(0, expected.num_rows, (30, 2))).tolist():
        found = ours.to_table(offset=start, limit=end - start)
        assert found.to_pylist() == expected.slice(start, end - start).to_pylist()
    dataset.delete("id % 3 = 1")
    columns = ["point.tags", "lists", "point.x"]
    expected = lance.dataset(str(tmp_path / "d")).to_table(columns=columns)
    assert_tables_equal(
        expected, lance_core.dataset(tmp_path / "d").to_table(columns=columns), label="deleted"
    )


@pytest.mark.parametrize("most_items", [1 << 20, 10], ids=["one by one", "in ranges"])
def test_single_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_items: int) -> None:
    """Lists of every kind by number, beside all rows: nulls, empty ones, nulls in lists, lists of lists,
    several pages of lists and of items.
    """
    monkeypatch.setattr(v2_0_nodes, "_MOST_PICKED_ITEMS", most_items)
    batches = []
    for first in (0, 500, 501, 900):
        rows = range(first, first + 300 + first // 3)
        listed = [None if i % 5 == 0 else [[i], None, [i, i + 1], []][: i % 5] for i in rows]
        batches.append(
            pa.record_batch(
                {
                    "numbers": pa.array([None if i % 7 == 0 else [*range(i % 6)] for i in rows]),
                    "with nulls": pa.array([[None, i, None][: i % 4] for i in rows]),
                    "bools": pa.array([[True, False, None][: i % 4] for i in rows]),
                    "texts": pa.array([[f"t{i}"] * (i % 3) for i in rows]),
                    "lists": pa.array(listed, pa.large_list(pa.list_(pa.int16()))),
                    "structs": pa.array([[{"a": i}] * (i % 3) for i in rows]),
                }
            )
        )
    write_reference_pages(batches, tmp_path / "d", "2.0")
    everything = pa.Table.from_batches(batches)
    ours = lance_core.dataset(tmp_path / "d")
    rng = np.random.default_rng(7)
    for count in (1, 2, 40, 900):
        rows = rng.integers(0, everything.num_rows, count).tolist()
        assert ours.take(rows).to_pylist() == everything.take(rows).to_pylist()
    assert ours.take([0]).to_pylist() == everything.slice(0, 1).to_pylist()
    assert ours.take([*range(everything.num_rows)]).to_pylist() == everything.to_pylist()


@pytest.mark.parametrize(
    ("ends", "rows"), [([3, 2, 5], [1]), ([3, 9, 5], [1]), ([3, 9, 5], [0, 2]), ([4, 2, 5], [0, 2])]
)
def test_single_lists_whose_ends_lie(tmp_path: Path, ends: list[int], rows: list[int]) -> None:
    """T22: ends that decrease, or lie behind the last item."""
    fields = [leaf("c", "list"), leaf("item", "int32", 1, 0)]
    lists = Page(3)
    lists.of(lists.lists(ends, 5, 100))
    items = Page(5)
    items.of(items.flat(np.arange(5, dtype=np.int32)))
    write_file(tmp_path, fields, [ColumnPages([lists]), ColumnPages([items])], 3)
    with LocalStorage(str(tmp_path)).open_file(NAME) as file:
        opened = open_data_file(file)
        (top,) = opened.schema.fields
        column = opened.open_column(top, {node.id: number for number, node in enumerate(nodes(top))})
        with pytest.raises(CorruptFileError, match=r"column c.*page 0"):
            column.take(np.array(rows))


def test_many_threads_read_one_column(tmp_path: Path) -> None:
    """Readers share parsed pages and dictionaries."""
    words = pa.array([("ab", "c", None, "")[i % 4] for i in range(4_000)]).dictionary_encode()
    lance.write_dataset(pa.table({"c": words}), tmp_path / "d", data_storage_version="2.0")
    (path,) = (tmp_path / "d" / "data").iterdir()
    with LocalStorage(str(path.parent)).open_file(path.name) as file:
        opened = open_data_file(file)
        (top,) = opened.schema.fields
        column = opened.open_column(top, {top.id: 0})

        def read(start: int) -> bool:
            (array,) = column.read(start, start + 100)
            return bool(array.to_pylist() == words[start : start + 100].to_pylist())

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, list(range(0, 3_900, 37)) * 3))


def test_sizes_are_told_before_anything_is_read(tmp_path: Path) -> None:
    pages = [Page(length) for length in (10, 30)]
    for page in pages:
        page.of(no_nulls(page.flat(np.arange(page.length, dtype=np.int64))))
    file = write_column(tmp_path, "int64", *pages)
    with LocalStorage(str(file.folder)).open_file(NAME) as opened:
        reader = open_data_file(opened)
        (top,) = reader.schema.fields
        column = reader.open_column(top, {top.id: 0})
        assert (column.num_rows, tuple(column.page_rows), column.bytes_per_row) == (40, (0, 10, 40), 8.0)
        assert column.read(5, 5) == []
        assert [len(array) for array in column.read(5, 20)] == [5, 10]
        with pytest.raises(ValueError, match=r"rows \[5, 41\) of 40"):
            column.read(5, 41)


def test_more_items_than_offsets_can_address(tmp_path: Path) -> None:
    """T22: rows are read in smaller pieces, and one row that is too large is refused by name."""
    step = 1 << 30
    fields = [leaf("c", "list"), leaf("item", "null", 1, 0)]

    def file(*lengths: int) -> list[pa.Array]:
        ends = np.cumsum(lengths).tolist()
        lists = Page(len(ends))
        lists.of(lists.lists(ends, ends[-1], ends[-1] + 1))
        items = Page(ends[-1]).of(all_nulls())
        written = write_file(tmp_path, fields, [ColumnPages([lists]), ColumnPages([items])], len(ends))
        return list(written.ours()["c"].chunks)

    chunks = file(step, step - 1, step, 5)
    assert [length for chunk in chunks for length in np.diff(chunk.offsets)] == [step, step - 1, step, 5]
    assert len(chunks) > 1
    with pytest.raises(CorruptFileError, match=r"one row is larger.*column c"):
        file(5, 2 * step)


def test_fields_that_are_not_stored_read_as_null(tmp_path: Path) -> None:
    page = Page(3)
    page.of(page.flat(np.arange(3, dtype=np.int32)))
    header = Page(3)
    header.encoding.struct.SetInParent()
    fields = [
        leaf("c", "struct"),
        leaf("x", "int32", 1, 0),
        leaf("y", "string", 2, 0),
        leaf("l", "list", 3, 0),
    ]
    fields.append(leaf("item", "int8", 4, 3))
    columns = [ColumnPages([header]), ColumnPages([page])]
    file = write_file(tmp_path, fields, columns, 3)
    with LocalStorage(str(file.folder)).open_file(NAME) as opened:
        reader = open_data_file(opened)
        (top,) = reader.schema.fields
        assert [node.name for node in nodes(top)] == ["c", "x", "y", "l", "item"]
        for known in ({0: 0, 1: 1}, {1: 1}):
            (array,) = reader.open_column(top, known).read(1, 3)
            assert array.to_pylist() == [{"x": i, "y": None, "l": None} for i in (1, 2)]
        with pytest.raises(CorruptFileError, match="list items without lists"):
            reader.open_column(top, {0: 0, 4: 1})


def test_children_in_several_files(tmp_path: Path) -> None:
    """A column that was added lies in a file of its own; every version of the table reads."""
    table = pa.table({"id": range(100), "point": [{"x": i, "y": [i]} for i in range(100)]})
    dataset = lance.write_dataset(table, tmp_path / "d", data_storage_version="2.0")
    dataset.add_columns({"twice": "id * 2"})
    dataset.drop_columns(["point.x"])
    for version in (1, 2, 3):
        expected = lance.dataset(str(tmp_path / "d"), version=version).to_table()
        found = lance_core.dataset(tmp_path / "d", version=version).to_table()
        assert_tables_equal(expected, found, label=f"version {version}")
