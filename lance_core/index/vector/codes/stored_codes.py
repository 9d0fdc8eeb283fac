"""Common parts of all kinds of codes, and the reading of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.kernels import BestRows, QueriedRows, StoredVectors
from lance_core.schema.arrow_values import numbers_of

ROW_KEY = "_rowid"
"""Column of the row keys."""

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
QueryNumbers = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class CodedRows:
    """Codes of the rows of one partition, in the layout that the kernels of their kind expect."""

    keys: npt.NDArray[np.uint64]
    codes: Array
    row_scales: Floats | None = None
    row_offsets: Floats | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.keys, self.codes, self.row_scales, self.row_offsets)
        return sum(array.nbytes for array in arrays if array is not None)

    def queried(
        self,
        partition: int,
        allowed: Flags | None,
        queries: QueryNumbers,
        shifts: Floats | None = None,
        offsets: Floats | None = None,
        shares: Floats | None = None,
    ) -> QueriedRows:
        """Return the rows as kernels scan them; see `Questions.queried` and `QueriedRows`."""
        return QueriedRows(
            self.keys,
            self.codes,
            queries,
            allowed,
            partition,
            self.row_scales,
            self.row_offsets,
            shifts,
            offsets,
            shares,
        )


class Questions(Protocol):
    """Query vectors, prepared for codes of one segment.

    The distances of a query do not depend on the other queries.
    """

    def queried(
        self, rows: CodedRows, partition: int, allowed: Flags | None, queries: QueryNumbers
    ) -> QueriedRows:
        """Return the rows of a partition for `scan`.

        Args:
            rows: All rows of the partition.
            partition: Number of the partition.
            allowed: Whether each row may be found; None allows all rows.
            queries: Numbers of the queries that search the partition.
        """

    def scan(self, best: Sequence[BestRows], rows: Sequence[QueriedRows]) -> None:
        """Offer the allowed rows with their distances to the best rows of their queries."""

    def compare(self, query: int, rows: CodedRows, partition: int) -> StoredVectors:
        """Return the rows of a partition as a graph compares them with a query one by one."""


class StoredCodes(Protocol):
    """Codes of one segment."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the file with the codes, without the row keys."""

    @property
    def is_exact(self) -> bool:
        """Whether the distances are exact. Otherwise they are estimates."""

    def load(self, batch: pa.RecordBatch, *, has_graph: bool) -> CodedRows:
        """Return the rows of a partition from the columns `ROW_KEY` and `columns`.

        If `has_graph`, the result is for `Questions.compare`, otherwise for `Questions.scan`.

        Raises:
            CorruptFileError: A column has another type or shape.
        """

    def row_by_row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a partition with the codes of each row together.

        Raises:
            CorruptFileError: A column has another type or shape.
        """

    def ask(self, vectors: Array, nearness: Floats) -> Questions:
        """Return the questions of query vectors.

        Args:
            vectors: One query per row. For `cosine` their norms are 1.
            nearness: A number for each query and partition, which is less for nearer centroids: the squared
                distance for `l2` and `cosine`, the negative product for `dot`.
        """


@dataclass(frozen=True)
class CodeModel:
    """Facts about the codes of a segment.

    Attributes:
        file: Name of the file with the codes, for messages.
        metric: `l2`, `cosine`, `dot` or `hamming`.
        dimension: Elements of a vector.
        centroids: Centroid of each partition, in the type of the vectors.
        description: JSON object that describes the codes (`storage_metadata`).
        buffer: Reads a global buffer of the file by its number.
        arrow_schema: Columns of the file.
    """

    file: str
    metric: str
    dimension: int
    centroids: Array
    description: Mapping[str, Any]
    buffer: Callable[[int], bytes]
    arrow_schema: pa.Schema

    @property
    def halving(self) -> float:
        """Factor that makes a distance of `metric` of the squared distance of unit vectors.

        For cosine, codes estimate the squared distance of unit vectors, which is twice the cosine distance.
        """
        return 0.5 if self.metric == "cosine" else 1.0

    def number(self, key: str, least: int, most: int) -> int:
        """Return a whole number of the description.

        Raises:
            CorruptFileError: It is missing, or not in `[least, most]`.
        """
        value = self.description.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise CorruptFileError(
                f"{key!r} of the codes of a vector index",
                file=self.file,
                expected=f"{least} to {most}",
                found=value,
            )
        return value

    def bytes_of(self, batch: pa.RecordBatch, name: str, width: int) -> npt.NDArray[np.uint8]:
        """Return a column of codes with `width` bytes per row.

        Raises:
            CorruptFileError: The column has another type, or nulls.
        """
        column = batch.column(name)
        if column.type != pa.list_(pa.uint8(), width) or column.null_count or column.flatten().null_count:
            raise CorruptFileError(
                f"column {name} of a vector index",
                file=self.file,
                expected=f"{width} bytes per row",
                found=f"{column.type}, {column.null_count} nulls",
            )
        return numbers_of(column.flatten()).reshape(len(column), width)

    def floats_of(self, batch: pa.RecordBatch, name: str) -> Floats:
        """Return a column of float32 numbers.

        Raises:
            CorruptFileError: The column has another type, or nulls.
        """
        column = batch.column(name)
        if column.type != pa.float32() or column.null_count:
            raise CorruptFileError(
                f"column {name} of a vector index", file=self.file, expected="float", found=column.type
            )
        return numbers_of(column)

    def keys_of(self, batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
        """Return the row keys.

        Raises:
            CorruptFileError: The column has another type, or nulls.
        """
        return row_keys(batch, self.file)


def row_keys(batch: pa.RecordBatch, file: str) -> npt.NDArray[np.uint64]:
    """Return the row keys of a partition. `file` is the name of the file for messages.

    Raises:
        CorruptFileError: The column has another type, or nulls.
    """
    column = batch.column(ROW_KEY)
    if column.type != pa.uint64() or column.null_count:
        raise CorruptFileError("row keys of a vector index", file=file, expected="uint64", found=column.type)
    return numbers_of(column)


def with_codes(batch: pa.RecordBatch, name: str, codes: npt.NDArray[np.uint8]) -> pa.RecordBatch:
    """Return a batch with other codes in the column `name`."""
    number = batch.schema.get_field_index(name)
    field = batch.schema.field(number)
    column = pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), type=field.type)
    return batch.set_column(number, field, column)
