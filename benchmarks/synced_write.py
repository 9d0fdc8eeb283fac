"""Writing new datasets that survive a power failure, against the reference, which syncs nothing.

    python -m benchmarks.synced_write --folder FOLDER [--only vectors] [--versions 2.0,2.1,2.2] [--runs 9]

Beside both libraries, the same number of bytes is written to one file and synced, by plain system calls. The
disk begins with each part at once, as in our writes: no library that writes through the page cache and syncs
is faster on this disk. The last columns say how many times faster than the reference ours is, and how many
times faster a synced write could be at most. Each run begins without the files of earlier runs, when the disk
has nothing left to write.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa

import lance_core
from benchmarks.local_write import CLASSES, REFERENCE, WRITERS, file_bytes, table_of
from benchmarks.measure import interleave
from lance_core import kernels

_SYNCED, _BYTES = "ours, synced", "bytes, synced"
_PART = 4 << 20


def _write_ours(table: pa.Table, path: Path, version: str) -> None:
    lance_core.write_dataset(table.to_reader(), str(path), data_storage_version=version)


def _write_reference(table: pa.Table, path: Path, version: str) -> None:
    WRITERS[REFERENCE](table, str(path), version)


def _write_bytes(data: memoryview, path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(data), _PART):
            file.write(data[start : start + _PART])
            kernels.start_write_back(file.fileno(), start, _PART)
        os.fsync(file.fileno())


def _empty(folder: Path) -> None:
    """Remove all files, and wait for the disk."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    os.sync()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synced_write", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the mixed table")
    parser.add_argument("--versions", default="2.0,2.1,2.2", help="file versions, comma separated")
    parser.add_argument(
        "--only", default="vectors,mixed", help=f"tables, comma separated: {', '.join(CLASSES)}"
    )
    parser.add_argument("--runs", type=int, default=9, help="measured runs per competitor")
    parser.add_argument("--folder", type=Path, required=True, help="a folder on the disk to measure")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| table | version | ours, synced | bytes, synced | pylance | ours to pylance | at most |")
    print("|---|---|---|---|---|---|---|")
    for name in options.only.split(","):
        table = table_of(name, options.rows)
        for version in options.versions.split(","):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                print(_row(name, table, version, options.runs, Path(folder)), flush=True)


def _row(name: str, table: pa.Table, version: str, runs: int, folder: Path) -> str:
    """Measure one table in one file version. Returns the line of the result."""
    _write_reference(table, folder / "reference", version)
    data = memoryview(os.urandom(file_bytes(folder / "reference")))
    competitors = {
        _SYNCED: partial(_write_ours, table, folder / "ours", version),
        _BYTES: partial(_write_bytes, data, folder / "bytes"),
        REFERENCE: partial(_write_reference, table, folder / "reference", version),
    }
    measured = interleave(f"{name} {version}", name, table.nbytes, competitors, runs, partial(_empty, folder))
    times = [f"{1000 * measured.seconds[each]:.0f} ms" for each in (_SYNCED, _BYTES, REFERENCE)]
    ratios = [f"{measured.ratio(each, REFERENCE):.2f}x" for each in (_SYNCED, _BYTES)]
    return f"| {name}, {len(data) / 1e6:.0f} MB | {version} | {' | '.join(times + ratios)} |"


if __name__ == "__main__":
    main()
