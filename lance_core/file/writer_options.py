"""Options and results of data file writers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lance_core.file.external_blobs import ExternalBlobs
from lance_core.file.footer import FileVersion
from lance_core.storage.base import Bytes, ReadableFile

PAGE_BYTES = 8 << 20


class PageRecorder(Protocol):
    """Collector of statistics and checksums of pages; see `lance_core.statistics.page_recorder`."""

    def bounds(self, values: pa.Array) -> pa.RecordBatch:
        """Return the statistics of a page of a 0.1 file."""

    def summary(
        self,
        values: pa.Array,
        items: pa.Array | None = None,
        bounds: tuple[bytes, bytes] | None = None,
    ) -> Any:
        """Return the statistics of a page. Called by several threads.

        Args:
            values: the values of the page.
            items: the distinct values, if known.
            bounds: the least and the greatest value of integers or times without nulls, if known.
        """

    def add_page(self, column: int, first_row: int, num_rows: int, summary: Any, crc32c: int) -> None:
        """Add the next page of a column. `summary` is None for a column without statistics."""

    def finish(self) -> tuple[str, Bytes]:
        """Return the content of a global buffer, and the key of the schema metadata for its number."""


@dataclass(frozen=True, slots=True)
class FileTail:
    """Metadata and global buffers of a 2.x file that are known only after its columns are written."""

    metadata: Mapping[str, bytes] = field(default_factory=dict)
    """Entries added to the schema metadata. They replace entries with the same keys."""
    buffers: Sequence[Bytes] = ()
    """Global buffers 1, 2, ... of the file. (Buffer 0 is its descriptor.)"""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a data file writer. The metadata of a field (`lance-encoding:...`) overrides them."""

    page_bytes: int = PAGE_BYTES
    """Bytes of values at which the page of a column is full."""
    external_blobs: ExternalBlobs = field(default_factory=ExternalBlobs)
    """Rules about blobs that are URIs of files outside the dataset. By default all are refused."""
    open_uri: Callable[[str], ReadableFile] | None = None
    """Opens the file at the URI of a blob. If it is set, the bytes of such blobs are copied into the dataset.
    """
    any_blobs: bool = False
    """Whether 2.2 files may have blobs of the first form, and blobs that are stored already. Tables of 2.2
    files have neither.
    """
    blob_pack_bytes: int | None = None
    """Largest size of a shared side file in bytes; None for the limit in the metadata of the field."""
    batch_rows: int = 1024
    """Rows of a batch of a 0.1 file, in which every column has one page. Other versions have no batches."""
    recorder: Callable[[], PageRecorder] | None = None
    """Makes the collector of page statistics and checksums of a 2.x file; None writes a file without them."""
    tail: Callable[[], FileTail] = FileTail
    """Returns metadata and global buffers of a 2.x file. Called once all rows are written."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete data file, for the manifest."""

    num_rows: int
    num_bytes: int
    version: FileVersion
    field_ids: tuple[int, ...]
    """Ids of the fields that own a column of the file."""
    column_indices: tuple[int, ...]
    """Column index of each of these fields."""
