"""Tables whose data files are written to several base paths, compared with those of the reference."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lance.file
import lance.fragment
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import DatasetBasePath, LanceOperation
from lance_core.errors import CommitConflictError, InvalidInputError, StorageError
from support.oracles.comparison import assert_tables_equal


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, stop)), "text": [f"row {i}" for i in range(start, stop)]})


def two_bases(path: Path) -> list[DatasetBasePath]:
    """A plain directory and the root of a dataset; neither exists yet."""
    return [
        DatasetBasePath(str(path / "plain"), "plain"),
        DatasetBasePath(str(path / "rooted"), "rooted", is_dataset_root=True),
    ]


def create(path: Path, **arguments: Any) -> lance_core.LanceDataset:
    arguments.setdefault("target_bases", ["plain", "rooted"])
    return lance_core.write_dataset(
        rows(0, 30), path / "t", initial_bases=two_bases(path), max_rows_per_file=10, **arguments
    )


def bases_of(dataset: Any) -> list[list[int | None]]:
    """Return the base ids of the data files of each fragment."""
    return [[file.base_id for file in fragment.data_files()] for fragment in dataset.get_fragments()]


def files_below(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.suffix in (".lance", ".blob")}


def described(dataset: Any) -> set[tuple[int, str | None, str, bool]]:
    return {(base.id, base.name, base.path, base.is_dataset_root) for base in dataset.base_paths().values()}


def assert_same(dataset: lance_core.LanceDataset) -> None:
    """Compare rows, base paths and base ids of the opened version with what the reference reads."""
    theirs = lance.dataset(dataset.uri, dataset.version)
    reopened = lance_core.dataset(dataset.uri, dataset.version)
    for ours in (dataset, reopened):
        assert_tables_equal(theirs.to_table(with_row_id=True), ours.to_table(with_row_id=True))
        assert described(ours) == described(theirs)
        assert bases_of(ours) == bases_of(theirs)


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_files_go_to_the_targets_in_turn(tmp_path: Path, version: str) -> None:
    dataset = create(tmp_path, data_storage_version=version)
    assert bases_of(dataset) == [[1], [2], [1]]
    assert len(list((tmp_path / "plain").glob("*.lance"))) == 2
    assert len(list((tmp_path / "rooted" / "data").glob("*.lance"))) == 1
    assert not (tmp_path / "t" / "data").exists()
    assert_tables_equal(rows(0, 30), dataset.to_table())
    assert_same(dataset)
    dataset.validate()
    both = lance.write_dataset(
        rows(30, 40), dataset.uri, mode="append", target_bases=["rooted"], data_storage_version=version
    )
    assert bases_of(both)[-1] == [2]
    assert_same(lance_core.dataset(dataset.uri))


def test_bases_may_be_given_by_position() -> None:
    """The arguments have the order of the reference, whose base paths have number 0 before they are added."""
    ours, theirs = (each("/a", "name", True) for each in (DatasetBasePath, lance.DatasetBasePath))
    for name in ("path", "name", "is_dataset_root", "id"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert DatasetBasePath("/a", id=None).id == 0
    assert DatasetBasePath(path="/a", id=7) == DatasetBasePath("/a", None, False, 7)


def test_all_bases_are_targets(tmp_path: Path) -> None:
    """With True the dataset itself comes first; the bases follow by id."""
    dataset = create(tmp_path, target_bases=None, target_all_bases=True)
    assert bases_of(dataset) == [[None], [1], [2]]
    dataset = lance_core.write_dataset(
        rows(30, 60), dataset, mode="append", max_rows_per_file=10, target_all_bases=False
    )
    assert bases_of(dataset)[3:] == [[1], [2], [1]]
    assert_same(dataset)
    alone = lance_core.write_dataset(rows(0, 1), tmp_path / "alone", target_all_bases=True)
    assert bases_of(alone) == [[None]]


def test_the_dataset_itself_may_be_a_target(tmp_path: Path) -> None:
    """Two texts name the dataset: the URI that the caller gave, and its absolute path. Paths name bases."""
    dataset = create(tmp_path, target_bases=[str(tmp_path / "t"), str(tmp_path / "rooted")])
    assert bases_of(dataset) == [[None], [2], [None]]
    assert_same(dataset)
    dataset = lance_core.write_dataset(
        rows(30, 31), f"file://{tmp_path}/t", mode="append", target_bases=[f"file://{tmp_path}/t"]
    )
    assert bases_of(dataset)[-1] == [None]


def test_without_targets_files_stay_in_the_dataset(tmp_path: Path) -> None:
    """Overwrites and appends keep the base paths of the table."""
    dataset = create(tmp_path)
    known = described(dataset)
    dataset = lance_core.write_dataset(rows(5, 9), dataset, mode="overwrite", target_bases=[])
    assert bases_of(dataset) == [[None]]
    dataset = lance_core.write_dataset(rows(9, 12), dataset, mode="append")
    assert bases_of(dataset) == [[None], [None]]
    dataset = lance_core.write_dataset(rows(0, 3), dataset, mode="overwrite", target_bases=["plain"])
    assert bases_of(dataset) == [[1]]
    assert described(dataset) == known
    assert_same(dataset)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_that_creates_the_dataset_may_give_it_bases(tmp_path: Path, mode: Any) -> None:
    dataset = create(tmp_path, mode=mode)
    assert bases_of(dataset) == [[1], [2], [1]]
    assert_same(dataset)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_bases": ["plain", "other"]}, "base 'other' .* not found in available bases .*plain"),
        ({"target_bases": ["plain"], "target_all_bases": True}, "target_all_bases"),
        ({"initial_bases": [DatasetBasePath("/x", "x")]}, "Cannot register new bases in Append mode"),
    ],
)
def test_wrong_targets_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    dataset = create(tmp_path)
    before = files_below(tmp_path)
    for write in (lance_core.write_dataset, lance_core.write_fragments):
        with pytest.raises(InvalidInputError, match=message):
            write(rows(0, 3), dataset, mode="append", **arguments)
    assert files_below(tmp_path) == before
    assert lance_core.dataset(dataset.uri).version == 1
    theirs = {
        name: [lance.DatasetBasePath(base.path, base.name) for base in value] if "initial" in name else value
        for name, value in arguments.items()
    }
    with pytest.raises((ValueError, OSError)):
        lance.write_dataset(rows(0, 3), dataset.uri, mode="append", **theirs)


@pytest.mark.parametrize(
    ("bases", "message"),
    [
        ([DatasetBasePath("/a", "x"), DatasetBasePath("/b", "x")], "already exists"),
        ([DatasetBasePath("/a", "x"), DatasetBasePath("/a", "y")], "already exists"),
        ([DatasetBasePath("/a", id=4), DatasetBasePath("/b", id=4)], "already exists"),
        ([DatasetBasePath("a", "x")], "absolute"),
    ],
)
def test_bases_that_cannot_be_told_apart_are_refused(
    tmp_path: Path, bases: list[DatasetBasePath], message: str
) -> None:
    """The reference accepts two bases with one name, and then writes to either of them."""
    with pytest.raises(InvalidInputError, match=message):
        lance_core.write_dataset(rows(0, 1), tmp_path / "t", initial_bases=bases)
    schema = lance_core.write_dataset(rows(0, 1), tmp_path / "other").lance_schema
    with pytest.raises(InvalidInputError, match=message):
        lance_core.LanceDataset.commit(tmp_path / "t", LanceOperation.Overwrite(schema, [], bases))
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("*.manifest"))
    dataset = lance_core.dataset(tmp_path / "other")
    with pytest.raises(InvalidInputError, match=message):
        dataset.add_bases(bases)
    assert lance_core.dataset(tmp_path / "other").version == 1


def test_bases_are_added_later(tmp_path: Path) -> None:
    """The dataset moves to the new version, with the transaction's properties, as in the reference."""
    dataset = create(tmp_path)
    bases = [DatasetBasePath(str(tmp_path / "third"), "third"), DatasetBasePath(str(tmp_path / "x"), id=9)]
    assert dataset.add_bases(bases, {"who": "me"}) is dataset
    assert dataset.version == 2
    assert {1, 2, 3, 9} == set(dataset.base_paths())
    assert dataset.read_transaction(2).transaction_properties == {"who": "me"}
    assert dataset.add_bases([]).version == 3
    dataset = lance_core.write_dataset(rows(30, 31), dataset, mode="append", target_bases=["third"])
    assert bases_of(dataset)[-1] == [3]
    assert_same(dataset)
    with pytest.raises(TypeError, match="new_bases"):
        dataset.add_bases(["third"])  # type: ignore[list-item]


def test_the_number_of_an_existing_base_is_not_given_again(tmp_path: Path) -> None:
    """The reference replaces the base path, and the rows in it are lost."""
    dataset = create(tmp_path)
    with pytest.raises(InvalidInputError, match="already exists"):
        dataset.add_bases([DatasetBasePath(str(tmp_path / "third"), "third", id=1)])
    assert_same(lance_core.dataset(dataset.uri))


def test_bases_are_added_beside_other_commits(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    stale = lance_core.dataset(dataset.uri)
    dataset.add_bases([DatasetBasePath(str(tmp_path / "third"), "third")])
    stale.add_bases([DatasetBasePath(str(tmp_path / "fourth"), "fourth")])
    assert {base.name: base.id for base in stale.base_paths().values()}["fourth"] == 4
    late = lance_core.dataset(dataset.uri, 1)
    with pytest.raises((CommitConflictError, InvalidInputError)):
        late.add_bases([DatasetBasePath(str(tmp_path / "third"))])


def test_fragments_are_written_to_bases(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    fragments = lance_core.write_fragments(
        rows(30, 50), dataset, mode="append", target_bases=["rooted"], max_rows_per_file=10
    )
    assert [file.base_id for each in fragments for file in each.files] == [2, 2]
    dataset = lance_core.LanceDataset.commit(dataset, LanceOperation.Append(fragments), dataset.version)
    assert_tables_equal(rows(0, 50), dataset.to_table())
    assert_same(dataset)
    transaction = lance_core.write_fragments(
        rows(0, 5), dataset, mode="overwrite", target_bases=["plain"], return_transaction=True
    )
    dataset = lance_core.LanceDataset.commit(dataset.uri, transaction)
    assert bases_of(dataset) == [[1]]
    assert_same(dataset)


def test_a_transaction_gives_a_new_dataset_its_bases(tmp_path: Path) -> None:
    transaction = lance_core.write_fragments(
        rows(0, 5),
        tmp_path / "t",
        mode="create",
        initial_bases=two_bases(tmp_path),
        target_bases=["rooted"],
        return_transaction=True,
    )
    assert [base.id for base in transaction.operation.initial_bases] == [1, 2]
    dataset = lance_core.LanceDataset.commit(tmp_path / "t", transaction)
    assert bases_of(dataset) == [[2]]
    assert_same(dataset)


class Observer(lance_core.FragmentWriteProgress):
    """Notes the base ids of the files that it is told about."""

    def __init__(self) -> None:
        self.seen: list[int | None] = []

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        self.seen += [file.base_id for file in fragment.files]

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        self.seen += [file.base_id for file in fragment.files]


def test_progress_tells_the_base_of_a_file(tmp_path: Path) -> None:
    observer = Observer()
    create(tmp_path, progress=observer)
    assert observer.seen == [1, 1, 2, 2, 1, 1]


def test_large_blobs_are_written_beside_their_data_file(tmp_path: Path) -> None:
    """Blob files and their data file are in the same base."""
    values = [np.random.default_rng(n).bytes(size) for n, size in enumerate((10, 100_000, 5 << 20))]
    table = pa.table([lance.blob_array(values)], schema=pa.schema([lance.blob_field("b")]))
    dataset = lance_core.write_dataset(
        table, tmp_path / "t", initial_bases=two_bases(tmp_path), target_bases=["plain"]
    )
    assert len(list((tmp_path / "plain").rglob("*.blob"))) == 2
    assert not (tmp_path / "t" / "data").exists()
    for opened in (dataset, lance.dataset(dataset.uri)):
        assert [blob.read() for blob in opened.take_blobs("b", indices=[0, 1, 2])] == values


def failing(batches: int) -> Iterator[pa.RecordBatch]:
    for number in range(batches):
        yield rows(number * 10, number * 10 + 10).to_batches()[0]
    raise ValueError("no more rows")


def test_a_failed_write_leaves_no_files_in_bases(tmp_path: Path) -> None:
    """T40: files of a write that ends with an error are removed, in every base."""
    dataset = create(tmp_path)
    before = files_below(tmp_path)
    with pytest.raises(ValueError, match="no more rows"):
        lance_core.write_dataset(
            failing(4),
            dataset,
            rows(0, 1).schema,
            "append",
            target_all_bases=True,
            max_rows_per_file=10,
        )
    assert files_below(tmp_path) == before
    (tmp_path / "file").write_text("in the way")
    dataset.add_bases([DatasetBasePath(str(tmp_path / "file"), "file")])
    with pytest.raises(StorageError):
        lance_core.write_dataset(
            rows(0, 20), dataset, mode="append", target_bases=["plain", "file"], max_rows_per_file=10
        )
    assert files_below(tmp_path) == before


def merge(dataset: Any) -> Any:
    builder = dataset.merge_insert("id")
    return builder.when_matched_update_all().when_not_matched_insert_all()


def test_merges_write_new_rows_to_targets(tmp_path: Path) -> None:
    dataset = create(tmp_path)
    source = rows(25, 35)
    assert merge(dataset).target_bases(["rooted"]).execute(source)["num_inserted_rows"] == 5
    assert bases_of(dataset)[-1] == [2]
    merge(dataset).execute(rows(40, 41))
    assert bases_of(dataset)[-1] == [None]
    merge(dataset).target_bases([dataset.uri, "plain"]).execute(rows(41, 42))
    assert bases_of(dataset)[-1] == [None]
    merge(dataset).target_all_bases().execute(rows(42, 43))
    assert bases_of(dataset)[-1] == [None]
    merge(dataset).target_all_bases(include_primary=False).execute(rows(43, 44))
    assert bases_of(dataset)[-1] == [1]
    transaction, _ = merge(dataset).target_bases(["plain"]).execute_uncommitted(rows(44, 45))
    dataset = lance_core.LanceDataset.commit(dataset, transaction)
    assert bases_of(dataset)[-1] == [1]
    assert_same(dataset)
    before = files_below(tmp_path)
    with pytest.raises(InvalidInputError, match="not found in available bases"):
        merge(dataset).target_bases(["other"]).execute(source)
    assert files_below(tmp_path) == before


def test_changes_of_rows_in_bases_are_like_those_of_the_reference(tmp_path: Path) -> None:
    """New files go to the dataset itself; files in bases stay as they are."""
    results = []
    for module, name in ((lance_core, "ours"), (lance, "theirs")):
        path = tmp_path / name
        create(path)
        dataset: Any = module.dataset(str(path / "t"))
        in_bases = files_below(path)
        dataset.add_columns({"twice": "id * 2"})
        dataset.delete("id in (1, 2)")
        dataset.update({"text": "'x'"}, where="id = 15")
        between = bases_of(dataset)
        dataset.optimize.compact_files()
        removed = dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        assert in_bases <= files_below(path)
        dataset.validate()
        results.append((between, bases_of(dataset), removed.data_files_removed, described_names(dataset)))
        rows_now = dataset.to_table().sort_by("id")
        assert_tables_equal(lance.dataset(dataset.uri).to_table().sort_by("id"), rows_now)
        assert rows_now.num_rows == 28
    assert results[0] == results[1]
    assert_same(lance_core.dataset(tmp_path / "ours" / "t"))


def described_names(dataset: Any) -> set[str | None]:
    return {base.name for base in dataset.base_paths().values()}


def test_a_cleanup_keeps_a_base_below_the_dataset(tmp_path: Path) -> None:
    """A base path may be the directory of data files itself."""
    base = DatasetBasePath(str(tmp_path / "t" / "data"), "own")
    dataset = lance_core.write_dataset(rows(0, 5), tmp_path / "t", initial_bases=[base], target_bases=["own"])
    dataset.delete("id = 1")
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(files_below(tmp_path)) == 1
    assert dataset.to_table().num_rows == 4
    assert_same(dataset)


def bare_file(directory: Path, values: list[int]) -> str:
    """Write a file with the column `b` with the reference; return its name."""
    name = f"{directory.parent.name}-{values[0]}.lance"
    directory.mkdir(parents=True, exist_ok=True)
    with lance.file.LanceFileWriter(str(directory / name)) as writer:
        writer.write_batch(pa.table({"b": pa.array(values, pa.int32())}))
    return name


def test_columns_in_bases_are_replaced(tmp_path: Path) -> None:
    """A new file keeps its base id, whether it replaces a file or adds an empty column."""
    dataset = lance_core.write_dataset(
        pa.table({"a": range(16)}),
        tmp_path / "t",
        initial_bases=two_bases(tmp_path),
        target_bases=[str(tmp_path / "t"), "rooted"],
        max_rows_per_file=8,
    )
    dataset.add_columns(pa.field("b", pa.int32()))
    for values in ([10 * n for n in range(16)], list(range(1, 17))):
        names = [
            (bare_file(tmp_path / "t" / "data", values[:8]), None),
            (bare_file(tmp_path / "rooted" / "data", values[8:]), 2),
        ]
        replacements = [
            LanceOperation.DataReplacementGroup(
                number,
                lance_core.DataFile(
                    path=name,
                    fields=[1],
                    column_indices=[0],
                    file_major_version=2,
                    file_minor_version=2,
                    base_id=base_id,
                ),
            )
            for number, (name, base_id) in enumerate(names)
        ]
        operation = LanceOperation.DataReplacement(replacements)
        dataset = lance_core.LanceDataset.commit(dataset, operation, dataset.version)
        assert dataset.to_table()["b"].to_pylist() == values
        assert bases_of(dataset) == [[None, None], [2, 2]]
        assert_same(dataset)


def test_blobs_may_be_below_a_base_of_a_new_dataset(tmp_path: Path) -> None:
    """The base path that the write itself adds gives the file its number."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.bin").write_bytes(b"abc")
    table = pa.table(
        [lance.blob_array([f"file://{tmp_path}/plain/a.bin"])], schema=pa.schema([lance.blob_field("b")])
    )
    dataset = lance_core.write_dataset(table, tmp_path / "t", initial_bases=two_bases(tmp_path))
    for opened in (dataset, lance.dataset(dataset.uri)):
        assert [blob.read() for blob in opened.take_blobs("b", indices=[0])] == [b"abc"]
