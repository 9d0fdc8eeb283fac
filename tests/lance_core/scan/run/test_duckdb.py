"""Filtered scans pass the rows that DuckDB passes of the same Arrow data, whatever is pruned on the way."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.run.execute import scan_table
from lance_core.scan.run.filtering import filtered_scan
from lance_core.scan.run.strategy import Strategy
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.searches.filters import conditions, passing_in_duckdb, random_table

STRATEGIES = {
    "plain": Strategy(prune=False, dense_share=0),
    "late": Strategy(prune=False, dense_share=2),
    "pruned": Strategy(),
    "pruned, late": Strategy(dense_share=2),
}


@pytest.fixture(scope="module", autouse=True)
def _ask_statistics() -> Iterator[None]:
    """Small tables are pruned, too, as larger ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filtered_scan, "_FEW_ROWS", 0)
        yield


@pytest.mark.parametrize("writer", ["ours", "reference"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@settings(max_examples=draws(6), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_rows=st.integers(1, 3000),
    rows_per_file=st.integers(300, 3000),
    texts=st.lists(conditions, min_size=4, max_size=8),
)
def test_scans_pass_what_duckdb_passes(
    writer: str, version: str, seed: int, num_rows: int, rows_per_file: int, texts: list[str]
) -> None:
    """Every strategy; the statistics that one filter gathers prune the next."""
    table = random_table(seed, num_rows)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        library = lance_core if writer == "ours" else lance
        library.write_dataset(
            table, Path(folder) / "d", max_rows_per_file=rows_per_file, data_storage_version=version
        )
        dataset, warm = lance_core.dataset(Path(folder) / "d"), FileCache()
        connection.register("rows", table)
        for text in texts:
            expected = table.take(pa.array(passing_in_duckdb(connection, text), pa.int64()))
            options = ScanOptions(filter=bind_filter(dataset.snapshot.manifest.schema, text))
            plan = plan_scan(dataset.snapshot, options)
            for name, strategy in STRATEGIES.items():
                found = scan_table(dataset.snapshot, plan, warm, strategy)
                assert_tables_equal(expected, found, label=f"{text}: {name}")
            assert dataset.count_rows(text) == expected.num_rows
