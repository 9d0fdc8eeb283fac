"""Statistics of scans: counts that are known in advance, or that the reference counts, too."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset, ScanStatistics
from lance_core.api.dataset.scanner_builder import ScannerBuilder
from lance_core.api.indices import IndexConfig

NUM_ROWS = 60_000
ROWS_PER_FILE = 20_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    numbers = np.arange(NUM_ROWS)
    table = pa.table({"n": numbers, "other": numbers[::-1].copy(), "s": [f"w{n % 7} word" for n in numbers]})
    lance.write_dataset(table, str(tmp_path), max_rows_per_file=ROWS_PER_FILE)
    return str(tmp_path)


@pytest.fixture
def ours(path: str) -> LanceDataset:
    return lance_core.dataset(path, session=lance_core.Session())


def statistics_of(dataset: Any, run: str = "to_table", **arguments: Any) -> Any:
    """Return the statistics of one scan."""
    found: list[Any] = []
    result = getattr(dataset.scanner(scan_stats_callback=found.append, **arguments), run)()
    if run == "to_batches":
        assert not found
        list(result)
    (statistics,) = found
    return statistics


@pytest.mark.parametrize("run", ["to_table", "to_batches"])
@pytest.mark.parametrize("arguments", [{}, {"columns": ["n"]}, {"limit": 25_000}], ids=repr)
def test_rows_fragments_and_ranges_are_those_of_the_reference(
    path: str, ours: LanceDataset, run: str, arguments: dict[str, Any]
) -> None:
    mine, theirs = statistics_of(ours, run, **arguments), statistics_of(lance.dataset(path), run, **arguments)
    for name in ("fragments_scanned", "rows_scanned"):
        assert mine.all_counts[name] == theirs.all_counts[name], name
    assert mine.all_counts["output_rows"] == arguments.get("limit", NUM_ROWS)
    if run == "to_table":
        assert mine.all_counts["ranges_scanned"] == theirs.all_counts["ranges_scanned"]


@pytest.mark.parametrize("run", ["to_table", "to_batches"])
def test_reads_are_those_of_the_scan_alone(ours: LanceDataset, run: str) -> None:
    """Bytes grow with the columns, and reads that another thread does meanwhile are not counted."""
    statistics_of(ours, run)  # opens the files, which stay open
    one, all_columns = (statistics_of(ours, run, columns=names) for names in (["n"], None))
    assert 0 < one.bytes_read < all_columns.bytes_read
    assert 0 < one.requests <= one.iops
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            ours.to_table()

    other = threading.Thread(target=read)
    other.start()
    try:
        again = [statistics_of(ours, run, columns=["n"]).bytes_read for _ in range(20)]
    finally:
        stop.set()
        other.join()
    assert set(again) == {statistics_of(ours, run, columns=["n"]).bytes_read}


def test_statistics_prune_rows(ours: LanceDataset) -> None:
    """The first scan gathers statistics, the second reads what they leave."""
    first, second = (statistics_of(ours, filter="n = 7") for _ in range(2))
    assert first.all_counts["rows_scanned"] == NUM_ROWS
    assert second.all_counts["rows_scanned"] < ROWS_PER_FILE
    assert second.all_counts["fragments_scanned"] == 1
    assert second.all_counts["output_rows"] == 1


def test_work_of_a_btree(ours: LanceDataset) -> None:
    ours.create_scalar_index("n", "BTREE")
    first, second = (statistics_of(ours, filter=f"n = {n}") for n in (7, 8))
    assert (first.indices_loaded, first.parts_loaded) == (1, 2)  # the bounds of the pages, and one page
    assert (second.indices_loaded, second.parts_loaded) == (0, 0)
    assert first.index_comparisons == second.index_comparisons == 4096  # the rows of a page
    assert second.all_counts["index_cache_hits"] > 0
    assert first.all_counts["index_cache_misses"] > second.all_counts.get("index_cache_misses", 0)
    assert first.all_counts["rows_taken"] == 1


@pytest.mark.parametrize(
    ("kind", "compared"),
    [
        (IndexConfig("zonemap", {"rows_per_zone": 1000}), 60),
        (IndexConfig("bloomfilter", {"number_of_items": 500}), 120),
    ],
    ids=["zonemap", "bloomfilter"],
)
def test_zones_are_compared(ours: LanceDataset, kind: IndexConfig, compared: int) -> None:
    ours.create_scalar_index("n", kind)
    found = statistics_of(ours, filter="n = 7")
    assert found.index_comparisons == compared
    assert found.parts_loaded > 0
    assert found.all_counts["rows_scanned"] < 2000


def test_fewer_rows_in_zones_mean_fewer_bytes(tmp_path: Path) -> None:
    sizes = []
    for rows in (64, 16 * 1024):
        values = np.random.default_rng(1).integers(0, 1 << 60, NUM_ROWS)
        table = pa.table({"n": np.sort(values)})
        dataset = lance_core.write_dataset(table, str(tmp_path / str(rows)))
        dataset.create_scalar_index("n", IndexConfig("zonemap", {"rows_per_zone": rows}))
        sizes.append(statistics_of(dataset, filter=f"n = {values.max()}").bytes_read)
    assert sizes[0] < sizes[1]


def test_work_of_a_text_search(ours: LanceDataset) -> None:
    ours.create_scalar_index("s", "INVERTED")
    first, second = (statistics_of(ours, full_text_query="w3", limit=5) for _ in range(2))
    assert first.parts_loaded > 0 == second.parts_loaded
    assert first.index_comparisons == second.index_comparisons == sum(n % 7 == 3 for n in range(NUM_ROWS))
    assert first.all_counts["partitions_searched"] >= 1


def test_work_of_a_vector_search(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).random((4000, 16), np.float32)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 16)})
    dataset = lance_core.write_dataset(table, str(tmp_path))
    exact = statistics_of(dataset, nearest={"column": "v", "q": vectors[0], "k": 3})
    assert exact.all_counts["rows_scanned"] == 4000
    dataset.create_index("v", "IVF_FLAT", num_partitions=4)
    query = {"column": "v", "q": vectors[0], "k": 3, "nprobes": 2}
    found = statistics_of(dataset, nearest=query)
    assert found.all_counts["partitions_searched"] == 2
    assert 3 <= found.index_comparisons < 4000
    assert "rows_scanned" not in found.all_counts


def test_the_callback_comes_once_and_only_after_the_end(ours: LanceDataset) -> None:
    found: list[ScanStatistics] = []
    scan = ours.scanner(scan_stats_callback=found.append)
    assert scan.count_rows() == NUM_ROWS
    batches = scan.to_batches()
    next(batches)
    del batches
    gc.collect()
    assert not found
    assert scan.to_reader().read_all().num_rows == NUM_ROWS
    assert len(found) == 1
    assert scan.head(3).num_rows == 3
    assert len(scan.to_pandas()) == NUM_ROWS
    assert [each.all_counts["output_rows"] for each in found] == [NUM_ROWS, 3, NUM_ROWS]
    assert all(times >= 0 for each in found for times in each.all_times.values())
    assert all(each.all_times["elapsed"] > 0 for each in found)


def test_every_way_to_set_the_callback(ours: LanceDataset) -> None:
    found: list[ScanStatistics] = []
    ours.to_table(scan_stats_callback=found.append)
    list(ours.to_batches(scan_stats_callback=found.append))
    ours.get_fragments()[0].to_table(scan_stats_callback=found.append)
    ScannerBuilder(ours).scan_stats_callback(found.append).to_scanner().to_table()
    rows = [each.all_counts["rows_scanned"] for each in found]
    assert rows == [NUM_ROWS, NUM_ROWS, ROWS_PER_FILE, NUM_ROWS]


def test_errors_of_a_callback_are_logged(ours: LanceDataset, caplog: pytest.LogCaptureFixture) -> None:
    def fail(statistics: ScanStatistics) -> None:
        raise ValueError("not today")

    with caplog.at_level(logging.ERROR, "lance_core"):
        assert ours.to_table(scan_stats_callback=fail).num_rows == NUM_ROWS
    assert "not today" in caplog.text


def test_errors_of_a_scan_are_not_reported(path: str, ours: LanceDataset) -> None:
    found: list[ScanStatistics] = []
    for data_file in Path(path, "data").iterdir():
        data_file.unlink()
    scan = ours.scanner(scan_stats_callback=found.append)
    for run in (scan.to_table, lambda: list(scan.to_batches())):
        with pytest.raises(lance_core.LanceError):
            run()
    assert not found


def test_what_is_no_function_is_refused(ours: LanceDataset) -> None:
    with pytest.raises(ValueError, match="Callback must be callable"):
        ours.scanner(scan_stats_callback=5)


def test_a_scan_with_a_callback_can_be_pickled(ours: LanceDataset) -> None:
    scan = pickle.loads(pickle.dumps(ours.scanner(scan_stats_callback=print)))
    assert scan.count_rows() == NUM_ROWS


def test_a_scan_inside_a_scan_has_counts_of_its_own(ours: LanceDataset) -> None:
    inner: list[ScanStatistics] = []
    outer: list[ScanStatistics] = []
    for _ in ours.scanner(["n"], scan_stats_callback=outer.append).to_batches():
        ours.to_table(columns=["other"], limit=10, scan_stats_callback=inner.append)
    assert {each.all_counts["rows_scanned"] for each in inner} == {10}
    assert outer[0].all_counts["rows_scanned"] == NUM_ROWS


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def test_prewarmed_scalar_indices_are_not_read_again(path: str, kind: str) -> None:
    lance_core.dataset(path).create_scalar_index("n", kind)
    sets = 1 if kind == "BITMAP" else 0  # sets of rows are read when they are needed
    assert_prewarmed(path, "n_idx", lambda dataset: statistics_of(dataset, filter="n = 7"), parts=sets)


def test_prewarmed_ranges_of_a_btree_are_not_read_again(path: str) -> None:
    lance_core.dataset(path).create_scalar_index("n", "BTREE")
    question = "n >= 4000 AND n < 9000"
    assert_prewarmed(path, "n_idx", lambda dataset: statistics_of(dataset, filter=question))


def test_prewarmed_texts_are_not_read_again(path: str) -> None:
    lance_core.dataset(path).create_scalar_index("s", "INVERTED")
    assert_prewarmed(path, "s_idx", lambda dataset: statistics_of(dataset, full_text_query="w3 w5", limit=9))


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])
def test_prewarmed_vectors_are_not_read_again(tmp_path: Path, kind: str) -> None:
    vectors = np.random.default_rng(1).random((2000, 16), np.float32)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 16)})
    dataset = lance_core.write_dataset(table, str(tmp_path))
    dataset.create_index("v", kind, num_partitions=4, **({"num_sub_vectors": 4} if kind == "IVF_PQ" else {}))
    query = {"column": "v", "q": vectors[0], "k": 3}
    assert_prewarmed(str(tmp_path), "v_idx", lambda opened: statistics_of(opened, nearest=query))


def assert_prewarmed(
    path: str, name: str, ask: Callable[[LanceDataset], ScanStatistics], *, parts: int = 0
) -> None:
    """Assert that a question reads parts of an index, but only `parts` after the index was read ahead."""
    assert ask(lance_core.dataset(path, session=lance_core.Session())).parts_loaded > parts
    warm = lance_core.dataset(path, session=lance_core.Session())
    warm.prewarm_index(name)
    asked = ask(warm)
    assert (asked.parts_loaded, asked.indices_loaded) == (parts, 0)


def test_prewarming_stops_when_the_cache_is_full(path: str) -> None:
    lance_core.dataset(path).create_scalar_index("n", "BTREE")
    session = lance_core.Session(index_cache_size_bytes=100_000)
    dataset = lance_core.dataset(path, session=session)
    dataset.prewarm_index("n_idx")
    assert 0 < session.index_cache_size_bytes() <= 100_000
    assert dataset.to_table(filter="n = 7").num_rows == 1
