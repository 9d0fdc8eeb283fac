"""Nearest rows of queries that come in batches, for a DoExchange. Free of Flight types."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from flight_server.catalog.views import View
from flight_server.reading.fresh_rows import check_fresh, fresh_rows
from flight_server.reading.scan_options import plan_view, scan_options
from flight_server.requests.commands import RepeatedSearch
from flight_server.requests.names import shown
from lance_core.api.serving import SearchReads, vector_type, with_queries
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

QUERIES = "q"
"""Column with the query vectors."""


class Searches:
    """Searches that differ in their queries only, of one version of a dataset. For one thread.

    They are bound and planned once. So a search takes less time than one that comes as a command.
    """

    def __init__(
        self,
        view: View,
        command: RepeatedSearch,
        queries: pa.Schema,
        check: Callable[[int], None],
        max_answer_bytes: int,
    ) -> None:
        """Plan the searches. `check` raises for more rows than one search may gather on this server.

        Raises:
            InvalidInputError: `queries` is not one column of vectors, or the command is invalid.
            UnsupportedFeatureError: rows of the dataset have several vectors.
        """
        if queries.names != [QUERIES]:
            raise InvalidInputError(
                "queries come in one column", expected=QUERIES, found=shown(str(queries.names))
            )
        fields = command.scan.nearest or {}
        vectors = vector_type(view.schema, fields["column"])
        if vectors.is_multiple:
            raise UnsupportedFeatureError(
                "rows with several vectors are not searched over DoExchange; send each search as a scan",
                column=fields["column"],
            )
        some_query = [0.0] * vectors.dimension
        scan = replace(command.scan, nearest={**fields, "q": [some_query]})
        plan = plan_view(view, scan_options(scan, view))
        assert plan.options.nearest is not None
        self._query = plan.options.nearest
        self._reads = SearchReads(view.snapshot, plan)
        self._is_fresh = view.hides_rows
        if self._is_fresh:
            check_fresh(self._reads.schema)
        self._check = check
        self._max_answer_bytes = max_answer_bytes

    @property
    def schema(self) -> pa.Schema:
        """Schema of the answers."""
        return self._reads.schema

    @contextmanager
    def rows(self, queries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows near to the queries of one batch, query by query, as a scan returns them.

        While the block runs, the rows count as memory of the server.

        Raises:
            InvalidInputError: no queries, null, of another dimension, or too many; or an answer that is too
                large.
            LanceError: something cannot be read.
        """
        self._check(self._query.most_gathered * queries.num_rows)
        num_bytes = len(self._query.queries) * queries.num_rows
        if num_bytes > self._max_answer_bytes:
            raise InvalidInputError(
                "the queries of one batch are too large: send fewer",
                expected=f"at most {self._max_answer_bytes} bytes as floats of 64 bits",
                found=num_bytes,
            )
        query = with_queries(self._query, queries.column(0))
        with self._reads.held_batch(query, self._max_answer_bytes) as rows:
            yield fresh_rows(rows) if self._is_fresh else rows
