"""Datasets of the benchmarks: generated once, written by the reference, kept between runs."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec

import lance
import numpy as np
import pyarrow as pa

FOLDER_VARIABLE = "LANCE_FLIGHT_BENCH_DIR"
"""Environment variable with the folder of the generated data."""

FRAGMENTS = 4
MIXED_ROWS = 4_000_000
VECTOR_ROWS = 200_000
VECTOR_DIMENSIONS = 768
VERSIONS = ("2.0", "2.1", "2.2")
SEED = 20261120


@dataclass(frozen=True)
class Dataset:
    """Dataset on disk: `name` is its name on a server, `columns` says what it holds."""

    name: str
    version: str
    path: Path
    columns: tuple[str, ...]


def mixed_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """Return rows of a table with every common kind of column. The same arguments give the same rows."""
    rng = np.random.default_rng((SEED, first_row))
    words = np.array(
        ["river", "stone", "north", "light", "paper", "seven", "cloud", "green", "metal", "quiet"]
    )
    chosen = words[rng.integers(0, len(words), (rows, 6))]
    text = [" ".join(row) for row in chosen.tolist()]
    text = [
        f"{line} {number:x}" for line, number in zip(text, rng.integers(0, 2**40, rows).tolist(), strict=True)
    ]
    categories = np.array([f"category {number:02}" for number in range(50)])
    lengths = rng.integers(0, 6, rows)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    tags = pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(rng.integers(0, 5_000, offsets[-1]), pa.int32())
    )
    time = 1_700_000_000_000_000 + (first_row + np.arange(rows)) * 1_000 + rng.integers(0, 1_000, rows)
    return pa.record_batch(
        {
            "id": pa.array(np.arange(first_row, first_row + rows)),
            "hash": pa.array(rng.integers(-(2**63), 2**63, rows)),
            "small": pa.array(rng.integers(0, 1_000, rows), pa.int32()),
            "value": pa.array(rng.normal(size=rows)),
            "ratio": pa.array(rng.random(rows, np.float32)),
            "maybe": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.2),
            "time": pa.array(time, pa.timestamp("us")),
            "flag": pa.array(rng.random(rows) < 0.3),
            "category": pa.array(categories[rng.integers(0, 50, rows)]),
            "text": pa.array(text),
            "tags": tags,
        }
    )


def vector_batch(first_row: int, rows: int) -> pa.RecordBatch:
    """Return rows of embeddings."""
    rng = np.random.default_rng((SEED, first_row))
    values = pa.array(rng.random(rows * VECTOR_DIMENSIONS, np.float32))
    return pa.record_batch({"vector": pa.FixedSizeListArray.from_arrays(values, VECTOR_DIMENSIONS)})


MakeBatch = Callable[[int, int], pa.RecordBatch]
Arguments = ParamSpec("Arguments")


def prepare(folder: Path, scale: float, prefixes: Sequence[str] = ("",)) -> list[Dataset]:
    """Return the datasets whose names begin with one of `prefixes`, and write those that are missing.

    Args:
        folder: folder of the datasets.
        scale: factor on the numbers of rows.
        prefixes: beginnings of names.
    """
    prepared = []
    for version in VERSIONS:
        for kind, make, rows in (("mixed", mixed_batch, MIXED_ROWS), ("vectors", vector_batch, VECTOR_ROWS)):
            name = f"{kind}-{version.replace('.', '_')}-{int(rows * scale)}"
            if not name.startswith(tuple(prefixes)):
                continue
            path = folder / f"{name}.lance"
            write_if_missing(path, _write, make, int(rows * scale), version)
            columns = tuple(lance.dataset(str(path)).schema.names)
            prepared.append(Dataset(name, version, path, columns))
    return prepared


def write_if_missing(
    path: Path,
    write: Callable[Concatenate[Path, Arguments], object],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> None:
    """Let `write` make the folder at a path, unless it exists. Nothing is there after an interrupted run."""
    if path.exists():
        return
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    write(unfinished, *args, **kwargs)
    unfinished.rename(path)


def add_folder_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--folder`, the folder of the generated data."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, ".cache/bench"))
    text = f"folder of the generated data (or {FOLDER_VARIABLE})"
    parser.add_argument("--folder", type=Path, default=folder, help=text)


def _write(path: Path, make: MakeBatch, rows: int, version: str) -> None:
    per_fragment = rows // FRAGMENTS
    batch_rows = max(1, per_fragment // 4)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, per_fragment * FRAGMENTS, batch_rows):
            yield make(first, batch_rows)

    reader = pa.RecordBatchReader.from_batches(make(0, 1).schema, batches())
    lance.write_dataset(reader, str(path), max_rows_per_file=batch_rows * 4, data_storage_version=version)
