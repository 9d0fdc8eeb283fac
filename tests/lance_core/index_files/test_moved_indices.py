"""Indices that the reference built follow the rows of a compaction; the reference asks them."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.dataset import LanceDataset
from support.indexed import (
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


@pytest.mark.parametrize("deleted", PREDICATES)
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", VECTOR_KINDS)
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
