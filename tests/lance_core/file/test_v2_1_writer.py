"""Files of 2.1 and 2.2 written here, read by us and by the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from support.written import check_file

VERSIONS = ("2.1", "2.2")


@pytest.mark.parametrize("version", VERSIONS)
def test_flat_and_nested_columns(version: str, tmp_path: Path) -> None:
    n = 10_000
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "i": pa.array(range(n), pa.int32()),
            "n": pa.array([None if x % 3 == 0 else x for x in range(n)], pa.int64()),
            "b": pa.array(rng.random(n) < 0.5),
            "f": pa.array(rng.random(n)),
            "s": pa.array([f"value {x}" for x in range(n)]),
            "c": pa.array([f"c{x % 7}" if x % 5 else None for x in range(n)]),
            "none": pa.nulls(n),
            "nulls": pa.nulls(n, pa.int32()),
            "runs": pa.array([x // 500 for x in range(n)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 4, dtype=np.float32)), 4),
            "l": pa.array(
                [None if x % 11 == 0 else list(range(x % 5)) for x in range(n)], pa.list_(pa.int32())
            ),
            "st": pa.array([None if x % 13 == 0 else {"a": x, "b": [{"q": x}] * (x % 3)} for x in range(n)]),
        }
    )
    check_file(tmp_path / "a.lance", table, version)
    check_file(tmp_path / "b.lance", table, version, page_bytes=10_000)
