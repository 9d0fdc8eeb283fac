"""Copies of index files with other row keys, in the same file version, with the same columns, metadata and
buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from lance_core.file.writer_options import FileTail
from lance_core.index.segment_files import SegmentFiles, SourceFile
from lance_core.index.segment_writer import SegmentWriter


@dataclass(frozen=True)
class SegmentCopy:
    """Rewrite of an index segment."""

    source: SegmentFiles
    target: SegmentWriter

    def copy(
        self,
        name: str,
        step: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        tail: Callable[[SourceFile], FileTail] | None = None,
    ) -> None:
        """Write a new version of a file of the segment.

        Args:
            name: name of the file.
            step: returns the changed rows of a batch; None copies the rows.
            tail: returns changed metadata and the global buffers, after all rows; None copies both.
        """
        with self.source.source(name) as source:
            batches = source.batches() if step is None else map(step, source.batches())
            self.write(name, source, batches, tail)

    def copy_bytes(self, name: str) -> None:
        """Copy a file of the segment byte by byte."""
        with self.source.open(name) as source:
            self.target.copy_bytes(name, source)

    def write(
        self,
        name: str,
        source: SourceFile,
        batches: Iterable[pa.RecordBatch],
        tail: Callable[[SourceFile], FileTail] | None = None,
    ) -> None:
        """Write `batches` to a file with the columns and version of `source`; see `copy` for `tail`."""
        with self.target.create(name, source.schema, source.version) as file:
            for batch in batches:
                file.write(batch)
            ending = tail(source) if tail else FileTail(buffers=source.global_buffers())
            file.add_tail(ending)
