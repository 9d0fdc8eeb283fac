"""Cost of the checksums that changes check. Each change runs with and without the checks, in pairs.

python -m benchmarks.checked_changes --rows 1000000 --pairs 9
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_core
from lance_core.scan.files.cache import FileCache

Change = Callable[[lance_core.LanceDataset], object]
_FILES = 4
_verified = FileCache.verified


def _table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 1 << 40, rows)
    vectors = pa.array(rng.random(rows * 64, np.float32))
    return pa.table(
        {
            "id": np.arange(rows),
            "n": numbers,
            "real": rng.normal(size=rows),
            "word": [f"word {number}" for number in (numbers % 1000).tolist()],
            "text": [f"some longer text {number}" for number in numbers.tolist()],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 64),
        }
    )


def _changes(rows: int) -> dict[str, Change]:
    keys = np.arange(0, rows, 50)
    source = pa.table({"id": keys, "n": keys})
    return {
        "update of all rows": lambda dataset: dataset.update({"n": "n + 1"}),
        "update of 1 %": lambda dataset: dataset.update({"n": "n + 1"}, where="n % 100 = 7"),
        "update of 1000 neighbours": lambda dataset: dataset.update(
            {"n": "0"}, where="id BETWEEN 5000 AND 5999"
        ),
        "delete of 10 %": lambda dataset: dataset.delete("n % 10 = 3"),
        "delete by text": lambda dataset: dataset.delete("text LIKE '%77'"),
        "merge of 2 %": lambda dataset: dataset.merge_insert("id").when_matched_update_all().execute(source),
        "compaction": lambda dataset: dataset.optimize.compact_files(),
        "new column": lambda dataset: dataset.add_columns({"added": "n * 2 + id"}),
        "cast": lambda dataset: dataset.alter_columns({"path": "real", "data_type": pa.float32()}),
    }


def _seconds(change: Change, source: Path, work: Path, *, checked: bool) -> float:
    """Return the CPU time in seconds of a change of a copy of the dataset, whose files are links."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work, copy_function=os.link)
    FileCache.verified = _verified if checked else lambda files: files  # type: ignore[method-assign]
    try:
        dataset = lance_core.dataset(work)
        started = time.process_time()
        change(dataset)
        return time.process_time() - started
    finally:
        FileCache.verified = _verified  # type: ignore[method-assign]


def main() -> None:
    """Print the CPU time of each change with and without checks: medians, and median of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, work = Path(folder, "source"), Path(folder, "work")
        part = -(-options.rows // _FILES)
        lance_core.write_dataset(_table(options.rows), source, max_rows_per_file=part)
        for name, change in _changes(options.rows).items():
            pairs = []
            for number in range(options.pairs + 1):
                order = (True, False) if number % 2 else (False, True)
                taken = {checked: _seconds(change, source, work, checked=checked) for checked in order}
                pairs.append((taken[False], taken[True]))
            without, checked = (statistics.median(each) * 1e3 for each in zip(*pairs[1:], strict=True))
            ratio = statistics.median(after / before for before, after in pairs[1:])
            print(f"{name:26} {without:7.0f} -> {checked:7.0f} ms  {ratio - 1:+.1%}", flush=True)


if __name__ == "__main__":
    main()
