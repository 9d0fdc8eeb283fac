"""Reads of the column of an index."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_core.changes.indexing.segment import IndexRequest, rows_to_index
from lance_core.index.progress import unobserved
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot

ROWS = 400_000


@pytest.mark.parametrize("column", ["number", "text"])
def test_batches_have_whole_zones(tmp_path: Path, column: str) -> None:
    """Only batches at the end of a fragment end inside a zone; deleted rows do not count."""
    numbers = range(ROWS)
    table = pa.table(
        {"number": pa.array(numbers, pa.int64()), "text": [f"text {number}" for number in numbers]}
    )
    dataset = lance.write_dataset(table, tmp_path / "t", max_rows_per_file=ROWS // 2)
    dataset.delete("number % 7 = 3")
    kept = lance.dataset(tmp_path / "t").to_table([column])[column]
    snapshot = open_snapshot(LocalStorage(str(tmp_path / "t")))
    rows = rows_to_index(snapshot, IndexRequest(column, "ZONEMAP"), unobserved)[2]
    for multiple in (1, 1000, ROWS):
        batches = list(rows.scan(multiple))
        assert pa.chunked_array([batch.column(0) for batch in batches]).equals(kept)
        if column == "number" and multiple == 1000:
            partial = [batch.num_rows for batch in batches if batch.num_rows % multiple]
            assert len(partial) == 2 < len(batches)
