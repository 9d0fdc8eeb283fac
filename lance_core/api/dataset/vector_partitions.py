"""Reader of the partitions of a vector index, with the names of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.arguments import named_arguments
from lance_core.errors import IndexNotFoundError, InvalidInputError
from lance_core.index.segments import open_segment
from lance_core.index.vector.opened import OpenVectorSegment
from lance_core.scan.session import session_of

if TYPE_CHECKING:
    from lance_core.api.dataset.methods.opened import OpenedDataset

__all__ = ["VectorIndexReader"]


@named_arguments
class VectorIndexReader:
    """Partitions of a vector index as its files have them: row ids and codes of the rows.

    Rows that were deleted since the index was built are included.
    """

    def __init__(self, dataset: OpenedDataset, index_name: str) -> None:
        """Open the segments of an index.

        Args:
            dataset: The dataset, at the version that has the index.
            index_name: Name of the index.

        Raises:
            IndexNotFoundError: There is no such index.
            InvalidInputError: It is not a vector index.
            UnsupportedFeatureError: Its layout is that of an old release.
            CorruptFileError: A file of the index is damaged.
        """
        self.dataset = dataset
        self.index_name = index_name
        snapshot = dataset.snapshot
        entries = [entry for entry in snapshot.index_segments if entry.name == index_name]
        if not entries:
            names = sorted({entry.name for entry in snapshot.index_segments})
            raise IndexNotFoundError(
                f'Index "{index_name}" not found; this version has: {", ".join(names) or "none"}'
            )
        if not all(entry.index_type.startswith(("IVF", "Vector")) for entry in entries):
            raise InvalidInputError(f"Index {index_name} is not vector index", found=entries[0].index_type)
        cache = session_of(snapshot).indices
        self._segments = [
            OpenVectorSegment(open_segment(snapshot, entry, cache))
            for entry in entries
            if entry.description.fragment_ids
        ]

    def num_partitions(self) -> int:
        """Return the number of partitions; the greatest number if segments differ."""
        return max((segment.num_partitions for segment in self._segments), default=0)

    def read_partition(self, partition_id: int, *, with_vector: bool = False) -> pa.Table:
        """Return the rows of a partition, segment by segment.

        Args:
            partition_id: Number of the partition, from 0.
            with_vector: Add the columns of the codes, such as `__pq_code`, to `_rowid`. The codes of a row
                are together, in whatever layout the file has them.

        Raises:
            IndexError: There is no such partition.
            CorruptFileError: A file of the index is damaged.
            StorageError: The storage failed.
        """
        count = self.num_partitions()
        if not 0 <= partition_id < count:
            raise IndexError(f"Partition id {partition_id} is out of range, expected 0 to {count - 1}")
        return pa.Table.from_batches(
            [
                segment.read_partition(partition_id, with_codes=with_vector)
                for segment in self._segments
                if partition_id < segment.num_partitions
            ]
        )
