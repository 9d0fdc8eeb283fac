"""`lance-flight blobs` and `scan --blob-handling`, on a local dataset and through a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from support.clients.command_line import run_verb
from support.servers.server import serving

LARGE = np.random.default_rng(2).bytes(5 << 20)
VALUES = [b"first", None, b"", LARGE]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the targets of one dataset: its path, and its address on a server."""
    folder = tmp_path_factory.mktemp("blobs")
    table = pa.table({"id": range(4), "b": lance.blob_array(VALUES)})
    lance.write_dataset(table, str(folder / "photos.lance"), data_storage_version="2.2")
    with serving(folder, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield {"path": str(folder / "photos.lance"), "server": f"{server.uri}/photos"}


@pytest.mark.parametrize("kind", ["path", "server"])
def test_one_blob_becomes_a_file(targets: dict[str, str], tmp_path: Path, kind: str) -> None:
    file = tmp_path / "photo"
    for offset in (0, 2, 3):
        run_verb("blobs", targets[kind], "b", "--offset", str(offset), "-o", file, "--force")
        assert file.read_bytes() == VALUES[offset]
    assert run_verb("blobs", targets[kind], "b").stdout_bytes == b"first"

    null = run_verb("blobs", targets[kind], "b", "--offset", "1", "-o", file, "--force", code=1)
    assert "row 1 has no value" in null.stderr
    assert "out of range" in run_verb("blobs", targets[kind], "b", "--offset", "4", code=1).stderr
    assert "not a blob column" in run_verb("blobs", targets[kind], "id", code=1).stderr
    assert "--force replaces it" in run_verb("blobs", targets[kind], "b", "-o", file, code=1).stderr
    assert file.read_bytes() == LARGE
    assert [each.name for each in tmp_path.iterdir()] == ["photo"], "no partial file is left"


@pytest.mark.parametrize("kind", ["path", "server"])
def test_scans_write_bytes(targets: dict[str, str], tmp_path: Path, kind: str) -> None:
    file = tmp_path / "photos.parquet"
    run_verb("scan", targets[kind], "--blob-handling", "all_binary", "-o", file)
    assert parquet.read_table(file)["b"].to_pylist() == VALUES
    run_verb("scan", targets[kind], "-o", file, "--force")
    assert parquet.read_table(file)["b"].to_pylist()[0]["size"] == 5
    run_verb("scan", targets[kind], "--blob-handling", "bytes", code=2)
