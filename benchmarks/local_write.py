"""Writing with this project against the reference: speed, size, memory, encodings, and speed of reading.

    python -m benchmarks.local_write --rows 1000000 --versions 2.1,2.2

Both libraries write the same batches, held in memory, without syncing to disk. The reference then reads both
files. Each figure is printed with its target.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_core
from benchmarks import statistics_cost
from benchmarks.data import SEED, mixed_batch, vector_batch
from benchmarks.measure import Measurement, interleave, peak_bytes_of
from benchmarks.page_choices import choices
from benchmarks.touch import touch_table

OURS = "ours"
REFERENCE = "pylance"
BATCH_ROWS = 10_000
_PROCESSES = 3


def sorted_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """Return integers that grow by small steps."""
    rng = np.random.default_rng((SEED, first_row))
    return pa.record_batch({"sorted": np.cumsum(rng.integers(0, 100, rows)) + first_row * 50})


def category_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """Return the categories of the mixed table."""
    return mixed_batch(first_row, rows).select(["category"])


def text_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """Return the text of the mixed table."""
    return mixed_batch(first_row, rows).select(["text"])


CLASSES: Mapping[str, tuple[Callable[[int, int], pa.RecordBatch], int]] = {
    "mixed": (mixed_batch, 1),
    "vectors": (vector_batch, 20),
    "text": (text_batch, 1),
    "sorted": (sorted_batch, 1),
    "categorical": (category_batch, 1),
}
"""Written tables: a function that makes a batch, and the divisor of the requested number of rows."""


def measure(name: str, rows: int, version: str, runs: int, folder: Path) -> tuple[Measurement, Measurement]:
    """Measure writing, and the reference reading the written files. The last files stay in `folder`."""
    table = table_of(name, rows)

    def write(library: str) -> None:
        path = folder / library
        shutil.rmtree(path, ignore_errors=True)
        WRITERS[library](table, str(path), version)

    def read(library: str) -> None:
        touch_table(lance.dataset(str(folder / library)).to_table())

    both = (OURS, REFERENCE)
    task = f"{name} {version}"
    writers = {each: partial(write, each) for each in both}
    readers = {each: partial(read, each) for each in both}
    writing = interleave(task, name, table.nbytes, writers, runs)
    return writing, interleave(task, name, table.nbytes, readers, runs)


def _write_ours(table: pa.Table, path: str, version: str) -> None:
    lance_core.write_dataset(_reader(table), path, data_storage_version=version, sync=False)


def _write_reference(table: pa.Table, path: str, version: str) -> None:
    lance.write_dataset(_reader(table), path, data_storage_version=version)


WRITERS = {OURS: _write_ours, REFERENCE: _write_reference}


def file_bytes(dataset: Path) -> int:
    """Return the bytes of the data files."""
    return sum(file.stat().st_size for file in (dataset / "data").iterdir())


def peak_memory(name: str, rows: int, version: str, library: str) -> int:
    """Return the largest memory in bytes that new processes use to write generated batches, above their
    start.
    """
    return int(statistics.median(_peak_memory(name, rows, version, library) for _ in range(_PROCESSES)))


def _peak_memory(name: str, rows: int, version: str, library: str) -> int:
    command = [sys.executable, "-m", "benchmarks.local_write", "--child", library, "--only", name]
    command += ["--rows", str(rows), "--versions", version]
    return int(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["bytes"])


def _child(options: argparse.Namespace) -> None:
    make, fewer = CLASSES[options.only]
    make(0, 1)
    before = peak_bytes_of("self")
    rows = options.rows // fewer

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, BATCH_ROWS):
            yield make(first, min(BATCH_ROWS, rows - first))

    with tempfile.TemporaryDirectory() as folder:
        reader = pa.RecordBatchReader.from_batches(make(0, 1).schema, batches())
        WRITERS[options.child](reader, folder + "/dataset", options.versions)
    print(json.dumps({"bytes": peak_bytes_of("self") - before}))


def table_of(name: str, rows: int) -> pa.Table:
    """Return the table of a name in `CLASSES`, of `rows` rows or a part of these."""
    make, fewer = CLASSES[name]
    rows //= fewer
    return pa.Table.from_batches(
        [make(first, min(BATCH_ROWS, rows - first)) for first in range(0, rows, BATCH_ROWS)]
    )


def _reader(data: pa.Table | pa.RecordBatchReader) -> pa.RecordBatchReader:
    return data.to_reader() if isinstance(data, pa.Table) else data


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_write", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the mixed table")
    parser.add_argument("--versions", default="2.1,2.2", help="file versions, comma separated")
    parser.add_argument("--only", default=",".join(CLASSES), help="what is written, comma separated")
    parser.add_argument("--runs", type=int, default=5, help="measured runs per competitor")
    parser.add_argument("--folder", type=Path, help="where files go (default: a temporary folder)")
    flag = argparse.BooleanOptionalAction
    parser.add_argument("--memory", action=flag, default=True, help="measure peak memory of fresh processes")
    parser.add_argument(
        "--pairs",
        type=int,
        default=20,
        help="pairs of writes that statistics and checksums are measured with",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options)
        return
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    for version in options.versions.split(","):
        for name in options.only.split(","):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                _report(name, version, options, Path(folder))


def _report(name: str, version: str, options: argparse.Namespace, folder: Path) -> None:
    writing, reading = measure(name, options.rows, version, options.runs, folder)
    speeds = [writing.size_bytes / writing.seconds[each] / 1e6 for each in (OURS, REFERENCE)]
    sizes = [file_bytes(folder / each) for each in (OURS, REFERENCE)]
    must_be_fast = name in ("mixed", "vectors")
    figures = [
        Figure(
            "write, wall time", writing.ratio(OURS, REFERENCE), "x", at_least=1.5 if must_be_fast else None
        ),
        Figure(
            "write, CPU time", writing.cpu_ratio(OURS, REFERENCE), "x", at_least=1.5 if must_be_fast else None
        ),
        Figure("size", sizes[0] / sizes[1], "x", at_most=1.03),
        Figure("read by pylance", reading.ratio(OURS, REFERENCE), "x", at_least=0.9),
        Figure("read by pylance, CPU", reading.cpu_ratio(OURS, REFERENCE), "x"),
    ]
    if options.memory:
        peaks = [peak_memory(name, options.rows, version, each) for each in (OURS, REFERENCE)]
        label = f"peak memory, {peaks[0] >> 20} / {peaks[1] >> 20} MiB"
        figures.append(Figure(label, peaks[0] / peaks[1], "x", at_most=1))
    if options.pairs > 1:
        cost = statistics_cost.measure(table_of(name, options.rows), version, folder / "cost", options.pairs)
        label = f"statistics and checksums, CPU ({cost.lower_quartile:.1%} to {cost.upper_quartile:.1%})"
        figures.append(Figure(label, 100 * cost.median, "%", at_most=5))
    print(f"{writing.task}: ours {speeds[0]:.0f} MB/s, pylance {speeds[1]:.0f} MB/s")
    for figure in figures:
        print(f"  {figure}")
    theirs = choices(folder / REFERENCE)
    print(f"  {'column':<10} {'pages of ours':<56} pages of pylance")
    for column, kinds in choices(folder / OURS).items():
        print(f"  {column:<10} {kinds:<56} {theirs.get(column, '')}", flush=True)


@dataclass(frozen=True)
class Figure:
    """Measured value, as a multiple of the reference's or as a share, and its target."""

    label: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        target, is_met = "", True
        if self.at_least is not None:
            target, is_met = f"at least {self.at_least:g}{self.unit}", self.value >= self.at_least
        elif self.at_most is not None:
            target, is_met = f"at most {self.at_most:g}{self.unit}", self.value <= self.at_most
        value = f"{self.value:.3f}" if self.unit == "x" else f"{self.value:.1f}"
        return f"{' ' if is_met else '!'} {self.label:<56}{value + self.unit:>9}   {target}"


if __name__ == "__main__":
    main()
