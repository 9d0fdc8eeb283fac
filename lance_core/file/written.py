"""Options and results of data file writers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lance_core.file.footer import FileVersion
from lance_core.storage.base import Bytes, ReadableFile

PAGE_BYTES = 8 << 20


class PageRecorder(Protocol):
    """Keeps what one file says about its own pages; see `lance_core.statistics.page_recorder`."""

    def bounds(self, values: pa.Array) -> pa.RecordBatch:
        """Statistics of the values of a page of a 0.1 file."""

    def summary(
        self,
        values: pa.Array,
        items: pa.Array | None = None,
        bounds: tuple[bytes, bytes] | None = None,
    ) -> Any:
        """Statistics of the values of a page; called from several threads.

        Args:
            values: of the page.
            items: the distinct ones, where they are known.
            bounds: the least and the greatest of integers or times without nulls, where they are known.
        """

    def add_page(self, column: int, first_row: int, num_rows: int, summary: Any, crc32c: int) -> None:
        """Note the next page of a column of the file; `summary` is None for columns without statistics."""

    def finish(self) -> tuple[str, Bytes]:
        """Return the key of the schema metadata that names a global buffer, and the content of that
        buffer.
        """


@dataclass(frozen=True, slots=True)
class FileTail:
    """Parts of a 2.x file that are written behind its columns."""

    metadata: Mapping[str, bytes] = field(default_factory=dict)
    """Added to the metadata of the schema, in place of entries with the same keys."""
    buffers: Sequence[Bytes] = ()
    """The global buffers 1, 2, ... of the file; buffer 0 is its descriptor."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a data file writer. The metadata of a field (`lance-encoding:...`) overrides them."""

    page_bytes: int = PAGE_BYTES
    """Bytes of values of one column at which a page is full."""
    external_blobs: bool = False
    """Take blobs outside the dataset, which are only named by their URI; refuse them otherwise."""
    open_uri: Callable[[str], ReadableFile] | None = None
    """Opens what a URI of a blob names: then its bytes are taken into the dataset."""
    blob_pack_bytes: int | None = None
    """Most bytes of a side file that blobs share; None: what the field says."""
    batch_rows: int = 1024
    """Rows of a batch of a 0.1 file, where every column has its pages; other versions have no batches."""
    recorder: Callable[[], PageRecorder] | None = None
    """Makes what keeps statistics and checksums of the pages of a 2.x file; None: the file has none."""
    tail: Callable[[], FileTail] = FileTail
    """Called once all rows of a 2.x file are written: returns metadata and global buffers of the file."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete data file, as a manifest describes it."""

    num_rows: int
    num_bytes: int
    version: FileVersion
    field_ids: tuple[int, ...]
    """Fields that own a column of the file."""
    column_indices: tuple[int, ...]
    """The column of each of them."""
