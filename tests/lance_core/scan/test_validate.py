"""`validate` of datasets by us and by the reference, whole and damaged."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, LanceError

VERSIONS = ("0.1", "2.0", "2.1", "2.2")


def a_table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {"id": range(5_000), "value": rng.normal(size=5_000), "text": [f"text {x}" for x in range(5_000)]}
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_whole_datasets_are_valid(version: str, tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance_core.write_dataset(a_table(), ours, data_storage_version=version, max_rows_per_file=2_000)
    lance.write_dataset(a_table(), theirs, data_storage_version=version, max_rows_per_file=2_000)
    lance.dataset(theirs).delete("id < 10")
    for path in (ours, theirs):
        lance_core.dataset(path).validate()
    lance.dataset(ours).validate()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_flipped_bit_is_found(version: str, tmp_path: Path) -> None:
    """T26: bits that decode to other values."""
    path = tmp_path / "ours"
    lance_core.write_dataset(a_table(), str(path), data_storage_version=version, max_rows_per_file=2_000)
    rng = random.Random(7)
    files = sorted((path / "data").iterdir())
    for _ in range(25):
        file = rng.choice(files)
        whole = file.read_bytes()
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        with pytest.raises(LanceError):
            lance_core.dataset(str(path)).validate()
        file.write_bytes(whole)
    lance_core.dataset(str(path)).validate()


def test_missing_files_are_found(tmp_path: Path) -> None:
    path = tmp_path / "ours"
    lance_core.write_dataset(a_table(), str(path), max_rows_per_file=2_000)
    next((path / "data").iterdir()).unlink()
    with pytest.raises(LanceError):
        lance_core.dataset(str(path)).validate()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_scans_check_the_pages_they_read(version: str, tmp_path: Path) -> None:
    """T26: a flipped bit that decodes is found by a scan that was asked to look, in columns that it reads."""
    path = tmp_path / "ours"
    lance_core.write_dataset(a_table(), str(path), data_storage_version=version)
    assert lance_core.dataset(str(path)).to_table(verify_checksums=True).equals(a_table())
    (file,) = (path / "data").iterdir()
    whole = file.read_bytes()
    value = a_table()["value"][77].as_py()
    changed = bytearray(whole)
    changed[whole.index(np.float64(value).tobytes())] ^= 1
    file.write_bytes(changed)
    dataset = lance_core.dataset(str(path))
    assert not dataset.to_table().equals(a_table())
    assert dataset.to_table(columns=["id"], verify_checksums=True).num_rows == 5_000
    for arguments in ({}, {"columns": ["value"], "limit": 1}, {"columns": ["id"], "filter": "value > 0"}):
        with pytest.raises(CorruptFileError, match="checksum"):
            dataset.to_table(verify_checksums=True, **arguments)


def test_files_of_others_have_nothing_to_check(tmp_path: Path) -> None:
    lance.write_dataset(a_table(), str(tmp_path / "theirs"))
    assert lance_core.dataset(str(tmp_path / "theirs")).to_table(verify_checksums=True).equals(a_table())
