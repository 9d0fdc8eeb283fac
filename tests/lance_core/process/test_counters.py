"""Events that the core counts: pages, takes, commits, conflicts and retries."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.api.serving import event_counts
from lance_core.process.counters import COMMITS, EventCounter

TABLE = pa.table({"id": list(range(1000)), "name": [f"n{i}" for i in range(1000)]})


def _new(run: Callable[[], object]) -> dict[str, dict[tuple[str, ...], int]]:
    """Return the events that happen while a function runs."""
    before = event_counts()
    run()
    found = {}
    for name, counts in event_counts().items():
        new = {labels: count - before[name].get(labels, 0) for labels, count in counts.items()}
        found[name] = {labels: count for labels, count in new.items() if count}
    return {name: counts for name, counts in found.items() if counts}


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    return lance_core.write_dataset(TABLE, tmp_path / "t.lance", max_rows_per_file=250)


def test_a_scan_counts_its_pages_and_a_take_its_rows(dataset: lance_core.LanceDataset) -> None:
    """Each of four fragments has one page of each column."""
    assert _new(dataset.to_table) == {"page_reads": {(): 8}}
    assert _new(lambda: list(dataset.to_batches(columns=["id"]))) == {"page_reads": {(): 4}}
    assert _new(lambda: dataset.take([1, 5, 900])) == {"taken_rows": {(): 3}}


def test_pages_that_no_kernel_reads_count_too(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "old.lance", data_storage_version="0.1")
    assert _new(dataset.to_table)["page_reads"][()] >= 2


def test_commits_are_counted_by_operation(dataset: lance_core.LanceDataset) -> None:
    assert _new(lambda: dataset.insert(TABLE))["commits"] == {("append", "landed"): 1}
    assert _new(lambda: dataset.delete("id < 10"))["commits"] == {("delete", "landed"): 1}


def test_conflicts_and_retries_are_counted(dataset: lance_core.LanceDataset) -> None:
    """Deletes of other rows of a fragment are rebased. A delete of an updated row is computed again."""
    other = lance_core.dataset(dataset.uri)
    other.delete("id = 1")
    rebased = _new(lambda: dataset.delete("id = 2"))
    assert rebased["commits"] == {("delete", "landed"): 1}
    assert rebased["conflicts"] == {("delete", "delete", "rebase"): 1}
    assert "retries" not in rebased
    late = lance_core.dataset(dataset.uri)
    other = lance_core.dataset(dataset.uri)
    other.update({"name": "'x'"}, where="id = 5")
    again = _new(lambda: late.delete("id = 5"))
    assert again["commits"] == {("delete", "conflict"): 1, ("delete", "landed"): 1}
    assert again["conflicts"] == {("delete", "update", "rebase"): 1}
    assert again["retries"] == {("delete", "conflict"): 1}


def test_a_forked_process_begins_with_no_events() -> None:
    """The lock may have been held by a thread that the child does not have."""
    counter = EventCounter()
    counter.add("a", amount=3)
    COMMITS.add("append", "landed")
    with counter._lock:
        child = os.fork()
        if child == 0:
            counter.add("b")
            os._exit(0 if (counter.counts(), dict(COMMITS.counts())) == ({("b",): 1}, {}) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert counter.counts() == {("a",): 3}
