"""Methods of fragments with the names of the reference: sessions, deletion by offset, existing files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset, LanceFragment, LanceOperation
from lance_core.errors import InvalidInputError, StorageError

LIBRARIES = {"ours": lance_core, "theirs": lance}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Two fragments of five rows; of the second one a row is deleted."""
    table = pa.table({"a": range(10), "s": [{"x": n, "y": str(n)} for n in range(10)]})
    path = str(tmp_path / "table")
    lance.write_dataset(table, path, max_rows_per_file=5).delete("a = 6")
    return path


def test_a_fragment_is_made_of_a_dataset_and_an_id(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    fragment = LanceFragment(dataset, 1)
    assert fragment.metadata == dataset.get_fragments()[1].metadata
    assert dataset.to_table(fragments=[fragment]).equals(fragment.to_table())
    for library in LIBRARIES.values():
        assert library.LanceFragment(library.dataset(uri), fragment_id=1).count_rows() == 4
    with pytest.raises(InvalidInputError, match=r"no fragment with this id.*7"):
        LanceFragment(dataset, 7)


@pytest.mark.parametrize("with_row_address", [None, False, True])
@pytest.mark.parametrize("columns", [None, ["a"], ["s.x", "a"]])
def test_a_session_takes_what_the_reference_takes(
    columns: list[str] | None, with_row_address: bool | None, uri: str
) -> None:
    taken = []
    for library in LIBRARIES.values():
        session = library.dataset(uri).get_fragment(1).open_session(columns, with_row_address)
        taken.append([session.take(indices) for indices in ([0, 1, 3], [], pa.array([2]), range(2))])
    assert taken[0] == taken[1]


def test_a_session_takes_computed_columns_with_their_addresses(uri: str) -> None:
    session = lance_core.dataset(uri).get_fragment(1).open_session({"b": "a * 2"}, with_row_address=True)
    assert session.take([1]).to_pylist() == [{"b": 14, "_rowaddr": (1 << 32) + 2}]


def test_a_session_refuses_offsets_of_no_row(uri: str) -> None:
    session = lance_core.dataset(uri).get_fragment(1).open_session(["a"])
    with pytest.raises(InvalidInputError, match="4"):
        session.take([4])  # physical rows are five, live rows four


@pytest.mark.parametrize(
    "offsets", [[0], [4, 0, 4], [1, 2], range(3), np.array([2]), pa.array([3], pa.uint32())], ids=str
)
def test_deleted_offsets_are_those_of_the_reference(offsets: Any, uri: str, tmp_path: Path) -> None:
    left = {}
    for name, library in LIBRARIES.items():
        path = shutil.copytree(uri, tmp_path / name)
        fragment = library.dataset(path).get_fragment(1).delete_rows(offsets)
        operation = library.LanceOperation.Delete([fragment], [], "offsets")
        made = library.LanceDataset.commit(path, operation, read_version=2)
        left[name] = lance.dataset(made.uri).to_table()
        assert fragment.num_deletions == 10 - len(left[name])
        lance.dataset(path).validate()
        lance_core.dataset(path).validate()
    assert left["ours"] == left["theirs"]


def test_deletion_of_the_last_live_rows_leaves_no_fragment(uri: str) -> None:
    fragment = lance_core.dataset(uri).get_fragment(1)
    assert fragment.delete_rows({0, 2, 3, 4}) is None
    assert fragment.delete_rows(iter(range(5))) is None


def test_deletion_without_offsets_writes_nothing(uri: str) -> None:
    fragment = lance_core.dataset(uri).get_fragment(1)
    before = list(Path(uri, "_deletions").iterdir())
    assert fragment.delete_rows([]) == fragment.metadata
    assert list(Path(uri, "_deletions").iterdir()) == before


@pytest.mark.parametrize(("offsets", "word"), [([5], "found 5"), ([0, 1 << 40], "below 5"), ([-1], "-1")])
def test_deletion_refuses_offsets_outside_of_the_fragment(offsets: list[int], word: str, uri: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        lance_core.dataset(uri).get_fragment(1).delete_rows(offsets)
    assert len(list(Path(uri, "_deletions").iterdir())) == 1


def test_deleted_rows_of_two_writers_are_both_gone(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    fragment = dataset.get_fragment(0).delete_rows([0])
    dataset.delete("a = 9")
    operation = LanceOperation.Delete([fragment], [], "offsets")
    made = LanceDataset.commit(uri, operation, read_version=2)
    assert made.to_table(columns=["a"])["a"].to_pylist() == [1, 2, 3, 4, 5, 7, 8]


def write_file(uri: str, rows: pa.Table, version: str = "2.2") -> None:
    with lance.file.LanceFileWriter(f"{uri}/data/new.lance", rows.schema, version=version) as writer:
        writer.write_batch(rows)


@pytest.mark.parametrize("name", LIBRARIES)
def test_fragments_of_existing_files_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    """Columns are flat: of structs the reference describes a fragment that it refuses to commit."""
    uri, rows = str(tmp_path), pa.table({"a": [20, 21], "t": ["x", None]})
    lance.write_dataset(rows, uri)
    write_file(uri, rows)
    described = []
    for library in LIBRARIES.values():
        fragment = library.LanceFragment.create_from_file("new.lance", library.dataset(uri), 5)
        described.append({**fragment.to_json(), "files": [file.fields for file in fragment.files]})
    assert described[0] == described[1]
    library = LIBRARIES[name]
    fragment = library.LanceFragment.create_from_file("new.lance", library.dataset(uri), 5)
    library.LanceDataset.commit(uri, library.LanceOperation.Append([fragment]), read_version=1)
    for reader in LIBRARIES.values():
        assert reader.dataset(uri).get_fragments()[1].to_table() == rows
    lance_core.dataset(uri).validate()


def test_a_file_may_lack_columns_and_have_another_order(uri: str) -> None:
    """The reference refuses to describe such a file, but reads it."""
    dataset = lance_core.dataset(uri)
    dataset.add_columns(pa.field("n", pa.int8()))
    rows = pa.table({"s": [{"x": n, "y": str(n)} for n in (20, 21)], "a": [20, 21]})
    write_file(uri, rows)
    fragment = LanceFragment.create_from_file("new.lance", dataset, 5)
    LanceDataset.commit(uri, LanceOperation.Append([fragment]), read_version=dataset.version)
    expected = rows.select(["a", "s"]).append_column("n", pa.nulls(2, pa.int8()))
    for reader in LIBRARIES.values():
        assert reader.dataset(uri).get_fragment(2).to_table() == expected


def test_a_file_must_have_the_columns_that_allow_no_null(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    dataset.alter_columns({"path": "a", "nullable": False})
    write_file(uri, pa.table({"s": [{"x": 1, "y": "1"}]}))
    with pytest.raises(InvalidInputError, match=r"allows no null.*column a"):
        LanceFragment.create_from_file("new.lance", dataset, 0)


@pytest.mark.parametrize(
    ("rows", "version", "message"),
    [
        (pa.table({"a": [1]}), "2.0", "another version.*2.2.*2.0"),
        (pa.table({"a": ["text"]}), "2.2", "another type"),
        (pa.table({"z": [1]}), "2.2", "lacks a column.*z"),
        (pa.table({"a": pa.array([], pa.int64())}), "2.2", "needs rows"),
    ],
    ids=["version", "type", "column", "rows"],
)
def test_files_that_are_no_fragment_of_the_table(
    rows: pa.Table, version: str, message: str, uri: str
) -> None:
    write_file(uri, rows, version)
    with pytest.raises(InvalidInputError, match=message):
        LanceFragment.create_from_file("new.lance", lance_core.dataset(uri), 0)
    with pytest.raises(StorageError, match=r"none\.lance"):
        LanceFragment.create_from_file("none.lance", lance_core.dataset(uri), 0)


def test_a_fragment_needs_columns(uri: str) -> None:
    for rows in (pa.table({}), [{}]):
        with pytest.raises(InvalidInputError, match="a fragment needs columns"):
            LanceFragment.create(uri, rows)
