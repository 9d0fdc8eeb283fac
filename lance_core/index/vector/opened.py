"""A segment of a vector index, opened for searches.

`index.idx` has the centroids of the partitions, and graphs if the kind has any. `auxiliary.idx` has the row
keys and the codes of all rows, one partition after the other. A search reads the partitions whose centroids
are nearest to the query. The cache of the segment keeps them.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.segments import OpenSegment
from lance_core.index.vector.batch_search import BatchSearch, LoadedPartition
from lance_core.index.vector.codes.stored_codes import ROW_KEY, row_keys
from lance_core.index.vector.graphs import NEIGHBORS, NODE, read_graph
from lance_core.index.vector.model import AUXILIARY_FILE, INDEX_FILE, SegmentModel
from lance_core.index.vector.segment_search import Neighbours, SegmentQuery
from lance_core.pool import run_all

_MOST_PARTITIONS = 64
"""Most partitions that the cache is asked for at once."""


class OpenVectorSegment:
    """A vector segment as a search asks it, see `VectorSegment`. Thread-safe."""

    def __init__(self, segment: OpenSegment) -> None:
        """Read the description of a segment, but none of its rows.

        Raises:
            CorruptFileError: A file contradicts the format.
            UnsupportedFeatureError: A kind, a layout or codes that are not supported.
            FileMissingError: The segment has no files: the index was created without data.
            StorageError: The storage failed.
        """
        if not segment.has_file(AUXILIARY_FILE) and segment.has_file(INDEX_FILE):
            raise UnsupportedFeatureError(
                "vector index in one file, of an old release; build it again", file=segment.path(INDEX_FILE)
            )
        self._segment = segment
        self._model = segment.kept(
            "vector model",
            lambda: SegmentModel(*segment.open_files((INDEX_FILE, AUXILIARY_FILE))),
            lambda model: model.num_bytes,
        )

    @property
    def kind(self) -> str:
        """Name of the kind, such as `IVF_PQ`."""
        return self._model.kind

    @property
    def metric(self) -> str:
        """`l2`, `cosine`, `dot` or `hamming`."""
        return self._model.metric

    @property
    def dimension(self) -> int:
        """Number of elements of a vector."""
        return self._model.dimension

    @property
    def is_exact(self) -> bool:
        """Whether the distances of answers are exact. Otherwise they are estimates from codes."""
        return self._model.codes.is_exact

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return len(self._model.partitions)

    def read_partition(self, number: int, *, with_codes: bool) -> pa.RecordBatch:
        """Return the row keys of a partition, and with `with_codes` all columns, the codes row after row.

        Raises:
            CorruptFileError: The bytes contradict the format.
            StorageError: The storage failed.
        """
        model = self._model
        start, length = int(model.partitions.starts[number]), int(model.partitions.lengths[number])
        file = self._segment.open_file(AUXILIARY_FILE)
        batch = file.read(start, start + length, None if with_codes else (ROW_KEY,))
        keys = pa.array(self._segment.present(row_keys(batch, file.name)))
        batch = batch.set_column(batch.schema.get_field_index(ROW_KEY), ROW_KEY, keys)
        return model.codes.row_by_row(batch) if with_codes else batch

    def warm(self) -> Iterator[None]:
        """Read the partitions into the cache, one at each step. Raise `LanceError` if one cannot be read."""
        for number in np.flatnonzero(self._model.partitions.lengths).tolist():
            self._partition(number)
            yield

    def nearest(self, query: SegmentQuery) -> Neighbours:
        """Return the nearest rows; see `VectorSegment.nearest`.

        A distance that is beyond a float of 32 bits becomes infinite. One that is not a number is left out.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            vectors, numbers = _usable(query.vectors, self.metric)
            if not len(numbers) or not len(self._model.filled):
                return _NOTHING
            found = BatchSearch(self._model, query, vectors, self._partitions).found()
            return found._replace(queries=numbers[found.queries])

    def _partitions(self, numbers: Sequence[int]) -> Iterator[tuple[int, LoadedPartition]]:
        """Yield partitions with their numbers. The cache is asked for many of them at once."""
        for start in range(0, len(numbers), _MOST_PARTITIONS):
            some = numbers[start : start + _MOST_PARTITIONS]
            if self._segment.storage.is_remote and len(some) > 1:
                run_all([partial(self._partition, number) for number in some], is_remote=True)
            found = self._segment.find_each([("partition", number) for number in some])
            for place, number in enumerate(some):
                kept, found[place] = found[place], None  # a partition that is done with may leave the cache
                if not isinstance(kept, LoadedPartition):
                    loaded = self._load(number)
                    kept = self._segment.keep(("partition", number), loaded, loaded.num_bytes)
                yield number, kept

    def _partition(self, number: int) -> LoadedPartition:
        return self._segment.kept(
            ("partition", number), lambda: self._load(number), lambda loaded: loaded.num_bytes
        )

    def _load(self, number: int) -> LoadedPartition:
        model = self._model
        start, length = int(model.partitions.starts[number]), int(model.partitions.lengths[number])
        file = self._segment.open_file(AUXILIARY_FILE)
        columns = (ROW_KEY, *model.codes.columns)
        rows = model.codes.load(
            file.read(start, start + length, columns), has_graph=model.graph_rows is not None
        )
        rows = replace(rows, keys=self._segment.present(rows.keys))
        if model.graph_rows is None:
            return LoadedPartition(rows, None)
        start, size = int(model.graph_rows.starts[number]), int(model.graph_rows.lengths[number])
        index = self._segment.open_file(INDEX_FILE)
        batch = index.read(start, start + size, (NODE, NEIGHBORS))
        entry = model.graph_settings[number].get("entry_point", 0)
        if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry < length:
            raise CorruptFileError("entry point of a graph", file=index.name, expected=length, found=entry)
        return LoadedPartition(rows, read_graph(batch, entry, length, index.name))


def _usable(vectors: npt.NDArray[np.generic], metric: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Return queries as the codes expect them, and their numbers, without those that nothing is near to."""
    if metric == "hamming":
        return np.ascontiguousarray(vectors, np.uint8), np.arange(len(vectors))
    values: npt.NDArray[Any] = np.asarray(vectors)
    if values.dtype != np.float64:
        values = values.astype(np.float32)
    if metric != "cosine" and np.isfinite(values).all():
        return np.ascontiguousarray(values), np.arange(len(values))
    is_usable = np.isfinite(values).all(axis=1)
    if metric == "cosine":
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        is_usable &= norms[:, 0] != 0
        values = values / np.where(norms, norms, 1)
    return np.ascontiguousarray(values[is_usable]), np.flatnonzero(is_usable)


_NOTHING = Neighbours(np.empty(0, np.intp), np.empty(0, np.uint64), np.empty(0, np.float32))
