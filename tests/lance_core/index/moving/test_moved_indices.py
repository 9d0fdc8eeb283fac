"""Indices that the reference built follow the rows of a compaction; the reference asks them."""

from __future__ import annotations

import shutil
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.api.optimize import CompactionMetrics
from support.searches.indexed import (
    FILTERS,
    FORGETFUL,
    VECTOR_KINDS,
    build_scalar_indices,
    build_vector_index,
    check_filters,
    check_text,
    check_vectors,
    indexed_rows,
    nearest,
    statistics,
)

FRAGMENT_ROWS = 150
DELETED = "id % 7 = 0 OR id BETWEEN 140 AND 190 OR id BETWEEN 700 AND 760"
PREDICATES = {"none": None, "some": DELETED, "a fragment": "id BETWEEN 150 AND 299"}


def _written(path: Path, *, stable_row_ids: bool, version: str = "2.2") -> lance.LanceDataset:
    return lance.write_dataset(
        indexed_rows(0, 900),
        str(path),
        max_rows_per_file=FRAGMENT_ROWS,
        enable_stable_row_ids=stable_row_ids,
        data_storage_version=version,
    )


def _names(path: Path) -> set[str]:
    return {each.name for each in (path / "_indices").iterdir()}


def _compacted(
    tmp_path: Path, **options: object
) -> tuple[lance.LanceDataset, lance.LanceDataset, LanceDataset]:
    """Return the table as we compact it and as the reference does, and ours as we read it."""
    theirs = tmp_path.with_name(f"{tmp_path.name}_reference")
    shutil.copytree(tmp_path, theirs)
    mine = lance_core.dataset(tmp_path)
    metrics = mine.optimize.compact_files(**options)
    reference = lance.dataset(str(theirs))
    expected = reference.optimize.compact_files(**options)
    assert (metrics.fragments_removed, metrics.fragments_added) == (
        expected.fragments_removed,
        expected.fragments_added,
    )
    lost = {each.index for each in metrics.lost_coverage}
    columns = {index.field_names[0] for index in mine.describe_indices() if index.name in lost}
    assert columns == FORGETFUL & {index.field_names[0] for index in mine.describe_indices()}
    mine.validate()
    return lance.dataset(str(tmp_path)), lance.dataset(str(theirs)), mine


def _same_statistics(mine: lance.LanceDataset, theirs: lance.LanceDataset) -> None:
    for index in theirs.describe_indices():
        assert statistics(Path(mine.uri), index.name) == statistics(Path(theirs.uri), index.name), index.name


@pytest.mark.parametrize("deleted", PREDICATES)
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable"])
def test_scalar_indices_follow_the_rows(stable_row_ids: bool, deleted: str, tmp_path: Path) -> None:
    dataset = _written(tmp_path / "t", stable_row_ids=stable_row_ids)
    build_scalar_indices(dataset)
    if PREDICATES[deleted]:
        dataset.delete(PREDICATES[deleted])
    mine, theirs, _ = _compacted(tmp_path / "t", target_rows_per_fragment=400)
    _same_statistics(mine, theirs)
    check_filters(mine)
    check_text(mine)
    for column in FILTERS.keys() - FORGETFUL:
        plans = [each.scanner(filter=FILTERS[column][0]).explain_plan() for each in (mine, theirs)]
        assert ["ScalarIndexQuery" in plan for plan in plans] == [True, True], column
        assert ["LanceRead" in plan for plan in plans] in ([True, True], [False, False]), column


@pytest.mark.parametrize("kind", VECTOR_KINDS)
@pytest.mark.parametrize(
    ("stable_row_ids", "deleted"),
    [
        (False, "some"),
        pytest.param(False, "none", marks=pytest.mark.long),
        pytest.param(False, "a fragment", marks=pytest.mark.long),
        pytest.param(True, "some", marks=pytest.mark.long),
    ],
)
def test_vector_indices_follow_the_rows(
    kind: str, stable_row_ids: bool, deleted: str, tmp_path: Path
) -> None:
    dataset = _written(tmp_path / "t", stable_row_ids=stable_row_ids)
    build_vector_index(dataset, kind)
    if PREDICATES[deleted]:
        dataset.delete(PREDICATES[deleted])
    mine, theirs, _ = _compacted(tmp_path / "t", target_rows_per_fragment=400)
    _same_statistics(mine, theirs)
    check_vectors(mine)
    if "HNSW" not in kind:
        for seed in range(5):
            assert nearest(mine, seed).equals(nearest(theirs, seed))
            assert nearest(mine, seed, nprobes=1).equals(nearest(theirs, seed, nprobes=1))


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_index_files_of_other_versions(kind: str, version: str, tmp_path: Path) -> None:
    """Files of vector indices have the version of the data files, and keep it."""
    dataset = _written(tmp_path / "t", stable_row_ids=False, version=version)
    build_vector_index(dataset, kind)
    build_scalar_indices(dataset, ["number"])
    dataset.delete(DELETED)
    mine, theirs, _ = _compacted(tmp_path / "t")
    _same_statistics(mine, theirs)
    check_vectors(mine)
    check_filters(mine)


def test_an_index_on_documents(tmp_path: Path) -> None:
    table = pa.table({"j": pa.array([f'{{"a": {n % 7}}}' for n in range(300)], pa.json_()), "n": range(300)})
    dataset = lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=100)
    config = IndexConfig("json", {"path": "a", "target_index_type": "btree"})
    dataset.create_scalar_index("j", config)
    dataset.delete("n % 10 = 1")
    metrics = lance_core.dataset(tmp_path / "t").optimize.compact_files()
    assert not metrics.lost_coverage
    found = lance.dataset(str(tmp_path / "t"))
    query = "json_get_int(j, 'a') = 3"
    assert "ScalarIndexQuery" in found.scanner(filter=query).explain_plan()
    rows = [n for n in range(300) if n % 7 == 3 and n % 10 != 1]
    assert found.to_table(["n"], filter=query)["n"].to_pylist() == rows


def test_the_index_files_of_a_clone(tmp_path: Path) -> None:
    """The clone gets files of its own; those that it was begun with stay as they are."""
    source = _written(tmp_path / "t", stable_row_ids=False)
    build_scalar_indices(source, ["number", "text"])
    build_vector_index(source, "IVF_PQ")
    before = _names(tmp_path / "t")
    source.shallow_clone(str(tmp_path / "clone"), source.version)
    clone = lance_core.dataset(tmp_path / "clone")
    assert not clone.optimize.compact_files().lost_coverage
    assert all(segment.base_id is None for index in clone.describe_indices() for segment in index.segments)
    assert len(_names(tmp_path / "clone")) == 3
    assert _names(tmp_path / "t") == before
    for path in ("t", "clone"):
        found = lance.dataset(str(tmp_path / path))
        check_filters(found)
        check_text(found)
        check_vectors(found)


@pytest.mark.parametrize("damage", ["missing", "cut", "bytes"])
def test_a_damaged_index_covers_less(damage: str, tmp_path: Path) -> None:
    """T22: an index that cannot be read does not stop a compaction, and the caller learns of it."""
    dataset = _written(tmp_path / "t", stable_row_ids=False)
    build_scalar_indices(dataset, ["number", "word"])
    uuid = next(
        each.segments[0].uuid
        for each in lance_core.dataset(tmp_path / "t").describe_indices()
        if each.name == "word_idx"
    )
    file = tmp_path / "t" / "_indices" / uuid / "bitmap_page_lookup.lance"
    data = file.read_bytes()
    match damage:
        case "missing":
            file.unlink()
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case "bytes":
            file.write_bytes(b"\xff" * (len(data) // 2) + data[len(data) // 2 :])
    before = _names(tmp_path / "t")
    compacted = lance_core.dataset(tmp_path / "t")
    (lost,) = compacted.optimize.compact_files().lost_coverage
    assert (lost.index, lost.index_type, lost.num_rows) == ("word_idx", "Bitmap", 900)
    assert lost.fragment_ids == tuple(fragment.fragment_id for fragment in compacted.get_fragments())
    assert "lost_coverage=(LostCoverage(index='word_idx'" in repr(CompactionMetrics(lost_coverage=(lost,)))
    assert len(_names(tmp_path / "t") - before) == 1
    found = lance.dataset(str(tmp_path / "t"))
    assert (
        found.count_rows("number = 3") == found.to_table(filter="number = 3", use_scalar_index=False).num_rows
    )


def test_a_process_that_ends_before_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T35: index files of a compaction that was never committed change nothing; a cleanup removes them."""
    dataset = _written(tmp_path / "t", stable_row_ids=False)
    build_scalar_indices(dataset, ["number"])
    before = _names(tmp_path / "t")
    commit = import_module("lance_core.changes.compaction.commit")

    def ends(*arguments: object, **options: object) -> None:
        if arguments[1].HasField("rewrite"):  # type: ignore[attr-defined]
            raise SystemExit
        return original(*arguments, **options)

    original = commit.commit_transaction
    with monkeypatch.context() as patched:
        patched.setattr(commit, "commit_transaction", ends)
        with pytest.raises(SystemExit):
            lance_core.dataset(tmp_path / "t").optimize.compact_files()
    assert len(_names(tmp_path / "t") - before) == 1
    check_filters(lance.dataset(str(tmp_path / "t")))
    cleaned = lance_core.dataset(tmp_path / "t")
    cleaned.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert _names(tmp_path / "t") == before
    check_filters(lance.dataset(str(tmp_path / "t")))


def test_a_refused_commit_leaves_no_index_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T37: another writer changes a row while index files are written; the compaction is made again."""
    dataset = _written(tmp_path / "t", stable_row_ids=False)
    build_scalar_indices(dataset, ["number"])
    before = _names(tmp_path / "t")
    commit = import_module("lance_core.changes.compaction.commit")
    original, deleted = commit.move_indices, []

    def meanwhile(*arguments: object, **options: object) -> object:
        moved = original(*arguments, **options)
        if not deleted:
            deleted.append(lance.dataset(str(tmp_path / "t")).delete("id = 5"))
        return moved

    monkeypatch.setattr(commit, "move_indices", meanwhile)
    assert not lance_core.dataset(tmp_path / "t").optimize.compact_files().lost_coverage
    assert len(_names(tmp_path / "t") - before) == 1
    found = lance.dataset(str(tmp_path / "t"))
    assert found.count_rows() == 899
    check_filters(found)
