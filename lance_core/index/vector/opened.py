"""A segment of a vector index, opened for searches.

`index.idx` has the centroids of the partitions, and graphs if the kind has any. `auxiliary.idx` has the row
keys and the codes of all rows, one partition after the other. A search reads the partitions whose centroids
are nearest to the query. The cache of the segment keeps them.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.segments import OpenSegment
from lance_core.index.vector.codes.stored_codes import (
    ROW_KEY,
    CodedRows,
    Question,
    ScannedRows,
    row_keys,
)
from lance_core.index.vector.graphs import NEIGHBORS, NODE, read_graph
from lance_core.index.vector.model import AUXILIARY_FILE, INDEX_FILE, SegmentModel
from lance_core.index.vector.probes import first_probes
from lance_core.index.vector.segment_search import Neighbours, SegmentQuery
from lance_core.kernels import BestRows, Graph
from lance_core.pool import run_all
from lance_core.process.counters import note

_MOST_PARTITIONS = 64
"""Most partitions that the cache is asked for at once."""
_SCANNED_BYTES = 16 << 20
"""Bytes of codes after which the partitions so far are scanned."""


@dataclass(frozen=True, slots=True)
class _LoadedPartition:
    rows: CodedRows
    graph: Graph | None

    @property
    def num_bytes(self) -> int:
        return self.rows.num_bytes + (0 if self.graph is None else self.graph.num_bytes)


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
            return self._nearest(query)

    def _nearest(self, query: SegmentQuery) -> Neighbours:
        model = self._model
        vector = _usable(query.vector, self.metric)
        if vector is None or not len(model.partitions):
            return _NOTHING
        question = model.codes.ask(vector)
        wanted = query.num_nearest
        while True:
            best = BestRows(wanted, query.lower, query.upper)
            searched_all = self._search(best, vector, question, query, wanted)
            found_keys, found_distances = best.sorted()
            keys = np.frombuffer(memoryview(found_keys), np.uint64)
            distances = np.frombuffer(memoryview(found_distances), np.float32)
            if best.are_distinct:
                return Neighbours(keys, distances)
            # Rows with several vectors appear several times, nearest first.
            _, first = np.unique(keys, return_index=True)
            first = np.sort(first)[: query.num_nearest]
            if len(first) == query.num_nearest or (len(keys) < wanted and searched_all):
                return Neighbours(keys[first], distances[first])
            wanted *= 2

    def _search(
        self, best: BestRows, vector: npt.NDArray[Any], question: Question, query: SegmentQuery, wanted: int
    ) -> bool:
        """Offer the rows of the partitions that are searched. Return whether further ones may not be."""
        partitions = self._model.partitions
        order = self._by_nearness(vector)
        order = order[partitions.lengths[order] > 0]
        most = len(order) if query.maximum_probes is None else min(len(order), query.maximum_probes)
        first = first_probes(query.num_nearest, len(partitions), query.minimum_probes, query.search_effort)
        chosen = order[: min(first, most)]
        self._prefetch(chosen)
        self._offer(best, chosen.tolist(), question, query)
        for number in order[len(chosen) : most].tolist():
            if len(best) >= wanted:
                return False
            self._offer(best, [number], question, query)
        return True

    def _offer(self, best: BestRows, numbers: Sequence[int], question: Question, query: SegmentQuery) -> None:
        """Offer the rows of partitions: as many partitions at once as are not too much memory."""
        waiting: list[ScannedRows] = []
        num_bytes = num_compared = 0
        for number, partition in self._partitions(numbers):
            rows = partition.rows
            allowed, num_allowed = None, len(rows.keys)
            if query.allowed is not None:
                allowed = np.ascontiguousarray(query.allowed(rows.keys), np.bool_)
                num_allowed = int(np.count_nonzero(allowed))
                if not num_allowed:
                    continue
                if num_allowed == len(allowed):
                    allowed = None
            if partition.graph is not None:
                width = query.num_nearest + query.num_nearest // 2
                if query.candidates is not None:
                    width = max(query.candidates, query.num_nearest)
                best.search_graph(rows.keys, allowed, question.compare(rows, number), partition.graph, width)
                continue
            num_compared += num_allowed
            waiting.append(ScannedRows(number, rows, allowed))
            num_bytes += rows.codes.nbytes
            if num_bytes > _SCANNED_BYTES:
                question.scan(best, waiting)
                waiting, num_bytes = [], 0
        if waiting:
            question.scan(best, waiting)
        note("partitions_searched", len(numbers))
        note("index_comparisons", num_compared)

    def _by_nearness(self, vector: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the numbers of all partitions, those with the nearest centroids first."""
        model = self._model
        if model.metric == "hamming":
            distances = np.bitwise_count(model.points ^ vector).sum(axis=1, dtype=np.int64)
        else:
            distances = model.points @ vector.astype(np.float32) * np.float32(-1)
            if model.norms is not None:
                distances = model.norms + 2 * distances
        return np.argsort(distances, kind="stable")

    def _prefetch(self, numbers: npt.NDArray[np.int64]) -> None:
        """Read partitions side by side if the storage is remote."""
        if self._segment.storage.is_remote and len(numbers) > 1:
            run_all([partial(self._partition, number) for number in numbers.tolist()], is_remote=True)

    def _partitions(self, numbers: Sequence[int]) -> Iterator[tuple[int, _LoadedPartition]]:
        """Yield partitions with their numbers. The cache is asked for many of them at once."""
        for start in range(0, len(numbers), _MOST_PARTITIONS):
            some = numbers[start : start + _MOST_PARTITIONS]
            found = self._segment.find_each([("partition", number) for number in some])
            for place, number in enumerate(some):
                kept, found[place] = found[place], None  # a partition that is done with may leave the cache
                if not isinstance(kept, _LoadedPartition):
                    loaded = self._load(number)
                    kept = self._segment.keep(("partition", number), loaded, loaded.num_bytes)
                yield number, kept

    def _partition(self, number: int) -> _LoadedPartition:
        return self._segment.kept(
            ("partition", number), lambda: self._load(number), lambda loaded: loaded.num_bytes
        )

    def _load(self, number: int) -> _LoadedPartition:
        model = self._model
        start, length = int(model.partitions.starts[number]), int(model.partitions.lengths[number])
        file = self._segment.open_file(AUXILIARY_FILE)
        columns = (ROW_KEY, *model.codes.columns)
        rows = model.codes.load(
            file.read(start, start + length, columns), has_graph=model.graph_rows is not None
        )
        rows = replace(rows, keys=self._segment.present(rows.keys))
        if model.graph_rows is None:
            return _LoadedPartition(rows, None)
        start, size = int(model.graph_rows.starts[number]), int(model.graph_rows.lengths[number])
        index = self._segment.open_file(INDEX_FILE)
        batch = index.read(start, start + size, (NODE, NEIGHBORS))
        entry = model.graph_settings[number].get("entry_point", 0)
        if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry < length:
            raise CorruptFileError("entry point of a graph", file=index.name, expected=length, found=entry)
        return _LoadedPartition(rows, read_graph(batch, entry, length, index.name))


def _usable(vector: npt.NDArray[np.generic], metric: str) -> npt.NDArray[Any] | None:
    """Return a query as the codes expect it; None if nothing is near to it."""
    if metric == "hamming":
        return np.ascontiguousarray(vector, np.uint8)
    values: npt.NDArray[Any] = np.asarray(vector)
    if values.dtype != np.float64:
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        return None
    if metric != "cosine":
        return values
    norm = np.linalg.norm(values)
    return values / norm if norm else None


_NOTHING = Neighbours(np.empty(0, np.uint64), np.empty(0, np.float32))
