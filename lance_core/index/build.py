"""Interface between the kinds of indices and the changes that build their segments: see `IndexKind`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.index.progress import Observer, unobserved
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter

VALUE = "value"
"""Name of the first column of the rows to index."""
ROW_KEY = "row_key"
"""Name of the second column of the rows to index: 64-bit row keys without nulls."""

RowNumbers = npt.NDArray[np.uint64]


class RowKeys(Enum):
    """Numbers that name rows in the files of an index."""

    IDS = "ids"
    """Row ids if the table has stable row ids, otherwise row addresses."""
    ADDRESSES = "addresses"
    """Row addresses. Such files name few rows, so the rows are read without keys; see `FragmentRows`."""


@dataclass(frozen=True)
class FragmentRows:
    """Live rows of one fragment that a segment indexes.

    Attributes:
        num_rows: Number of rows.
        addresses_at: Returns the addresses of rows by their numbers, which count the rows from 0 on.
    """

    num_rows: int
    addresses_at: Callable[[RowNumbers], RowNumbers]


class Scan(Protocol):
    """Read of the rows of a segment. Each call starts at the first row."""

    def __call__(self, multiple: int = 1) -> Iterator[pa.RecordBatch]:
        """Yield batches of a few MiB with rows of one fragment each.

        They have the column `VALUE`, and with `RowKeys.IDS` the column `ROW_KEY`. If all values have the same
        width, the batches have a multiple of `multiple` rows, except the last one of a page or fragment.
        """


@dataclass(frozen=True)
class IndexedRows:
    """Live rows of a table that a segment indexes, in the order of their addresses.

    Attributes:
        field: Type and metadata of the indexed column. Extension types are replaced by their storage.
        fragments: The rows by fragment, in the order of `scan`.
        scan: Reads the rows; see `Scan`.
        observer: Is told the progress.
    """

    field: pa.Field
    fragments: Sequence[FragmentRows]
    scan: Scan
    observer: Observer = unobserved

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(fragment.num_rows for fragment in self.fragments)


@dataclass(frozen=True)
class BuiltSegment:
    """Facts about the files that a builder wrote, for the manifest."""

    version: int = 0
    """Version of the files (`index_version`)."""
    details: bytes = b""
    """Serialized details message of the kind."""
    is_empty: bool = False
    """Whether no files were written, because the rows are too few. The segment covers no fragment then."""


Parameters = Mapping[str, object]
"""Options of a build by name."""
Builder = Callable[[IndexedRows, Parameters, SegmentWriter], BuiltSegment]
"""Writes the files of a segment. It raises `InvalidInputError` for wrong parameters before it reads rows.
If there are no rows, it writes the files of an empty index."""


def _no_parameters(files: SegmentFiles) -> Parameters:
    return {}


def _no_statistics(files: SegmentFiles) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class IndexKind:
    """Kind of index that can be built."""

    type_url: str
    """Type URL of the details message."""
    check: Callable[[pa.Field], None]
    """Raises `TypeError` if a column of this type cannot be indexed."""
    build: Builder
    row_keys: RowKeys = RowKeys.IDS
    parameters_of: Callable[[SegmentFiles], Parameters] = _no_parameters
    """Returns the parameters with which a segment was built, from its files."""
    statistics_of: Callable[[SegmentFiles], dict[str, Any]] = _no_statistics
    """Returns facts from the files of a segment, with the keys of the reference."""
    trained: frozenset[str] = frozenset()
    """Parameters of `parameters_of` that were found by training, and that a new training finds again."""
    merged_segments: int | None = 1
    """Number of the newest segments that an optimization replaces, unless the caller says otherwise. None
    means those that are small beside the new rows.
    """
    balanced: Callable[[Sequence[SegmentFiles], IndexedRows, IndexedRows], Parameters | None] | None = None
    """Returns the parameters of one segment that is to replace all segments of an index, because the segments
    became uneven together with new rows. None says that they may stay. The arguments are the segments, oldest
    first, all rows, and those of the rows that no segment has.
    """
    train: Builder | None = None
    """Writes the files of a segment without rows, which only has what training on the rows finds: a model for
    segments that are built apart. It raises `InvalidInputError` if the rows are too few. None: the kind has
    no training.
    """
