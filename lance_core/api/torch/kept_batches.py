"""Record batches of the first pass over a dataset, kept on disk for later passes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp

import pyarrow as pa


class KeptBatches:
    """A temporary file with the batches of the first complete iteration, for later ones.

    The file is removed with this object, or at the exit of the process.
    """

    def __init__(self, directory: str | PathLike[str] | None = None) -> None:
        """Create the directory of the file, in `directory` or where the system has temporary files."""
        self._directory = TemporaryDirectory(prefix="lance-batches-", dir=directory)
        self._complete: Path | None = None
        weakref.finalize(self, self._directory.cleanup)

    def batches(self, source: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Return the batches of the file; if there is none yet, those of `source()`, and write it."""
        return self._write(source()) if self._complete is None else self._read(self._complete)

    def _write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        descriptor, path = mkstemp(".arrow", dir=self._directory.name)
        writer = None
        with open(descriptor, "wb") as file:
            for batch in batches:
                writer = writer or pa.ipc.new_stream(file, batch.schema)
                writer.write_batch(batch)
                yield batch
            if writer is not None:
                writer.close()
        self._complete = Path(path)

    @staticmethod
    def _read(path: Path) -> Iterator[pa.RecordBatch]:
        if path.stat().st_size:  # without a batch there is no schema, and no stream
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as batches:
                yield from batches
