"""Base paths: shallow clones and tables whose files are in several places."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import UnsupportedFeatureError
from lance_core.storage import LocalStorage, Storage
from lance_core.table.bases import DatasetBasePath
from lance_core.table.snapshot import open_snapshot
from support.oracles.comparison import assert_tables_equal


@pytest.fixture
def source(tmp_path: Path, table: pa.Table) -> lance.LanceDataset:
    dataset = lance.write_dataset(table, str(tmp_path / "source"), max_rows_per_file=4)
    dataset.delete("number = 1")
    return lance.dataset(dataset.uri)


def assert_reads_like_the_reference(path: Path) -> None:
    theirs = lance.dataset(str(path))
    ours = lance_core.dataset(str(path))
    assert_tables_equal(theirs.to_table(with_row_id=True), ours.to_table(with_row_id=True))
    found = {base.id: (base.name, base.path, base.is_dataset_root) for base in ours.base_paths().values()}
    assert found == {
        base.id: (base.name, base.path, base.is_dataset_root) for base in theirs.base_paths().values()
    }


def test_clones_read_the_files_of_their_source(tmp_path: Path, source: lance.LanceDataset) -> None:
    """A clone reads data and deletion files of its source, and the files that the clone itself wrote."""
    clone = source.shallow_clone(str(tmp_path / "clone"), 2)
    assert_reads_like_the_reference(tmp_path / "clone")
    clone.delete("number = 2 OR number = 6")
    lance.write_dataset(clone.to_table().slice(0, 3), clone.uri, mode="append")
    assert_reads_like_the_reference(tmp_path / "clone")
    lance.dataset(clone.uri).shallow_clone(str(tmp_path / "second"), 4)
    assert_reads_like_the_reference(tmp_path / "second")
    assert sorted(lance_core.dataset(str(tmp_path / "second")).base_paths()) == [0, 1]


def test_a_base_may_be_a_plain_directory(tmp_path: Path, table: pa.Table) -> None:
    """Files lie directly in a base that is no dataset root."""
    (tmp_path / "plain").mkdir()
    bases = [
        lance.DatasetBasePath(str(tmp_path / "plain"), name="plain", is_dataset_root=False),
        lance.DatasetBasePath(str(tmp_path / "rooted"), name="rooted", is_dataset_root=True),
    ]
    lance.write_dataset(
        table,
        str(tmp_path / "t"),
        initial_bases=bases,
        target_bases=["plain", "rooted"],
        max_rows_per_file=3,
    )
    assert len(list((tmp_path / "plain").glob("*.lance"))) == 2
    assert_reads_like_the_reference(tmp_path / "t")


def test_a_relative_base_is_below_the_working_directory(
    tmp_path: Path, source: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by giving the reference a relative path."""
    monkeypatch.chdir(tmp_path)
    lance.dataset("source").shallow_clone("clone", 2)
    assert_reads_like_the_reference(Path("clone"))
    assert lance_core.dataset("clone").base_paths()[0].path == "source"


def test_opening_may_be_forbidden(tmp_path: Path, source: lance.LanceDataset) -> None:
    """T11: the caller that opens a table decides which base paths are followed; nothing is read before
    that.
    """

    def refuse(base: DatasetBasePath, table: Storage) -> Storage:
        assert base.path == source.uri
        raise UnsupportedFeatureError(f"{base} is not allowed")

    source.shallow_clone(str(tmp_path / "clone"), 2)
    with pytest.raises(UnsupportedFeatureError, match="base path 0"):
        open_snapshot(LocalStorage(str(tmp_path / "clone")), open_base=refuse)
