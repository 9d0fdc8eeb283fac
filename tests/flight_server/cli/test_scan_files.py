"""`lance-flight scan -o`: CSV, JSON, Parquet and Arrow files, and what `put` makes of them again."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather, ipc, parquet

import lance_core
from support.clients.command_line import run_verb

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-1, None, 5]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, None]),
    "half": (pa.float16(), [0.5, None, 65504.0]),
    "float": (pa.float32(), [0.1, float("inf"), 1e-30]),
    "double": (pa.float64(), [0.1, float("nan"), 5e-324]),
    "flag": (pa.bool_(), [True, False, None]),
    "text": (pa.string(), ["", None, 'say "x",\n NA']),
    "digits": (pa.large_string(), ["007", "NA", "nan"]),
    "word": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"]),
    "day": (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    "second": (pa.time32("s"), [time(1, 2, 3), None, None]),
    "nano": (pa.time64("us"), [time(1, 2, 3, 4), None, None]),
    "local": (pa.timestamp("us"), [datetime(2024, 1, 1, 2, 3, 4, 5), None, datetime(1900, 1, 1)]),
    "instant": (pa.timestamp("ms", "UTC"), [datetime(2024, 1, 1, tzinfo=UTC), None, None]),
    "oslo": (pa.timestamp("us", "Europe/Oslo"), [datetime(2024, 7, 1, tzinfo=UTC), None, None]),
    "span": (pa.duration("ms"), [timedelta(milliseconds=5), None, timedelta(days=-1)]),
    "price": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal("-3")]),
    "wide": (pa.decimal256(50, 3), [Decimal(10**40), None, Decimal("0.001")]),
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a column of every type that CSV has text for."""
    path = tmp_path_factory.mktemp("scan") / "values.lance"
    table = pa.table({name: pa.array(values, type_) for name, (type_, values) in VALUES.items()})
    lance_core.write_dataset(table, path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".csv.zst"])
def test_put_reads_the_csv_that_scan_writes(dataset: Path, tmp_path: Path, suffix: str) -> None:
    file, copy = tmp_path / f"values{suffix}", tmp_path / "copy.lance"
    run_verb("scan", dataset, "-o", file)
    types = [word for name, (type_, _) in VALUES.items() for word in ("--types", f"{name}={type_}")]

    run_verb("put", file, copy, "--mode", "create", *types)

    expected, found = (lance.dataset(str(path)).to_table() for path in (dataset, copy))
    assert found.schema.types == expected.schema.types
    assert repr(found.to_pydict()) == repr(expected.to_pydict())
    # A dataset that is there declares the types as well.
    run_verb("put", file, copy)
    found = lance.dataset(str(copy)).to_table()
    assert repr(found.slice(3).to_pydict()) == repr(expected.to_pydict())
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["copy.lance", file.name]


def test_nulls_of_one_column_are_rows(tmp_path: Path) -> None:
    lance_core.write_dataset(pa.table({"a": [None, 1, None]}), tmp_path / "a.lance")
    run_verb("scan", tmp_path / "a.lance", "-o", tmp_path / "a.csv")
    run_verb("put", tmp_path / "a.csv", tmp_path / "b.lance", "--mode", "create")
    assert lance.dataset(str(tmp_path / "b.lance")).to_table().to_pydict() == {"a": [None, 1, None]}


def test_formats(dataset: Path, tmp_path: Path) -> None:
    scan = ("scan", dataset, "--columns", "int8,text", "-o")
    expected = {"int8": [-1, None, 5], "text": ["", None, 'say "x",\n NA']}
    rows = [dict(zip(expected, row, strict=True)) for row in zip(*expected.values(), strict=True)]
    run_verb(*scan, tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet").to_pydict() == expected
    run_verb(*scan, tmp_path / "a.arrow")
    assert ipc.open_file(tmp_path / "a.arrow").read_all().to_pydict() == expected
    run_verb(*scan, tmp_path / "a.feather")
    assert feather.read_table(tmp_path / "a.feather").to_pydict() == expected
    for name, read in (
        ("a.jsonl", bytes),
        ("a.json.gz", gzip.decompress),
        ("a.ndjson.zst", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
    ):
        run_verb(*scan, tmp_path / name)
        assert [json.loads(line) for line in read((tmp_path / name).read_bytes()).splitlines()] == rows
    run_verb(*scan, tmp_path / "a.txt", "--format", "csv")
    text = '"int8","text"\n-1,""\n,\n5,"say ""x"",\n NA"\n'
    assert (tmp_path / "a.txt").read_text() == text
    assert run_verb("scan", dataset, "--columns", "int8,text", "--format", "csv").stdout == text


def test_a_file_that_exists_stays_unless_it_is_to_be_replaced(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("mine")
    scan = ("scan", dataset, "--columns", "flag", "-o", file)
    error = run_verb(*scan, code=1).stderr
    assert "a.csv" in error
    assert "--force" in error
    assert file.read_text() == "mine"
    run_verb(*scan, "--force")
    assert file.read_text() == '"flag"\ntrue\nfalse\n\n'


def test_a_folder_that_does_not_exist_is_named(dataset: Path, tmp_path: Path) -> None:
    done = run_verb("scan", dataset, "-o", tmp_path / "none" / "rows.parquet", code=1)
    assert (
        done.stderr == f"error: the folder of the file does not exist (file {tmp_path}/none/rows.parquet)\n"
    )


def test_a_scan_that_fails_leaves_no_file(dataset: Path, tmp_path: Path) -> None:
    """The file that is replaced stays as it was."""
    columns = '{"x": "CAST(digits AS INT)"}'
    for name in ("a.csv", "a.jsonl.gz", "a.parquet", "a.arrow"):
        file = tmp_path / name
        file.write_text("mine")
        done = run_verb("scan", dataset, "--columns", columns, "-o", file, "--force", code=1)
        assert done.stderr.splitlines()[-1].startswith("error: ")
        assert file.read_text() == "mine"
        file.unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
        pa.array([b"x"]),
        pa.array([b"xy"], pa.binary(2)),
    ],
    ids=lambda values: str(values.type),
)
def test_values_without_text_are_refused_by_name(tmp_path: Path, values: pa.Array) -> None:
    lance_core.write_dataset(pa.table({"id": [1], "v": values}), tmp_path / "a.lance")
    error = run_verb("scan", tmp_path / "a.lance", "-o", tmp_path / "a.csv", code=1).stderr
    assert "column v" in error
    assert "--columns" in error
    assert not (tmp_path / "a.csv").exists()
    run_verb("scan", tmp_path / "a.lance", "--columns", "id", "-o", tmp_path / "a.csv")
    run_verb("scan", tmp_path / "a.lance", "-o", tmp_path / "a.jsonl")
