"""Search of a segment for a batch of queries; a single query is a batch of one.

The queries that search a partition are gathered, so that each partition is found once, and kernels compare
its rows with all these queries while the rows are in the cache of the processor. The answer of each query is
the one that it gets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_core.index.vector.codes.stored_codes import CodedRows, QueryNumbers, Questions
from lance_core.index.vector.model import SegmentModel
from lance_core.index.vector.probes import first_probes
from lance_core.index.vector.segment_search import Neighbours, SegmentQuery
from lance_core.index.vector.sums import sums_of
from lance_core.kernels import BestRows, Graph, QueriedRows, sorted_rows
from lance_core.process.counters import note

_SCANNED_BYTES = 16 << 20
"""Bytes of codes after which the partitions so far are scanned."""

Numbers = npt.NDArray[np.intp]
PartitionNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LoadedPartition:
    """Rows of a partition, and their graph if the kind of the index has graphs."""

    rows: CodedRows
    graph: Graph | None

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows and of the graph."""
        return self.rows.num_bytes + (0 if self.graph is None else self.graph.num_bytes)


ReadPartitions = Callable[[Sequence[int]], Iterator[tuple[int, LoadedPartition]]]
"""Function that yields partitions with their numbers."""


class BatchSearch:
    """One search of a segment. For one thread."""

    def __init__(
        self, model: SegmentModel, query: SegmentQuery, vectors: npt.NDArray[Any], read: ReadPartitions
    ) -> None:
        """Prepare a search for `vectors`, which are those of the query that can be compared: finite numbers,
        and of norm 1 for `cosine`.
        """
        self._query = query
        self._num_queries = len(vectors)
        self._read = read
        nearness = _nearness(model, vectors)
        self._questions: Questions = model.codes.ask(vectors, nearness)
        self._num_partitions = len(model.partitions)
        order = np.argsort(nearness[:, model.filled], axis=1, kind="stable")
        self._order: PartitionNumbers = model.filled[order]
        """For each query the numbers of the partitions with rows, those with the nearest centroids first."""

    def found(self) -> Neighbours:
        """Return the nearest rows of each query."""
        query = self._query
        numbers, num_rows = np.arange(self._num_queries), query.num_nearest
        rounds: list[Neighbours] = []
        while len(numbers):
            best = [BestRows(num_rows, query.lower, query.upper) for _ in range(self._num_queries)]
            self._search(best, numbers, num_rows)
            keys, distances, counts = sorted_rows([best[number] for number in numbers.tolist()])
            queries = np.repeat(numbers, counts)
            found = Neighbours(
                queries,
                np.frombuffer(memoryview(keys), np.uint64),
                np.frombuffer(memoryview(distances), np.float32),
            )
            if all(each.are_distinct for each in best):
                rounds.append(found)
                break
            # Rows with several vectors were found several times: some queries have too few rows.
            places = _first_of_each_key(found)
            num_kept = np.bincount(queries[places], minlength=self._num_queries)[numbers]
            is_done = (num_kept >= query.num_nearest) | (np.array(counts) < num_rows)
            places = places[np.isin(queries[places], numbers[is_done])]
            rounds.append(_at(found, places[_ranks(queries[places]) < query.num_nearest]))
            numbers = numbers[~is_done]
            num_rows *= 2
        if len(rounds) == 1:
            return rounds[0]
        joined = Neighbours(*(np.concatenate(arrays) for arrays in zip(*rounds, strict=True)))
        return _at(joined, np.argsort(joined.queries, kind="stable"))

    def _search(self, best: Sequence[BestRows], numbers: Numbers, num_rows: int) -> None:
        """Offer the rows of the partitions that are searched for some queries.

        Further partitions are searched for the queries that found fewer than `num_rows` rows.
        """
        query = self._query
        most = self._order.shape[1]
        if query.maximum_probes is not None:
            most = min(most, query.maximum_probes)
        first = first_probes(
            query.num_nearest, self._num_partitions, query.minimum_probes, query.search_effort
        )
        first = min(first, most)
        # The nearest partitions of all queries come first.
        queries = np.repeat(numbers[np.newaxis], first, axis=0)
        self._offer(best, queries.reshape(-1), self._order[numbers, :first].T.reshape(-1))
        for rank in range(first, most):
            numbers = np.array([n for n in numbers.tolist() if len(best[n]) < num_rows], np.intp)
            if not len(numbers):
                break
            self._offer(best, numbers, self._order[numbers, rank])

    def _offer(self, best: Sequence[BestRows], queries: Numbers, partitions: PartitionNumbers) -> None:
        """Offer the rows of partitions to queries, given by pairs of their numbers."""
        numbers, groups = _grouped(queries.astype(np.uint32), partitions)
        waiting: list[QueriedRows] = []
        num_bytes = num_compared = 0
        for (number, partition), mine in zip(self._read(numbers), groups, strict=True):
            rows = partition.rows
            allowed, num_allowed = None, len(rows.keys)
            if self._query.allowed is not None:
                allowed = np.ascontiguousarray(self._query.allowed(rows.keys), np.bool_)
                num_allowed = int(np.count_nonzero(allowed))
                if not num_allowed:
                    continue
                if num_allowed == len(allowed):
                    allowed = None
            if partition.graph is not None:
                for each in mine.tolist():
                    vectors = self._questions.compare(each, rows, number)
                    best[each].search_graph(rows.keys, allowed, vectors, partition.graph, self._width)
                continue
            num_compared += num_allowed * len(mine)
            waiting.append(self._questions.queried(rows, number, allowed, mine))
            num_bytes += rows.codes.nbytes
            if num_bytes > _SCANNED_BYTES:
                self._questions.scan(best, waiting)
                waiting, num_bytes = [], 0
        if waiting:
            self._questions.scan(best, waiting)
        note("partitions_searched", len(partitions))
        note("index_comparisons", num_compared)

    @property
    def _width(self) -> int:
        """Rows that the walk through a graph keeps."""
        query = self._query
        if query.candidates is not None:
            return max(query.candidates, query.num_nearest)
        return query.num_nearest + query.num_nearest // 2


def _grouped(queries: QueryNumbers, partitions: PartitionNumbers) -> tuple[list[int], list[QueryNumbers]]:
    """Return the distinct partitions of pairs, in the order of their first pairs, and the queries of each.

    Rows near to a query limit the distances of further rows. So the nearest partitions come first.
    """
    if (queries == queries[0]).all():
        return partitions.tolist(), [queries[:1]] * len(partitions)
    order = np.argsort(partitions, kind="stable")
    ordered, members = partitions[order], queries[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    bounds = [*starts.tolist(), len(order)]
    turns = np.argsort(order[starts])
    return ordered[starts[turns]].tolist(), [members[bounds[t] : bounds[t + 1]] for t in turns.tolist()]


def _nearness(model: SegmentModel, vectors: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return for each query and partition a number that is less for nearer centroids; see
    `StoredCodes.ask`.
    """
    if model.metric == "hamming":
        return sums_of(vectors, model.points, "hamming")
    queries = np.ascontiguousarray(vectors, np.float32)
    if model.metric == "dot":
        return -sums_of(queries, model.points, "product")
    return sums_of(queries, model.points, "l2")


def _first_of_each_key(found: Neighbours) -> Numbers:
    """Return the places of the first row of each query and key, ascending."""
    order = np.lexsort((found.keys, found.queries))
    keys, queries = found.keys[order], found.queries[order]
    is_first = np.append(True, (keys[1:] != keys[:-1]) | (queries[1:] != queries[:-1]))
    return np.sort(order[is_first])


def _ranks(queries: Numbers) -> Numbers:
    """Return the place of each row among those of its query, for ascending numbers of queries."""
    return np.arange(len(queries)) - np.searchsorted(queries, queries)


def _at(found: Neighbours, places: Numbers) -> Neighbours:
    return Neighbours(found.queries[places], found.keys[places], found.distances[places])
