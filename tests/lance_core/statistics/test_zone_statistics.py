"""Gathered statistics: zones of decoded rows, which come in pieces of any size and order."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.statistics import zone_statistics
from lance_core.statistics.cache import ColumnKey, StatisticsCache
from lance_core.statistics.zone_statistics import GatheredColumn
from support.runs.draws import draws
from support.tables.arrays import Spec, make_array


def key(column: str = "0") -> ColumnKey:
    return ColumnKey("store", "data/a.lance", "1", column)


def check(table: pa.Table | None, array: pa.Array) -> np.ndarray:
    """Check that all statistics of a table hold, and return the rows that they describe."""
    known = np.zeros(len(array), bool)
    for row in table.to_pylist() if table is not None else ():
        start, end = row["first_row"], row["first_row"] + row["rows"]
        assert not known[start:end].any()
        known[start:end] = True
        part = array.slice(start, row["rows"])
        values = part.drop_null().to_pylist()
        assert row["null_count"] == part.null_count
        assert (row["min"], row["max"]) == ((min(values), max(values)) if values else (None, None))
    return known


@settings(max_examples=draws(200), deadline=None)
@given(st.data())
def test_any_pieces_in_any_order(data: st.DataObject) -> None:
    """Pieces overlap as windows of different scans do; every row is known once and said right."""
    num_rows = data.draw(st.integers(0, 60))
    array = make_array(pa.field("x", pa.int32()), num_rows, Spec("random", "half"), np.random.default_rng(1))
    column = GatheredColumn(pa.int32(), num_rows)
    seen = np.zeros(num_rows, bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zone_statistics, "ZONE_ROWS", 8)
        patch.setattr(zone_statistics, "_LEAST_ROWS", 1)
        for _ in range(data.draw(st.integers(0, 8))):
            start, end = sorted(data.draw(st.tuples(*[st.integers(0, num_rows)] * 2)))
            cut = data.draw(st.integers(start, end))
            column.add(start, [array.slice(start, cut - start), array.slice(cut, end - cut)])
            seen[start:end] = True
            assert (check(column.table(), array) == seen).all()
        assert column.is_complete == seen.all()


def test_short_runs_are_not_worth_a_zone() -> None:
    column = GatheredColumn(pa.int32(), 100_000)
    column.add(5, [pa.array(range(1000), pa.int32())])
    assert column.table() is None
    column.add(5, [pa.array(range(1024), pa.int32())])
    assert column.table() is not None
    short = GatheredColumn(pa.int32(), 3)
    short.add(0, [pa.array([1, 2, 3], pa.int32())])
    assert short.is_complete


def test_threads_that_decode_the_same_rows() -> None:
    array = pa.array(range(200_000), pa.int64())
    cache = StatisticsCache()

    def read() -> None:
        for start in range(0, len(array), 5000):
            cache.gather(key(), array.type, len(array), start, [array.slice(start, 7000)])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert check(cache.gathered(key(), array.type, len(array)), array).all()


def test_memory_is_bounded() -> None:
    """T33: the statistics that were not used for the longest time are dropped first; the last entry stays."""
    array = pa.array(range(20_000), pa.int64())
    cache = StatisticsCache(max_bytes=20_000)
    for number in range(50):
        cache.gather(key(str(number)), array.type, len(array), 0, [array])
        assert cache.num_bytes <= 20_000
        assert cache.gathered(key(str(number)), array.type, len(array)) is not None
    assert cache.gathered(key("0"), array.type, len(array)) is None
    small = StatisticsCache(max_bytes=1)
    small.gather(key(), array.type, len(array), 0, [array])
    assert small.gathered(key(), array.type, len(array)) is not None


_MEASURED = """
import gc
from pathlib import Path

import pyarrow as pa

from lance_core.statistics.cache import ColumnKey, StatisticsCache
from lance_core.statistics.collect import page_bounds
from lance_core.statistics.column_statistics import all_null

def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

array = pa.array(range(20_000))
def fill(cache: StatisticsCache, count: int) -> None:
    for number in range(count):
        key = ColumnKey("s", "f", "i", str(number))
        stored = cache.stored(key, lambda: all_null(pa.int64(), number))
        cache.gather(key, array.type, len(array), 0, [array])
        gathered = cache.gathered(key, array.type, len(array))
        facts = cache.facts(key, stored, gathered, len(array))
        facts.spans, facts.values(array.type).in_numbers

fill(StatisticsCache(), 100)
gc.collect()
before = anonymous_bytes()
cache = StatisticsCache(max_bytes=1 << 30)
fill(cache, 2000)
gc.collect()
print((anonymous_bytes() - before) / cache.num_bytes)
"""


def test_the_bound_is_on_real_memory() -> None:
    """T33: small statistics are mostly objects, and these are counted, too."""
    done = subprocess.run([sys.executable, "-c", _MEASURED], check=True, stdout=subprocess.PIPE, text=True)
    assert 0.4 < float(done.stdout) < 1.5


def test_what_pruning_computes_is_kept_until_more_is_known() -> None:
    array = pa.array(range(20_000), pa.int64())
    cache = StatisticsCache()
    assert cache.facts(key(), None, None, len(array)) is None
    found = []
    for end in (10_000, 10_000, len(array)):
        cache.gather(key(), array.type, len(array), 0, [array.slice(0, end)])
        gathered = cache.gathered(key(), array.type, len(array))
        found.append(cache.facts(key(), None, gathered, len(array)))
    assert found[0] is found[1]
    assert [facts.spans.ends[-1] for facts in found if facts is not None] == [10_000, 10_000, 20_000]


def test_what_a_file_says_is_read_once() -> None:
    cache = StatisticsCache()
    calls = []
    for _ in range(2):
        assert cache.stored(key(), lambda: calls.append(1)) is None
    assert calls == [1]
