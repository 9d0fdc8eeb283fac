"""Older releases of the reference read today's files, and we read the rows that they add."""

from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

HERE = Path(__file__).parent
ROWS = 3000
NAMES = ["id", "small", "flag", "none", "price", "day", "when", "text", "empty", "few", "large", "bytes"]
NAMES += ["fixed", "list", "nested", "struct", "vector", "document"]
# What 0.1 keeps: no nulls, no empty text.
LEGACY_NAMES = ["id", "price", "day", "when", "text", "large", "fixed", "struct", "vector"]
CASES = [
    *(
        (release, version, names)
        for release in ("0.20.0", "0.30.0")
        for version, names in (
            ("2.0", NAMES),
            ("2.0", ["id", "code"]),
            ("0.1", LEGACY_NAMES),
            ("0.1", ["id", "code"]),
        )
    ),
    # 0.38.0 is the first release with a stable 2.1.
    *(
        (release, "2.1", names)
        for release in ("0.38.0", "1.0.4", "4.0.2")
        for names in (NAMES, ["id", "code"])
    ),
    *((release, "2.2", names) for release in ("9.0.1",) for names in (NAMES, ["id", "code"])),
]


def _table() -> pa.Table:
    """Every encoding that 2.0 files of ours have."""
    numbers = range(ROWS)
    day = datetime.date(2024, 1, 1)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "small": pa.array([number % 100 if number % 3 else None for number in numbers], pa.int8()),
            "flag": pa.array([number % 5 == 0 if number % 7 else None for number in numbers]),
            "none": pa.nulls(ROWS, pa.float32()),
            "price": pa.array([decimal.Decimal(number) / 4 for number in numbers], pa.decimal128(12, 2)),
            "day": [day + datetime.timedelta(number) for number in numbers],
            "when": pa.array([number * 1000 for number in numbers], pa.timestamp("us", "UTC")),
            "text": [f"text {number}" if number % 11 else None for number in numbers],
            "empty": ["" if number % 2 else None for number in numbers],
            "few": [f"kind {number % 7}" if number % 13 else None for number in numbers],
            "large": pa.array([f"x{number}" for number in numbers], pa.large_string()),
            "bytes": pa.array([bytes([number % 256]) * (number % 9) for number in numbers]),
            "fixed": pa.array([bytes([number % 256]) * 5 for number in numbers], pa.binary(5)),
            "code": pa.array(
                [f"c{number % 4}" if number % 5 else None for number in numbers]
            ).dictionary_encode(),
            "list": [[*range(number % 4)] if number % 6 else None for number in numbers],
            "nested": [[{"x": number, "y": [f"{number}"]}] * (number % 3) for number in numbers],
            "struct": [{"a": number, "b": {"c": f"{number}"}} for number in numbers],
            "document": ["word " * 8_000 + f"{number}" if number % 1_000 == 7 else "" for number in numbers],
            "vector": pa.array([[number, 1.0] for number in numbers], pa.list_(pa.float32(), 2)),
        }
    )


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the installed releases: `LANCE_FLIGHT_RELEASES` keeps them from run to run."""
    kept = os.environ.get("LANCE_FLIGHT_RELEASES")
    return Path(kept) if kept else tmp_path_factory.mktemp("releases")


def _python(environments: Path, release: str) -> Path:
    sys.path.insert(0, str(HERE))
    try:
        from make_fixtures import environment
    finally:
        sys.path.remove(str(HERE))
    return environment(environments / release, release)


@pytest.mark.long("installs older releases of the reference")
@pytest.mark.parametrize(("release", "version", "columns"), CASES)
def test_an_older_release_reads_and_continues_what_we_write(
    release: str, version: str, columns: list[str], environments: Path, tmp_path: Path
) -> None:
    table = _table().select(columns)
    path, expected = tmp_path / "dataset", tmp_path / "expected.arrows"
    with pa.ipc.new_stream(expected, table.schema) as stream:
        stream.write_table(table)
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=700))
    lance_core.write_dataset(
        batches, path, data_storage_version=version, max_rows_per_file=1000, max_page_bytes=1000
    )

    run = subprocess.run(
        [_python(environments, release), HERE / "read_with_release.py", path, expected],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == release
    both = pa.concat_tables([table] if "code" in columns else [table, table])
    lance_core.dataset(path).insert(table.slice(0, 5))
    both = pa.concat_tables([both, table.slice(0, 5)])
    for opened in (lance_core.dataset(path), lance.dataset(str(path))):
        assert opened.to_table().to_pydict() == both.to_pydict()
