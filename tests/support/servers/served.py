"""The datasets that the tests of the server and of the command line serve; the reference writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from support.servers.server import RunningServer

StartServer = Callable[..., RunningServer]


def trips_table(num_rows: int) -> pa.Table:
    """Rows of several kinds of columns, the dictionary among them."""
    source = np.random.default_rng(7)
    ids = np.arange(num_rows)
    names = pa.array([f"driver {i % 17}" for i in range(num_rows)])
    places = pa.StructArray.from_arrays(
        [
            pa.array(source.normal(size=num_rows)),
            pa.array([None if i % 5 else f"zone {i}" for i in range(num_rows)]),
        ],
        names=["lat", "zone"],
    )
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "fare": pa.array(np.where(ids % 7 == 0, np.nan, ids / 3), mask=ids % 11 == 0),
            "driver": names,
            "city": pa.array(
                [("Porto", "Lund", "Kyoto")[i % 3] for i in range(num_rows)]
            ).dictionary_encode(),
            "pickup": places,
            "stops": pa.array(
                [list(range(i % 4)) if i % 6 else None for i in range(num_rows)], pa.list_(pa.int32())
            ),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(source.normal(size=num_rows * 8).astype(np.float32)), 8
            ),
        }
    )


@dataclass(frozen=True)
class Root:
    """A served directory and what is true about its dataset `trips`."""

    path: Path
    trips: pa.Table
    trips_before: pa.Table


def write_root(path: Path) -> Root:
    """Fill the directory `path`."""
    dataset = lance.write_dataset(trips_table(3000), path / "trips.lance", max_rows_per_file=1000)
    before = dataset.to_table()
    dataset.delete("id % 10 = 3")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(64_000, dtype=np.float32) // 64), 64)
    lance.write_dataset(pa.table({"v": vectors}), path / "ns" / "vectors.lance", data_storage_version="2.1")
    lance.write_dataset(pa.table({"a": pa.array([], pa.int32())}), path / "empty.lance")
    _write_damaged(path)
    return Root(path, dataset.to_table(), before)


def _write_damaged(path: Path) -> None:
    lance.write_dataset(pa.table({"x": range(100)}), path / "bad" / "manifest.lance")
    (manifest,) = (path / "bad" / "manifest.lance" / "_versions").glob("*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:-20] + b"nonsense" * 3)
    lance.write_dataset(pa.table({"x": np.arange(100_000) ** 2}), path / "bad" / "pages.lance")
    (data,) = (path / "bad" / "pages.lance" / "data").glob("*.lance")
    content = bytearray(data.read_bytes())
    content[:8192] = b"\xff" * 8192
    data.write_bytes(content)
    lance.write_dataset(pa.table({"x": range(100)}), path / "bad" / "missing.lance")
    (data,) = (path / "bad" / "missing.lance" / "data").glob("*.lance")
    data.unlink()
