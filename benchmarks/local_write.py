"""Writing with this project against the reference: speed, size, memory, encodings, and how fast it is read.

    python -m benchmarks.local_write --rows 1000000 --versions 2.1,2.2

Both write the same batches, held in memory, without syncing to disk. The reference then reads both files.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_core
from benchmarks.data import SEED, mixed_batch, vector_batch
from benchmarks.measure import Measurement, interleave, peak_bytes_of
from benchmarks.touch import touch_table
from lance_core.file.metadata import read_file_metadata
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage import storage_for

OURS = "ours"
REFERENCE = "pylance"
BATCH_ROWS = 10_000


def sorted_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """Integers that grow by small steps."""
    rng = np.random.default_rng((SEED, first_row))
    return pa.record_batch({"sorted": np.cumsum(rng.integers(0, 100, rows)) + first_row * 50})


def category_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """The categories of the mixed table."""
    return mixed_batch(first_row, rows).select(["category"])


def text_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """The text of the mixed table."""
    return mixed_batch(first_row, rows).select(["text"])


CLASSES: Mapping[str, tuple[Callable[[int, int], pa.RecordBatch], int]] = {
    "mixed": (mixed_batch, 1),
    "vectors": (vector_batch, 20),
    "text": (text_batch, 1),
    "sorted": (sorted_batch, 1),
    "categorical": (category_batch, 1),
}
"""What is written, and by how much fewer rows than asked for."""


def measure(name: str, rows: int, version: str, runs: int, folder: Path) -> tuple[Measurement, Measurement]:
    """Writing, and the reference reading what was written; the last files stay in `folder`."""
    table = _table(name, rows)

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
    """Bytes of the data files."""
    return sum(file.stat().st_size for file in (dataset / "data").iterdir())


def choices(dataset: Path) -> dict[str, str]:
    """For each leaf column the encodings of its pages."""
    found: dict[str, Counter[str]] = {}
    storage = storage_for(str(dataset), None)
    for path in sorted((dataset / "data").iterdir()):
        metadata = read_file_metadata(storage.open_file(f"data/{path.name}"))
        names = _leaf_names(metadata.schema.to_arrow())
        for index, name in enumerate(names):
            for page in metadata.column(index).pages:
                layout = proto.PageLayout.FromString(page.encoding)
                found.setdefault(name, Counter())[_described(layout)] += 1
    return {name: ", ".join(f"{kind} x{n}" for kind, n in kinds.items()) for name, kinds in found.items()}


def peak_memory(name: str, rows: int, version: str, library: str) -> int:
    """Bytes that a fresh process has at most while it writes generated batches, above what it has before."""
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


def _table(name: str, rows: int) -> pa.Table:
    make, fewer = CLASSES[name]
    rows //= fewer
    return pa.Table.from_batches(
        [make(first, min(BATCH_ROWS, rows - first)) for first in range(0, rows, BATCH_ROWS)]
    )


def _reader(data: pa.Table | pa.RecordBatchReader) -> pa.RecordBatchReader:
    return data.to_reader() if isinstance(data, pa.Table) else data


def _leaf_names(schema: pa.Schema) -> list[str]:
    """Columns of a 2.1 file; nothing here has structs of several members."""
    return list(schema.names)


def _described(layout: proto.PageLayout) -> str:
    kind = layout.WhichOneof("layout") or "?"
    body = getattr(layout, kind)
    parts = [kind.removesuffix("_layout")]
    if kind == "mini_block_layout" and body.HasField("dictionary"):
        parts.append("dictionary")
    if kind != "constant_layout":
        encoding = body.value_compression
        while (name := encoding.WhichOneof("compression")) is not None:
            parts.append(name)
            inner = getattr(encoding, name)
            if not hasattr(inner, "values") or not isinstance(inner.values, proto.CompressiveEncoding):
                break
            encoding = inner.values
    return "/".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_write", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the mixed table")
    parser.add_argument("--versions", default="2.1,2.2", help="file versions, comma separated")
    parser.add_argument("--only", default=",".join(CLASSES), help="what is written, comma separated")
    parser.add_argument("--runs", type=int, default=5, help="measured runs per competitor")
    parser.add_argument("--folder", type=Path, help="where files go (default: a temporary folder)")
    parser.add_argument("--memory", action="store_true", help="measure peak memory of fresh processes")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options)
        return
    heading = ("write MB/s", "pylance", "faster", "less CPU", "size", "read by pylance")
    print(f"{'':<18}" + "".join(f"{name:>16}" for name in heading))
    for version in options.versions.split(","):
        for name in options.only.split(","):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                _report(name, version, options, Path(folder))


def _report(name: str, version: str, options: argparse.Namespace, folder: Path) -> None:
    writing, reading = measure(name, options.rows, version, options.runs, folder)
    speeds = [writing.size_bytes / writing.seconds[each] / 1e6 for each in (OURS, REFERENCE)]
    sizes = [file_bytes(folder / each) for each in (OURS, REFERENCE)]
    print(
        f"{writing.task:<18}{speeds[0]:>16.0f}{speeds[1]:>16.0f}"
        f"{writing.ratio(OURS, REFERENCE):>15.2f}x{writing.cpu_ratio(OURS, REFERENCE):>15.2f}x"
        f"{sizes[0] / sizes[1]:>16.3f}{reading.ratio(OURS, REFERENCE):>15.2f}x",
        flush=True,
    )
    if options.memory:
        peaks = [peak_memory(name, options.rows, version, each) >> 20 for each in (OURS, REFERENCE)]
        print(f"  peak memory while writing: ours {peaks[0]} MiB, pylance {peaks[1]} MiB")
    ours, theirs = choices(folder / OURS), choices(folder / REFERENCE)
    for column, kinds in ours.items():
        print(f"  {column:<10} {kinds:<60} {theirs.get(column, '')}")


if __name__ == "__main__":
    main()
