"""Single data files in S3."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa

from lance_core.api import file as ours
from support.stores.s3 import S3


def test_files_on_s3(s3: S3, bucket: str, tmp_path: Path) -> None:
    """An object is replaced, too, whether one request writes it or several do."""
    options = s3.options()
    session = ours.LanceFileSession(f"s3://{bucket}/files", options)
    noise = np.random.default_rng(1).integers(0, 1 << 62, 2_000_000)
    for values in ([1, 2], noise, [3]):
        with ours.LanceFileWriter(f"s3://{bucket}/files/f.lance", storage_options=options) as writer:
            writer.write_batch(pa.table({"a": values}))
        read = ours.LanceFileReader(f"s3://{bucket}/files/f.lance", options).read_all().to_table()
        theirs = lance.file.LanceFileReader(f"s3://{bucket}/files/f.lance", options).read_all().to_table()
        assert read["a"].to_pylist() == theirs["a"].to_pylist() == list(values)
    assert session.list() == ["f.lance"]
    session.download_file("f.lance", tmp_path / "f")
    session.upload_file(tmp_path / "f", "g.lance")
    assert session.open_reader("g.lance").take_rows([0]).to_table()["a"].to_pylist() == [3]
    session.delete_file("f.lance")
    assert session.list() == ["g.lance"]
