"""Interface between uploads and their writers; free of Flight types."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lance_core.api.serving import StagedChange, StagedWriter


class Batches(Protocol):
    """Source of rows.

    The iteration ends when all rows were received, and raises an error if the upload breaks off.
    """

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class NoRows:
    """Upload of columns without rows."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(())


class Abortable(Protocol):
    """Writer of files."""

    def abort(self) -> None:
        """Remove the files."""


Abandonable = Callable[[Abortable], AbstractContextManager[None]]
"""Context in which a writer may be aborted; see `Targets.abandonable`."""


def write_all(writer: StagedWriter, upload: Batches, abandonable: Abandonable) -> StagedChange:
    """Write all batches of an upload, and return the staged change.

    Raises:
        LanceError: the upload or the writer failed; no file is left.
    """
    try:
        with abandonable(writer):
            for batch in upload.batches():
                writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise
