"""Tables whose compactions left index files as they were: a fragment reuse index says where rows moved."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.optimize import Compaction
from lance_core.errors import CommitConflictError, CorruptFileError, FileMissingError, InvalidInputError
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
)

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261124"))
REUSE = "__lance_frag_reuse"
WITHOUT_GRAPH = [kind for kind in VECTOR_KINDS if "HNSW" not in kind]
"""Kinds for `_check`. The reference 14.0.2 cannot search a graph after its own deferred compaction of
deleted rows.
"""
LIBRARIES = [pytest.param(library, id=library.__name__) for library in (lance, lance_core)]


def _compact_later(dataset: Any, **options: int) -> Any:
    return dataset.optimize.compact_files(
        **{"defer_index_remap": True, "target_rows_per_fragment": 300, **options}
    )


def _written(path: Path, vectors: str = "IVF_PQ") -> Path:
    """Write a table of six fragments with an index of each kind, and with deleted rows."""
    dataset = lance.write_dataset(indexed_rows(0, 600), str(path), max_rows_per_file=100)
    build_scalar_indices(dataset)
    build_vector_index(dataset, vectors, num_partitions=2)
    dataset.delete("id % 10 = 3 OR id BETWEEN 95 AND 110")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("written") / "t")


@pytest.fixture(scope="module", params=LIBRARIES)
def moved(request: pytest.FixtureRequest, written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compact by one library, twice, with deleted rows between the two compactions."""
    path = tmp_path_factory.mktemp("moved") / "t"
    shutil.copytree(written, path)
    _compact_later(request.param.dataset(str(path)), target_rows_per_fragment=250)
    lance.dataset(str(path)).delete("id % 7 = 2")
    _compact_later(request.param.dataset(str(path)), target_rows_per_fragment=900)
    return path


def _names(path: Path) -> set[str]:
    return {index.name for index in lance_core.dataset(path).describe_indices()}


def _uuids(path: Path) -> dict[str, str]:
    described = lance_core.dataset(path).describe_indices()
    return {index.name: segment.uuid for index in described for segment in index.segments}


def _check(path: Path, what: object = "") -> None:
    """Both libraries find the same rows with and without the indices, and find them alike."""
    theirs, mine = lance.dataset(str(path)), lance_core.dataset(path)
    for dataset in (theirs, mine):
        check_filters(dataset, (what, dataset))
        check_text(dataset, (what, dataset))
        check_vectors(dataset, (what, dataset))
    columns = ["id", "number", "word", "labels", "text", "other"]
    assert mine.to_table(columns) == theirs.to_table(columns), what


def _used(path: Path) -> set[str]:
    """Return the columns whose index this library uses in all parts of the table."""
    dataset = lance_core.dataset(path)
    found = set()
    for column, (query, *_) in FILTERS.items():
        plan = dataset.scanner(filter=query).explain_plan()
        fragments = len(dataset.get_fragments())
        if f"@{column}_idx" in plan and f"fragments={fragments}" in plan:
            found.add(column)
    return found


def test_indices_are_used_for_moved_rows(moved: Path) -> None:
    """T26: after two deferred compactions, indices with the first addresses answer, and answer right."""
    assert REUSE in _names(moved)
    _check(moved)
    assert _used(moved) == FILTERS.keys() - FORGETFUL
    found = lance.dataset(str(moved)).scanner(filter="number = 3").explain_plan()
    assert "ScalarIndexQuery" in found
    columns = ["id", "_score"]
    mine, theirs = (
        library.dataset(str(moved)).to_table(columns, full_text_query="alpha")
        for library in (lance_core, lance)
    )
    order = [("id", "ascending")]
    scores = [table.sort_by(order)["_score"].to_numpy() for table in (mine, theirs)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_both_libraries_describe_the_moves_alike(written: Path, tmp_path: Path) -> None:
    """The entries of both libraries cover the same fragments and translate addresses alike."""
    found = []
    for library in (lance, lance_core):
        path = tmp_path / library.__name__
        shutil.copytree(written, path)
        _compact_later(library.dataset(str(path)))
        dataset = lance_core.dataset(path)
        coverage = {index.name: index.segments[0].fragment_ids for index in dataset.describe_indices()}
        addresses = pa.array(
            [fragment << 32 | row for fragment in range(6) for row in range(100)], pa.uint64()
        )
        found.append((coverage, dataset.remap_row_addrs(addresses)))
    assert found[0] == found[1]


def test_remapped_row_addresses(moved: Path, written: Path) -> None:
    """Addresses from before two compactions lead to the same rows; deleted rows have none."""
    before = lance_core.dataset(written).to_table(["id"], with_row_address=True)
    dataset = lance_core.dataset(moved)
    after = dict(zip(*dataset.to_table(["id"], with_row_address=True).to_pydict().values(), strict=True))
    wanted = [after.get(number) for number in before["id"].to_pylist()]
    addresses = before["_rowaddr"].combine_chunks()
    assert dataset.remap_row_addrs(addresses).to_pylist() == wanted
    assert None in wanted
    assert dataset.remap_row_addrs(pa.array([None, 77 << 32], pa.uint64())).to_pylist() == [None, 77 << 32]
    assert lance_core.dataset(written).remap_row_addrs(addresses) is None
    with pytest.raises(InvalidInputError, match="uint64"):
        dataset.remap_row_addrs(pa.array([1]))


def test_optimize_indices_catches_up(moved: Path, tmp_path: Path) -> None:
    """Index files get the present addresses, and the moves are forgotten."""
    path = tmp_path / "t"
    shutil.copytree(moved, path)
    before = _uuids(path)
    dataset = lance_core.dataset(path)
    dataset.optimize.optimize_indices(index_names=["number_idx"])
    assert REUSE in _names(path)
    assert {name for name, uuid in _uuids(path).items() if uuid != before[name]} == {"number_idx"}
    _check(path)
    dataset.optimize.optimize_indices()
    assert _names(path) == before.keys() - {REUSE}
    _check(path)
    assert _used(path) == FILTERS.keys()
    version = dataset.version
    dataset.optimize.optimize_indices()
    assert dataset.version == version
    lance.dataset(str(path)).optimize.optimize_indices()
    _check(path)


def test_moves_that_an_index_needs_stay(moved: Path, tmp_path: Path) -> None:
    """An index that is newer than the first compaction needs only the second one."""
    path = tmp_path / "t"
    shutil.copytree(moved, path)
    dataset = lance_core.dataset(path)
    for name in _names(path) - {REUSE, "word_idx"}:
        dataset.drop_index(name)
    dataset.create_scalar_index("word", "BITMAP", replace=True)
    assert REUSE in _names(path)
    dataset.insert(indexed_rows(700, 50))
    _compact_later(dataset, target_rows_per_fragment=2000)
    dataset.create_scalar_index("number", "BTREE")
    for query in FILTERS["word"]:
        for library in (lance, lance_core):
            found = library.dataset(str(path))
            assert found.count_rows(query) == found.to_table(filter=query, use_scalar_index=False).num_rows
    dataset.optimize.optimize_indices(index_names=["word_idx"])
    assert _names(path) == {"word_idx", "number_idx"}


def test_changes_beside_moved_rows(moved: Path, tmp_path: Path) -> None:
    """T26: values that change after a compaction leave the indices, whose entries name old fragments."""
    path = tmp_path / "t"
    shutil.copytree(moved, path)
    for library in (lance_core, lance):
        dataset = library.dataset(str(path))
        dataset.update({"number": "number + 1"}, "id % 5 = 2")
        new = indexed_rows(20, 60, seed=7)
        dataset.merge_insert("id").when_matched_update_all().execute(new)
        _check(path)
    dataset = lance_core.dataset(path)
    rows = dataset.to_table(["id"]).append_column("number", pa.array([5] * dataset.count_rows()))
    merge = dataset.merge_insert("id").when_matched_update_all()
    merge.execute(rows.select(["id", "number"]))
    _check(path)
    assert dataset.count_rows("number = 5") == dataset.count_rows()
    dataset.optimize.compact_files(materialize_deletions_threshold=0.0)
    _check(path, "compacted at once")
    assert REUSE in _names(path)


def test_compaction_at_once_translates_first(moved: Path, tmp_path: Path) -> None:
    """A compaction that rewrites index files begins with the present addresses of rows."""
    path = tmp_path / "t"
    shutil.copytree(moved, path)
    lance_core.dataset(path).delete("id % 4 = 1")
    dataset = lance_core.dataset(path)
    covered = {index.name: index.num_rows_indexed for index in dataset.describe_indices()}
    metrics = dataset.optimize.compact_files()
    assert metrics.fragments_removed
    assert not metrics.lost_coverage
    for each in metrics.index_coverage:
        assert each.num_rows_before == each.num_rows_after == covered.pop(each.index)
    assert covered.keys() == {REUSE}
    _check(path)
    assert _used(path) == FILTERS.keys() - FORGETFUL
    lance_core.dataset(path).optimize.optimize_indices()
    assert REUSE not in _names(path)
    _check(path)


def test_large_descriptions_are_in_a_file(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both libraries read a description that is too large for the manifest; a damaged one is named."""
    path = tmp_path / "t"
    shutil.copytree(written, path)
    monkeypatch.setattr("lance_core.changes.fragment_reuse.MOST_INLINE_BYTES", 10)
    _compact_later(lance_core.dataset(path))
    (file,) = path.glob("_indices/*/details.binpb")
    _check(path)
    lance_core.dataset(path).update({"number": "1"}, "id = 4")
    lance_core.dataset(path).cleanup_old_versions(older_than=timedelta(0))
    _check(path)
    clone = lance_core.dataset(path).deep_clone(str(tmp_path / "clone"), None)
    assert clone.count_rows("number = 1") == lance_core.dataset(path).count_rows("number = 1")
    damages: list[tuple[Callable[[bytes], bytes] | None, type[Exception]]] = [
        (lambda data: data[:-5], CorruptFileError),
        (lambda data: bytes([*data[:20], 255, *data[21:]]), CorruptFileError),
        (None, FileMissingError),
    ]
    for number, (damage, error) in enumerate(damages):
        shutil.copytree(path, damaged := tmp_path / f"damaged {number}")
        copy = damaged / file.relative_to(path)
        if damage is None:
            copy.unlink()
        else:
            copy.write_bytes(damage(copy.read_bytes()))
        dataset = lance_core.dataset(damaged)
        with pytest.raises(error, match=r"details\.binpb"):
            dataset.count_rows("number = 3")
        assert dataset.to_table(filter="number = 3", use_scalar_index=False).num_rows


def test_large_descriptions_of_the_reference(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = pa.table({"n": np.random.default_rng(SEED).permutation(250_000)})
    dataset = lance.write_dataset(table, path, max_rows_per_file=1000)
    dataset.create_scalar_index("n", "BTREE")
    dataset.delete("n % 2 = 1")
    _compact_later(dataset, target_rows_per_fragment=100_000)
    assert list((tmp_path / "t").glob("_indices/*/details.binpb"))
    mine = lance_core.dataset(path)
    assert "rows=1," in mine.scanner(filter="n = 500").explain_plan()
    for query in ("n = 500", "n BETWEEN 100 AND 900", "n = 501"):
        assert mine.to_table(filter=query) == mine.to_table(filter=query, use_scalar_index=False)
    mine.optimize.optimize_indices()
    assert _names(tmp_path / "t") == {"n_idx"}
    assert lance.dataset(path).count_rows("n < 1000") == 500


def test_concurrent_compactions(written: Path, tmp_path: Path) -> None:
    """T37: results of one plan become two versions; a result for fragments that are gone is refused."""
    path = tmp_path / "t"
    shutil.copytree(written, path)
    compaction = Compaction
    options = {"defer_index_remap": True, "target_rows_per_fragment": 200}
    one, two = lance_core.dataset(path), lance_core.dataset(path)
    tasks = compaction.plan(one, options).tasks
    assert len(tasks) >= 2
    first, second = (task.execute(one) for task in tasks[:2])
    compaction.commit(one, [first], options)
    compaction.commit(two, [second], options)
    _check(path)
    assert _used(path) == FILTERS.keys() - FORGETFUL
    again = tasks[0].execute(lance_core.dataset(path, version=tasks[0].read_version))
    with pytest.raises(CommitConflictError):
        compaction.commit(lance_core.dataset(path), [again], options)
    _check(path)


def test_stable_row_ids_have_nothing_to_defer(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(
        indexed_rows(0, 60), tmp_path / "t", max_rows_per_file=20, enable_stable_row_ids=True
    )
    with pytest.raises(InvalidInputError, match="defer_index_remap"):
        _compact_later(dataset)
    for options in ({}, {"lance.compaction.defer_index_remap": "false"}):
        dataset.update_config(options)
        assert dataset.optimize.compact_files().fragments_removed in (3, 0)


STEPS: dict[str, Callable[[Any, random.Random], object]] = {
    "append": lambda dataset, chance: dataset.insert(indexed_rows(chance.randrange(10_000, 90_000), 40)),
    "delete": lambda dataset, chance: dataset.delete(f"id % 9 = {chance.randrange(9)}"),
    "update number": lambda dataset, chance: dataset.update(
        {"number": "number + 1"}, f"id % 5 = {chance.randrange(5)}"
    ),
    "update text": lambda dataset, chance: dataset.update(
        {"text": "'omega'"}, f"id % 7 = {chance.randrange(7)}"
    ),
    "compact": lambda dataset, chance: dataset.optimize.compact_files(
        target_rows_per_fragment=chance.choice([200, 5000])
    ),
    "compact later": lambda dataset, chance: _compact_later(
        dataset, target_rows_per_fragment=chance.choice([200, 400, 5000])
    ),
    "compact later ": lambda dataset, chance: _compact_later(dataset, target_rows_per_fragment=900),
    "optimize": lambda dataset, chance: dataset.optimize.optimize_indices(
        num_indices_to_merge=chance.randint(0, 2)
    ),
}


def _history(path: Path, run: int, libraries: list[ModuleType]) -> None:
    chance = random.Random(SEED + run)
    build_vector_index(lance.dataset(str(path)), chance.choice(WITHOUT_GRAPH), num_partitions=2)
    done: list[str] = []
    for _ in range(5):
        library, step = chance.choice(libraries), chance.choice(list(STEPS))
        done.append(f"{step} by {library.__name__}")
        STEPS[step](library.dataset(str(path)), chance)
        _check(path, (SEED + run, done))
    print(f"seed {SEED + run}: {done}", file=sys.stderr)


@pytest.mark.parametrize("run", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 8))])
def test_histories_with_deferred_compactions(run: int, written: Path, tmp_path: Path) -> None:
    """Indices stay right through changes of both libraries between deferred compactions."""
    path = tmp_path / "t"
    shutil.copytree(written, path)
    lance.dataset(str(path)).drop_index("vector_idx")
    _history(path, run, [lance_core, lance_core, lance])


@pytest.mark.long
@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_vector_indices_of_every_kind(kind: str, tmp_path: Path) -> None:
    path = _written(tmp_path / "t", kind)
    _compact_later(lance_core.dataset(path))
    lance_core.dataset(path).delete("id % 7 = 2")
    _compact_later(lance.dataset(str(path)), target_rows_per_fragment=900)
    check_vectors(lance_core.dataset(path))
    if kind in WITHOUT_GRAPH:
        _check(path)
        # The reference rounds the query for estimates of IVF_RQ, unless it is told to be accurate.
        options = {"approx_mode": "accurate"} if kind == "IVF_RQ" else {}
        mine, theirs = (nearest(library.dataset(str(path)), 3, **options) for library in (lance_core, lance))
        assert mine["id"] == theirs["id"]
    lance_core.dataset(path).optimize.optimize_indices()
    _check(path)
