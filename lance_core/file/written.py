"""What a data file writer is told, and what it tells."""

from dataclasses import dataclass

from lance_core.file.footer import FileVersion

PAGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How data files are written. What a field's own metadata (`lance-encoding:...`) says comes first."""

    page_bytes: int = PAGE_BYTES
    """Bytes of values of one column at which a page is full."""
    batch_rows: int = 1024
    """Rows of a batch of a 0.1 file, where every column has its pages; other versions have no batches."""


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
