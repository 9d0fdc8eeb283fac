"""Checksums of our files cover every byte."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

from lance_core.errors import LanceError
from lance_core.file.data_file import open_data_file
from lance_core.statistics.file_buffer import buffer_of, from_buffer
from lance_core.statistics.file_checksums import verify_file
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage import storage_for
from lance_core.storage.memory import MemoryFile
from support.files.written import read_file, write_file
from support.oracles.comparison import assert_values_equal

VERSIONS = ("2.1", "2.2")
FLIPS = 1_000


def a_table() -> pa.Table:
    """Columns of most kinds of pages, small enough to be read a thousand times."""
    n = 700
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "id": pa.array(range(n)),
            "value": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.2),
            "text": pa.array([f"text {x % 97}" for x in range(n)]),
            "long": pa.array([rng.bytes(300) for _ in range(n)]),
            "list": pa.array([list(range(x % 4)) if x % 5 else None for x in range(n)], pa.list_(pa.int16())),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 80, np.float32)), 80),
            "point": pa.array([{"x": x, "y": None} if x % 3 else None for x in range(n)]),
            "nothing": pa.nulls(n),
        }
    )


def verify(path: Path) -> bool:
    return verify_file(MemoryFile(path.name, path.read_bytes()))


def flipped(data: bytes, bit: int) -> MemoryFile:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return MemoryFile("flipped.lance", bytes(changed))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_flipped_bit_is_found(version: str, tmp_path: Path) -> None:
    """T26: a thousand single flipped bits, all over the file, are all found."""
    path = tmp_path / "whole.lance"
    table = a_table()
    write_file(path, table.to_batches(), table.schema, version, page_bytes=20_000, recorder=FilePageRecorder)
    assert verify(path)
    whole = path.read_bytes()
    rng = random.Random(26)
    # Anywhere in the file, and as often in what describes it.
    tail = len(whole) - min(len(whole), 9_000)
    bits = [rng.randrange(len(whole) * 8) for _ in range(FLIPS // 2)]
    bits += [rng.randrange(tail * 8, len(whole) * 8) for _ in range(FLIPS // 2)]
    for bit in bits:
        with pytest.raises(LanceError):
            assert verify_file(flipped(whole, bit)), f"bit {bit} of {len(whole) * 8}"


def test_every_bit_of_the_footer_counts(tmp_path: Path) -> None:
    """T26: neither the footer nor the seal before it can change unseen."""
    path = tmp_path / "whole.lance"
    table = a_table()
    write_file(path, table.to_batches(), table.schema, "2.1", recorder=FilePageRecorder)
    whole = path.read_bytes()
    for bit in range((len(whole) - 48) * 8, len(whole) * 8):
        with pytest.raises(LanceError):
            assert verify_file(flipped(whole, bit)), f"bit {bit}"


@pytest.mark.parametrize("version", VERSIONS)
def test_readers_skip_what_they_do_not_know(version: str, tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    table = a_table()
    write_file(path, table.to_batches(), table.schema, version, recorder=FilePageRecorder)
    found = LanceFileReader(str(path)).read_all().to_table()
    for name in table.schema.names:
        assert_values_equal(table[name], found[name], label=name)
        assert_values_equal(table[name], read_file(path)[name], label=name)


def test_files_of_others_have_no_checksums(tmp_path: Path) -> None:
    path = tmp_path / "other.lance"
    table = a_table()
    with LanceFileWriter(str(path), table.schema, version="2.1") as writer:
        writer.write_batch(table)
    assert not verify(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_statistics_are_those_of_the_pages(version: str, tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    table = a_table()
    write_file(path, table.to_batches(), table.schema, version, page_bytes=2_000, recorder=FilePageRecorder)
    file = storage_for(str(tmp_path), None).open_file(path.name)
    reader = open_data_file(file)
    place = buffer_of(reader.schema.metadata, reader.metadata.global_buffers, path.name)
    assert place is not None
    statistics = from_buffer(file.read(*place), path.name)
    rows = statistics.column(0, pa.int64())
    assert rows is not None
    assert rows.num_rows > 1
    assert rows["min"].to_pylist() == rows["first_row"].to_pylist()
    assert [a + b - 1 for a, b in zip(rows["min"].to_pylist(), rows["rows"].to_pylist(), strict=True)] == (
        rows["max"].to_pylist()
    )
    values = statistics.column(1, pa.float64())
    assert values is not None
    assert sum(values["null_count"].to_pylist()) == table["value"].null_count


def test_bounds_of_dictionary_pages_are_those_of_their_items(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    table = pa.table({"c": pa.array([f"item {x % 50}" if x % 3 else None for x in range(3_000)])})
    write_file(path, table.to_batches(), table.schema, "2.2", recorder=FilePageRecorder)
    file = storage_for(str(tmp_path), None).open_file(path.name)
    reader = open_data_file(file)
    place = buffer_of(reader.schema.metadata, reader.metadata.global_buffers, path.name)
    assert place is not None
    rows = from_buffer(file.read(*place), path.name).column(0, pa.string())
    assert rows is not None
    (row,) = rows.to_pylist()
    assert (row["rows"], row["null_count"], row["min"], row["max"]) == (3_000, 1_000, "item 0", "item 9")
