"""Other values for columns of whole fragments: what may be replaced, beside which commits, read by both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.columns.replaced_columns import (
    ReplacedColumns,
    ReplacedColumnsWriter,
    commit_replaced_columns,
)
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from lance_core.table.transaction import new_transaction

STRUCT = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.int32()))])


def make(path: Path, version: str = "2.2", *, stable_row_ids: bool = False) -> lance.LanceDataset:
    """Three fragments of four rows, with `n` and `s` in one file and `v` in another."""
    rows = pa.table({"n": range(12), "s": pa.array([{"x": n, "l": [n]} for n in range(12)], STRUCT)})
    made = lance.write_dataset(
        rows,
        str(path),
        max_rows_per_file=4,
        data_storage_version=version,
        enable_stable_row_ids=stable_row_ids,
    )
    made.add_columns({"v": "n * 10"})
    return made


def write(path: Path, fragment_id: int, values: pa.Table) -> ReplacedColumns:
    writer = ReplacedColumnsWriter(lance_core.dataset(path).snapshot, fragment_id, values.schema)
    try:
        for batch in values.to_batches(max_chunksize=3):
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def commit(path: Path, *replaced: ReplacedColumns, read_version: int | None = None) -> int:
    dataset = lance_core.dataset(path)
    transaction = new_transaction(read_version or dataset.version)
    return commit_replaced_columns(dataset.snapshot.storage, transaction, replaced).version


def v(*numbers: int) -> pa.Table:
    return pa.table({"v": pa.array(numbers, pa.int64())})


def read(path: Path, column: str = "v") -> list[object]:
    """Return the column by `n`, the same for both libraries."""
    tables = [library.dataset(str(path)).to_table().sort_by("n") for library in (lance, lance_core)]
    assert tables[0].to_pylist() == tables[1].to_pylist()
    lance.dataset(str(path)).validate()
    return list(tables[0][column].to_pylist())


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_are_replaced(version: str, stable_row_ids: bool, tmp_path: Path) -> None:
    """Rows that are deleted have a place; the file of the other columns stays as it is."""
    make(tmp_path, version, stable_row_ids=stable_row_ids).delete("n = 1")
    replaced = [write(tmp_path, number, v(*range(100 * number, 100 * number + 4))) for number in (0, 2)]
    assert commit(tmp_path, *replaced) == 4
    assert read(tmp_path) == [0, 2, 3, 40, 50, 60, 70, 200, 201, 202, 203]
    structs = pa.array([{"x": -n, "l": [n, n]} for n in range(4)], STRUCT)
    both = write(tmp_path, 1, pa.table({"s": structs, "n": range(40, 44)}))
    assert commit(tmp_path, both) == 5
    assert read(tmp_path, "n") == [0, 2, 3, 8, 9, 10, 11, 40, 41, 42, 43]
    assert read(tmp_path, "s")[-1] == {"x": -3, "l": [3, 3]}
    assert [len(fragment.data_files()) for fragment in lance.dataset(str(tmp_path)).get_fragments()] == [
        2
    ] * 3
    if stable_row_ids:
        updated = lance.dataset(str(tmp_path)).to_table(["_row_last_updated_at_version"]).column(0)
        assert updated.to_pylist() == [4, 4, 4, 5, 5, 5, 5, 4, 4, 4, 4]


def test_columns_that_are_null_everywhere_get_files(tmp_path: Path) -> None:
    """Columns are added without values, and filled fragment by fragment."""
    make(tmp_path)
    lance_core.dataset(tmp_path).add_columns(pa.schema([("w", pa.string())]))
    assert commit(tmp_path, write(tmp_path, 1, pa.table({"w": list("abcd")}))) == 4
    assert read(tmp_path, "w") == [None] * 4 + list("abcd") + [None] * 4


def test_an_index_forgets_what_was_replaced(tmp_path: Path) -> None:
    make(tmp_path).create_scalar_index("v", "BTREE")
    commit(tmp_path, write(tmp_path, 1, v(1, 2, 3, 4)))
    dataset = lance.dataset(str(tmp_path))
    assert [dataset.count_rows(f"v = {number}") for number in (30, 40, 4, 80)] == [1, 0, 1, 1]


def test_what_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "t")
    files = sorted((tmp_path / "t" / "data").iterdir())
    n = pa.table({"n": range(4)})
    refused = [
        (9, v(1, 2, 3, 4), "no such fragment"),
        (0, pa.table({"zz": [1]}), "there is no column"),
        (0, pa.table({"v": ["a"]}), "another type"),
        (0, v(1, 2, 3), "fewer rows"),
        (0, v(1, 2, 3, 4, 5), "more rows"),
        (0, n, r"together with all others of their file.*\[n, s\]"),
        (0, pa.table({"s": pa.array([{"x": 1}] * 4), "n": range(4)}), "all of their children"),
        (0, n.append_column("v", n["n"]), "together with all others"),
    ]
    for fragment_id, values, message in refused:
        with pytest.raises(InvalidInputError, match=message):
            write(tmp_path / "t", fragment_id, values)
    assert sorted((tmp_path / "t" / "data").iterdir()) == files
    lance.dataset(str(tmp_path / "t")).drop_columns(["s"])
    with pytest.raises(InvalidInputError, match="no longer has"):
        write(tmp_path / "t", 0, n)
    one, other = (write(tmp_path / "t", 0, v(*range(4))) for _ in range(2))
    with pytest.raises(InvalidInputError, match="twice"):
        commit(tmp_path / "t", one, other)
    with pytest.raises(InvalidInputError, match="nothing"):
        commit(tmp_path / "t")
    lance.write_dataset(n, str(tmp_path / "old"), data_storage_version="0.1")
    with pytest.raises(UnsupportedFeatureError, match=r"a 0\.1 file"):
        write(tmp_path / "old", 0, n)


BESIDE: dict[str, Callable[[lance.LanceDataset], object]] = {
    "delete": lambda dataset: dataset.delete("n = 5"),
    "append": lambda dataset: dataset.insert(dataset.to_table().slice(0, 1)),
    "update elsewhere": lambda dataset: dataset.update({"v": "0"}, "n = 1"),
    "rename": lambda dataset: dataset.alter_columns({"path": "v", "name": "w"}),
    "settings": lambda dataset: dataset.update_config({"a": "b"}),
}
IN_THE_WAY: dict[str, Callable[[lance.LanceDataset], object]] = {
    "update": lambda dataset: dataset.update({"v": "0"}, "n = 5"),
    "delete all": lambda dataset: dataset.delete("n >= 4 AND n < 8"),
    "compaction": lambda dataset: dataset.optimize.compact_files(),
    "drop": lambda dataset: dataset.drop_columns(["v"]),
    "cast": lambda dataset: dataset.alter_columns({"path": "v", "data_type": pa.int32()}),
    "add columns": lambda dataset: dataset.add_columns({"more": "n"}),
    "overwrite": lambda dataset: lance.write_dataset(dataset.to_table(), dataset.uri, mode="overwrite"),
}


@pytest.mark.parametrize("other", BESIDE)
def test_beside_other_commits(other: str, tmp_path: Path) -> None:
    """T37: the change stands beside commits that move none of the rows."""
    dataset = make(tmp_path)
    replaced = write(tmp_path, 1, v(-4, -5, -6, -7))
    BESIDE[other](dataset)
    assert commit(tmp_path, replaced, read_version=2) == 4
    column = "w" if other == "rename" else "v"
    found = dict(zip(read(tmp_path, "n"), read(tmp_path, column), strict=True))
    assert all(found[n] == -n for n in (4, 6, 7))
    assert found.get(5, -5) == -5
    assert (5 in found) == (other != "delete")


@pytest.mark.parametrize("other", IN_THE_WAY)
def test_what_is_in_the_way(other: str, tmp_path: Path) -> None:
    """T37: values are not given to rows that they were not meant for; nor is it worth to try again."""
    dataset = make(tmp_path)
    replaced = write(tmp_path, 1, v(-4, -5, -6, -7))
    IN_THE_WAY[other](dataset)
    version = lance.dataset(str(tmp_path)).version
    with pytest.raises(CommitConflictError) as caught:
        commit(tmp_path, replaced, read_version=2)
    assert not caught.value.retryable
    assert lance.dataset(str(tmp_path)).version == version
