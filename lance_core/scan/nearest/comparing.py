"""Comparison of queries with the vectors of Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.file.page_ranges import PlainValues
from lance_core.scan.plan.nearest import NearestQuery, VectorType
from lance_core.scan.read.live_rows import Offsets
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.row_taker import PlainParts

Distances = npt.NDArray[np.float32]


class NearestRows(NamedTuple):
    """The nearest rows of some arrays, query by query; one entry per row."""

    queries: npt.NDArray[np.int32]
    rows: Offsets
    """Numbers of the rows, from the first value of the first array on."""
    distances: Distances


class Comparer:
    """The queries of a search, compared by one metric. Thread-safe."""

    def __init__(
        self,
        query: NearestQuery,
        metric: str,
        numbers: npt.NDArray[np.float64] | None = None,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Prepare to compare the vectors of `query`, or other `numbers` instead.

        `one_by_one`: see `kernels.Comparison`.
        """
        vectors = query.vectors
        given = query.numbers if numbers is None else numbers
        values = given.astype(vectors.query_type(metric))
        self.vectors = vectors
        self.metric = metric
        self.kernel = kernels.Comparison(values.data, vectors.dimension, vectors.element, metric, one_by_one)
        self.num_queries = len(values)
        self._lower, self._upper = query.lower, query.upper

    def nearest(
        self, arrays: Sequence[pa.Array], k: int, rows: Offsets | None = None, keys: Keys | None = None
    ) -> NearestRows:
        """Return the `k` nearest rows for each query, within the bounds of the search.

        Args:
            arrays: Vectors, or lists of vectors, in order.
            k: Most rows for each query.
            rows: The rows to compare, ascending; None means all.
            keys: One key per row of the arrays. Of rows with equal distance the smallest key comes first; the
                first row, if there are no keys.
        """
        found = []
        start = 0
        for array in arrays:
            end = start + len(array)
            chosen = None
            if rows is not None:
                first, last = np.searchsorted(rows, (start, end))
                chosen = rows[first:last] - start
            some_keys = None if keys is None else keys[start:end]
            if self.vectors.is_multiple:
                some = self._nearest_lists(array, k, chosen, some_keys)
            else:
                some = self._nearest(array, k, chosen, some_keys)
            found.append(some._replace(rows=some.rows + start))
            start = end
        return found[0] if len(found) == 1 else join_rows([*found, _NOTHING])

    def distances(self, arrays: Sequence[pa.Array]) -> Distances:
        """Return the distance of each query to each row of the arrays; NaN where there is none.

        The result has one row per query.
        """
        found = [self._list_distances(a) if self.vectors.is_multiple else self._distances(a) for a in arrays]
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)

    def distances_in_files(self, parts: PlainParts, num_rows: int) -> Distances | None:
        """Return the distances of `num_rows` vectors in local files, without a copy of them; see `distances`.

        Returns None if the vectors have to be taken.
        """
        if self.vectors.is_multiple or any(pages.stride != self.kernel.vector_bytes for pages, _, _ in parts):
            return None
        files = [(pages, rows.data, places.data) for pages, rows, places in parts]
        found = kernels.distances_in_files(self.kernel, files, num_rows)
        if found is None:
            return None
        distances: Distances = np.frombuffer(memoryview(found), np.float32)
        return distances.reshape(self.num_queries, num_rows)

    def in_file(
        self, place: PlainValues, k: int, rows: Offsets | None, keys: Keys | None
    ) -> NearestRows | None:
        """Return the nearest rows of vectors in a local file, without a copy of them; see `nearest`.

        Returns None if they have to be read.
        """
        if self.vectors.is_multiple or place.width != self.kernel.vector_bytes:
            return None
        found = kernels.nearest_in_file(
            self.kernel,
            place.reader,
            place.offset,
            place.width,
            place.num_values,
            k,
            None if rows is None else rows.data,
            None if keys is None else keys.data,
            self._lower,
            self._upper,
        )
        return None if found is None else _named(found)

    def are_within(self, distances: Distances) -> npt.NDArray[np.bool_]:
        """Return whether distances are within the bounds of the search. NaN never is."""
        is_kept = ~np.isnan(distances)
        if self._lower is not None:
            is_kept &= distances >= np.float32(self._lower)
        if self._upper is not None:
            is_kept &= distances < np.float32(self._upper)
        return is_kept

    def _nearest(self, array: pa.Array, k: int, rows: Offsets | None, keys: Keys | None) -> NearestRows:
        values, validity, first_bit = _plain_vectors(array, self.vectors)
        return _named(
            kernels.nearest_vectors(
                self.kernel,
                values,
                k,
                validity,
                first_bit,
                None if rows is None else np.ascontiguousarray(rows).data,
                None if keys is None else np.ascontiguousarray(keys).data,
                self._lower,
                self._upper,
            )
        )

    def _distances(self, array: pa.Array) -> Distances:
        values, validity, first_bit = _plain_vectors(array, self.vectors)
        found = kernels.vector_distances(self.kernel, values, validity, first_bit)
        return np.frombuffer(memoryview(found), np.float32).reshape(-1, len(array))

    def _nearest_lists(self, array: pa.Array, k: int, rows: Offsets | None, keys: Keys | None) -> NearestRows:
        (distances,) = self._list_distances(array)
        is_kept = self.are_within(distances)
        if rows is not None:
            is_kept &= np.isin(np.arange(len(distances)), rows)
        numbers = np.flatnonzero(is_kept)
        order = np.lexsort((numbers if keys is None else keys[numbers], distances[numbers]))[:k]
        numbers = numbers[order]
        return NearestRows(np.zeros(len(numbers), np.int32), numbers, distances[numbers])

    def _list_distances(self, array: pa.Array) -> Distances:
        """Return the distances of lists: for each query vector the least distance to a vector of the list,
        and of these the sum.
        """
        lists = array.storage if isinstance(array, pa.ExtensionArray) else array
        offsets = lists.offsets.to_numpy().astype(np.int64)
        starts, ends = offsets[:-1], offsets[1:]
        items = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        is_list = (ends > starts) & lists.is_valid().to_numpy(zero_copy_only=False)
        distances = np.full((1, len(lists)), np.nan, np.float32)
        if is_list.any():
            each = self._distances(items)
            # An entry of `reduceat` ends where the next one begins. Null lists may have vectors, too.
            bounds = np.stack([starts[is_list], ends[is_list]], axis=1).ravel() - offsets[0]
            padded = np.pad(each, ((0, 0), (0, 1)), constant_values=np.nan)
            least = np.fmin.reduceat(padded, bounds, axis=1)[:, ::2]
            distances[0, is_list] = least.sum(axis=0, dtype=np.float64)
        return distances


def join_rows(parts: Sequence[NearestRows]) -> NearestRows:
    """Return the rows of one or more parts, in order."""
    return NearestRows(
        np.concatenate([part.queries for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.distances for part in parts]),
    )


_NOTHING = NearestRows(np.array([], np.int32), np.array([], np.int64), np.array([], np.float32))


def _named(found: tuple[kernels.Block, kernels.Block, list[int]]) -> NearestRows:
    rows, distances, counts = found
    queries = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return NearestRows(
        queries,
        np.frombuffer(memoryview(rows), np.int64),
        np.frombuffer(memoryview(distances), np.float32),
    )


def _plain_vectors(array: pa.Array, vectors: VectorType) -> tuple[pa.Buffer, pa.Buffer | None, int]:
    """Return the numbers of the vectors of an array, its validity, and the first bit of the validity."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    items = array.values
    items = items.storage if isinstance(items, pa.ExtensionArray) else items
    width = items.type.bit_width // 8 * vectors.dimension
    first = items.offset * (items.type.bit_width // 8) + array.offset * width
    buffer = items.buffers()[-1] if len(array) else pa.py_buffer(b"")
    values = buffer.slice(first, len(array) * width)
    return values, array.buffers()[0] if array.null_count else None, array.offset
