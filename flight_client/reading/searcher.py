"""Repeated searches of nearest rows on one stream, which the server plans once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from flight_client.errors import InvalidInputError
from flight_client.network.connections import Connections
from flight_client.reading.exchange import Exchange
from flight_client.reading.search import QUERIES, QUERY_INDEX, query_vectors


class Searcher(Exchange):
    """Searches of one version of a dataset that differ in their queries only.

    A context manager. Threads may share it; their searches come one after the other.
    """

    def __init__(
        self, connections: Connections, scan: Mapping[str, Any], element: pa.DataType | None
    ) -> None:
        """Use `RemoteDataset.searcher`."""
        super().__init__(connections, {"scan": scan})
        # The server converts other numbers to those of the column. Floats of 64 bits hold all of them.
        if element is None or not pa.types.is_floating(element):
            element = pa.float64()
        self._element = np.dtype(element.to_pandas_dtype())
        nearest = scan["nearest"]
        self._shown = (
            f"{scan['dataset']!r}, version={scan['version']}, column={nearest['column']}, k={nearest['k']}"
        )

    def __repr__(self) -> str:
        return f"Searcher({self._shown})"

    def search(self, q: Any) -> pa.Table:
        """Return the rows whose vectors are nearest to a query, nearest first, with the column `_distance`.

        After an error the stream is opened again, at another server if possible.

        Args:
            q: a vector, or a list of vectors. Of several queries the rows are returned one query after the
                other; the column `query_index` has the number of the query.

        Raises:
            InvalidInputError: the query holds no numbers or has another dimension, or the searcher is closed.
        """
        vectors = query_vectors(q)
        if not vectors.size:
            raise InvalidInputError("q: expected a vector, or a list of vectors, found none")
        numbers = pa.array(vectors.astype(self._element).ravel())
        queries = pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[-1])
        table = pa.Table.from_batches([self.answer(pa.RecordBatch.from_arrays([queries], [QUERIES]))])
        return table if vectors.ndim == 2 else table.drop_columns([QUERY_INDEX])
