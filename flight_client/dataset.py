"""Dataset on a server as a `pyarrow.dataset.Dataset`: engines like DuckDB push columns and filters to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as arrow
import pyarrow.fs
from pyarrow import flight

from flight_client.errors import InvalidInputError, UnsupportedFeatureError
from flight_client.reading.arguments import Columns, Condition, check_arguments, sql_columns
from flight_client.reading.blob_reads import BlobReads
from flight_client.reading.ordering import ColumnOrdering
from flight_client.reading.row_reads import RowReads
from flight_client.reading.scanner import RemoteScanner, Selection, Snapshot
from flight_client.reading.search import DEFAULT_NEAREST, text_fields
from flight_client.reading.searcher import Searcher
from flight_client.versions import Versions

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class RemoteDataset(Versions, BlobReads, RowReads, arrow.UnionDataset):  # type: ignore[misc]
    """Dataset on a server, at one version. Nothing is transferred before rows are requested.

    A filter is SQL text, which the server evaluates, or a `pyarrow.compute` expression. The client sends the
    part of an expression that the server understands, and evaluates the rest itself. The server compares
    floats like Lance, DuckDB and Polars: NaN equals NaN and is greater than every number. The client compares
    floats like Arrow.
    """

    def __init__(
        self, snapshot: Snapshot, *, condition: pc.Expression | None = None, sql: str | None = None
    ) -> None:
        """Use `flight_client.connect(...).dataset(name)`."""
        super().__init__(snapshot.schema, [_without_rows(snapshot.schema)])
        self._snapshot = snapshot
        self._condition = condition
        self._sql = sql

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._snapshot, self._condition, self._sql)

    def _of(self, snapshot: Snapshot) -> RemoteDataset:
        return RemoteDataset(snapshot, condition=self._condition, sql=self._sql)

    def __len__(self) -> int:
        """Return `count_rows()`."""
        return self.count_rows()

    def __bool__(self) -> bool:
        """Return True, also without rows: code that tests for None by truth asks no server."""
        return True

    def __repr__(self) -> str:
        shown = self.schema.names[:_MAX_SHOWN_COLUMNS]
        lines = [f"  {name}: {kind}" for name, kind in zip(shown, self.schema.types, strict=False)]
        if hidden := len(self.schema) - len(shown):
            lines.append(f"  ... and {hidden:,} more columns")
        filtered = "".join(f", filter={part}" for part in self._conditions)
        facts = f"version={self.version}, rows={self._snapshot.num_rows:,}{filtered}"
        return "\n".join([f"RemoteDataset({self.name!r}, {facts})", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>"
            for field in self.schema
        )
        facts = [self.name, f"version {self.version}", f"{self._snapshot.num_rows:,} rows"]
        facts += [f"where {part}" for part in self._conditions]
        title = " &middot; ".join(map(escape, facts))
        return f"<b>{title}</b><table><tr><th>column</th><th>type</th></tr>{rows}</table>"

    @property
    def _conditions(self) -> list[str]:
        return [str(part) for part in (self._sql, self._condition) if part is not None]

    @property
    def name(self) -> str:
        """Name of the dataset on the server."""
        return self._snapshot.target.name

    @property
    def version(self) -> int:
        """Version that is read, whatever is committed meanwhile."""
        return self._snapshot.target.version

    @property
    def branch(self) -> str | None:
        """Branch of the version; None for main."""
        return self._snapshot.target.branch

    @property
    def schema(self) -> pa.Schema:
        """Schema of all columns, as reads return them: blobs as their descriptors."""
        return self._snapshot.schema

    def scanner(
        self,
        columns: Columns = None,
        filter: Condition = None,
        batch_size: int | None = None,
        *,
        batch_rows: int | None = None,
        limit: int | None = None,
        offset: int | None = None,
        fragments: Sequence[int] | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        verify_checksums: bool = False,
        blob_handling: str | None = None,
        order_by: Sequence[str | ColumnOrdering] | None = None,
        compression: str | None = None,
        nearest: Mapping[str, Any] | None = None,
        full_text_query: Any = None,
        hybrid: Mapping[str, Any] | None = None,
        search_filter: str | None = None,
        index_segments: Sequence[str] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        use_scalar_index: bool = True,
        **ignored: Any,
    ) -> RemoteScanner:
        """Return a scan, which is planned and read when its rows are requested.

        Args:
            columns: names, nested ones with dots; or SQL expressions by name. None for all columns.
            filter: SQL or a `pyarrow.compute` expression; only rows that meet it.
            batch_size: largest number of rows in a batch. Batches have at most 2 MiB in any case.
            batch_rows: same as `batch_size`, under its name in commands.
            limit, offset: range of the rows that meet the filter, in dataset order or in that of `order_by`.
            fragments: ids of fragments; only their rows.
            with_row_id, with_row_address: whether to add the columns `_rowid`, `_rowaddr`.
            verify_checksums: whether the server checks the pages that it reads; for rows that are written
                elsewhere.
            blob_handling: "blobs_descriptions" (the default) or "all_descriptions" for the descriptors of
                blobs, "all_binary" for their bytes. A row that is larger than a batch is one batch.
            order_by: columns to sort the rows by, the most significant first; a name means ascending, with
                nulls last. The server sorts, and with a small limit keeps the first rows only.
            nearest: return the rows with the nearest vectors instead, nearest first, with the column
                `_distance`: a mapping with `q` (a vector, or a list of vectors), `column`, `k`, `metric`,
                and the other arguments that docs/vector-search.md lists.
            full_text_query: return the rows that contain words instead, the rows with the best scores first,
                with the column `_score`: a text, the JSON object of a query or an object that writes it
                (`to_json`), or a mapping with `query` and `columns`; see docs/text-search.md.
            hybrid: join the rows of both searches to one ranking, with the column `_relevance_score`: a
                mapping with `method`, `depth`, `weights` and `rank_constant`, all of which may be left out.
                If both are given, either this or `search_filter` is needed.
            search_filter: "vector" or "text": the search that only filters the rows of the other search. The
                other search ranks the rows and gives the result its column.
            index_segments: uuids of the segments of a vector index that find the rows of `nearest`, as
                `describe` lists them. Only rows that they cover are found, or those of `fragments`.
            prefilter: whether a search searches only rows that meet `filter` and are found by
                `search_filter`. Otherwise both apply to the rows that the search finds.
            compression: of batches on the wire: "none" (the default), "lz4", "zstd", or "auto": the server
                chooses while it sends, by the speed of the network.
            fast_search: whether a search leaves out rows that no index covers. A filter that an index answers
                then leaves out the fragments that the index does not cover.
            use_scalar_index: whether indices of the server may find the rows for the filter.
            **ignored: other arguments of `pyarrow.dataset.Dataset.scanner`, about the way Arrow reads files.

        Raises:
            InvalidInputError: an argument is invalid.
        """
        check_arguments(ignored)
        if batch_rows is not None and batch_size not in (None, batch_rows):
            raise InvalidInputError(
                f"batch_size and batch_rows: expected one of them, found {batch_size} and {batch_rows}"
            )
        columns = sql_columns(columns)
        sql, condition = self._and(filter)
        selection = Selection(
            columns=columns,
            filter=sql,
            condition=condition,
            limit=limit,
            offset=offset,
            fragments=None if fragments is None else tuple(fragments),
            batch_rows=batch_size if batch_rows is None else batch_rows,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            verify_checksums=verify_checksums,
            blob_handling=blob_handling,
            order_by=_orderings(order_by),
            compression=compression,
            nearest=nearest,
            full_text_query=None if full_text_query is None else text_fields(full_text_query),
            hybrid=None if hybrid is None else dict(hybrid),
            search_filter=search_filter,
            index_segments=None if index_segments is None else tuple(index_segments),
            prefilter=prefilter,
            fast_search=fast_search,
            use_scalar_index=use_scalar_index,
        )
        return self._snapshot.scanner(selection)

    def search(
        self,
        q: Any = None,
        column: str | None = None,
        k: int = DEFAULT_NEAREST,
        *,
        full_text_query: Any = None,
        hybrid: Mapping[str, Any] | None = None,
        search_filter: str | None = None,
        index_segments: Sequence[str] | None = None,
        columns: Columns = None,
        filter: Condition = None,
        prefilter: bool = True,
        fast_search: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: str | None = None,
        **arguments: Any,
    ) -> pa.Table:
        """Return the rows whose vectors are nearest to a query, nearest first, with the column `_distance`.

        With a vector and a full text query, return the rows that are best by both, the most relevant first,
        with the column `_relevance_score`. With a full text query alone, return the rows with the best
        scores.

        If there are several servers, each of them searches the vectors of a part of the dataset, and one of
        them searches the texts.

        Args:
            q: a vector, or a list of vectors. Of several queries the rows are returned one query after the
                other; the column `query_index` has the number of the query.
            column: column of vectors. None if the dataset has only one.
            k: most rows for each query.
            full_text_query: words, or another query that `scanner` takes.
            hybrid: the rule that joins both rankings; see `scanner`. None means the default rule.
            search_filter: the search that only filters the rows of the other search; see `scanner`.
            index_segments: uuids of segments of a vector index; only rows that they cover are found.
            columns, with_row_id, with_row_address, blob_handling: see `scanner`.
            filter: SQL or a `pyarrow.compute` expression.
            prefilter: whether only rows that meet the filter are searched. If False, the filter applies to
                the `k` rows that the search finds.
            fast_search: whether rows that no index covers are left out.
            **arguments: `metric`, `distance_range`, `nprobes`, `refine_factor`, and the other arguments of
                `nearest` that docs/vector-search.md lists.

        Raises:
            InvalidInputError: an argument is invalid.
        """
        if q is None and full_text_query is None:
            raise InvalidInputError("search: expected a vector q, a full_text_query, or both")
        if hybrid is not None and (q is None or full_text_query is None):
            raise InvalidInputError("hybrid: expected both a vector q and a full_text_query")
        if q is not None and full_text_query is not None and search_filter is None:
            hybrid = dict(hybrid or {})
        if q is None and (column is not None or arguments):
            raise InvalidInputError(f"{min(arguments, default='column')}: expected a vector q beside it")
        sql, condition = self._and(filter)
        selection = Selection(
            columns=sql_columns(columns),
            filter=sql,
            condition=condition,
            limit=k if q is None else None,
            nearest=None if q is None else {**arguments, "q": q, "column": column, "k": k},
            full_text_query=None if full_text_query is None else text_fields(full_text_query),
            hybrid=hybrid,
            search_filter=search_filter,
            index_segments=None if index_segments is None else tuple(index_segments),
            prefilter=prefilter,
            fast_search=fast_search,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
        )
        return self._snapshot.scanner(selection).search()

    def searcher(
        self,
        column: str | None = None,
        k: int = DEFAULT_NEAREST,
        *,
        index_segments: Sequence[str] | None = None,
        columns: Columns = None,
        filter: Condition = None,
        prefilter: bool = True,
        fast_search: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: str | None = None,
        **arguments: Any,
    ) -> Searcher:
        """Return a stream for many searches of nearest rows, which differ in their queries only.

        The server plans them once, and no search opens a call. So each takes about half a millisecond less
        than with `search`. One server searches the whole dataset, also if there are several.

        Arguments are those of `search`.

        Raises:
            InvalidInputError: an argument is invalid; the first search tells what the server refuses.
        """
        sql, condition = self._and(filter)
        selection = Selection(
            columns=sql_columns(columns),
            filter=sql,
            condition=condition,
            nearest={**arguments, "column": column, "k": k},
            index_segments=None if index_segments is None else tuple(index_segments),
            prefilter=prefilter,
            fast_search=fast_search,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
        )
        return self._snapshot.scanner(selection).searcher()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all rows as a stream of Arrow, for `pa.table(dataset)`, `pl.DataFrame(dataset)`, ..."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def read_endpoint(self, endpoint: flight.FlightEndpoint, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Return the rows of one endpoint of `scanner(...).plan`, for engines that distribute endpoints
        themselves.

        The client evaluates no filter here: use SQL, see `RemoteScanner`.

        Args:
            endpoint: endpoint of a plan, perhaps of another process.
            first: number of the first server to try, if the endpoint names fewer than two servers. Else they
                are tried in the order in which the endpoint names them.

        Raises:
            LanceError: the server reported an error, for example an expired ticket.
        """
        return self._snapshot.read_endpoint(endpoint, first)

    def to_table(
        self,
        columns: Columns = None,
        filter: Condition = None,
        *,
        progress: bool | None = None,
        **arguments: Any,
    ) -> pa.Table:
        """Return the rows as a table. Arguments are those of `scanner`; `progress` as in
        `RemoteScanner.to_table`.
        """
        return self.scanner(columns, filter, **arguments).to_table(progress=progress)

    def to_batches(
        self, columns: Columns = None, filter: Condition = None, **arguments: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches as they arrive, in bounded memory; arguments are those of `scanner`."""
        return self.scanner(columns, filter, **arguments).to_batches()

    def to_reader(
        self, columns: Columns = None, filter: Condition = None, **arguments: Any
    ) -> pa.RecordBatchReader:
        """Return the rows as a reader; arguments are those of `scanner`."""
        return self.scanner(columns, filter, **arguments).to_reader()

    def to_pandas(
        self,
        columns: Columns = None,
        filter: Condition = None,
        *,
        progress: bool | None = None,
        **arguments: Any,
    ) -> pd.DataFrame:
        """Return the rows as a pandas frame; arguments are those of `to_table`."""
        return self.scanner(columns, filter, **arguments).to_pandas(progress=progress)

    def to_polars(self) -> pl.LazyFrame:
        """Return a lazy frame that pushes columns, filters and slices to the server; needs `polars`."""
        from flight_client.reading.polars_scan import scan_remote

        return scan_remote(self)

    def head(
        self, num_rows: int, columns: Columns = None, filter: Condition = None, **arguments: Any
    ) -> pa.Table:
        """Return the first rows; arguments are those of `scanner`."""
        return self.scanner(columns, filter, limit=num_rows, **arguments).head(num_rows)

    def slice(self, start: int, end: int, columns: Columns = None) -> pa.Table:
        """Return the rows at the row offsets `[start, end)`; of a filtered dataset at these positions among
        the rows that meet the filter.

        Args:
            start, end: row offsets. Rows beyond the end of the dataset are left out.
            columns: see `scanner`.

        Raises:
            InvalidInputError: `start` is negative, `end` is less than `start`, or a column does not exist.
        """
        if not 0 <= start <= end:
            raise InvalidInputError(f"start and end: expected 0 <= start <= end, found {start} and {end}")
        return self.scanner(columns, offset=start, limit=end - start).to_table()

    def count_rows(self, filter: Condition = None, **ignored: Any) -> int:
        """Return the number of rows; arguments are those of `scanner`."""
        if filter is None and self._sql is None and self._condition is None:
            return self._snapshot.num_rows
        return self.scanner([], filter, **ignored).count_rows()

    def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Sequence[str] | Mapping[str, str] | None = None,
        filter: Condition = None,
    ) -> pa.Table:
        """Return one row per group of the rows, which the server aggregates; see `RemoteScanner.aggregate`.

        Args:
            aggregates: SQL by name, such as `{"total": "sum(price)"}`.
            group_by: columns that make the groups, by name or as SQL.
            filter: see `scanner`.
        """
        return self.scanner([], filter).aggregate(aggregates, group_by)

    def filter(self, expression: Condition) -> RemoteDataset:
        """Return the dataset with only the rows that meet a condition, SQL or an expression."""
        sql, condition = self._and(expression)
        return RemoteDataset(self._snapshot, condition=condition, sql=sql)

    def _and(self, added: Condition) -> tuple[str | None, pc.Expression | None]:
        """Return the SQL and the expression of the rows that meet the dataset's conditions and `added`."""
        sql, condition = self._sql, self._condition
        if isinstance(added, str):
            sql = added if sql is None else f"({sql}) AND ({added})"
        elif isinstance(added, pc.Expression):
            condition = added if condition is None else condition & added
        elif added is not None:
            raise InvalidInputError(f"filter: expected SQL or an expression of Arrow, found {added!r}")
        return sql, condition

    def get_fragments(self, filter: Condition = None) -> NoReturn:
        """Refuse: a fragment of Arrow is a file that Arrow reads. Use `scanner(fragments=[...])`."""
        raise UnsupportedFeatureError(
            "a remote dataset has no fragments of Arrow, use scanner(fragments=[...])"
        )

    def sort_by(self, sorting: Any, **arguments: Any) -> arrow.InMemoryDataset:
        """Return all rows sorted, in memory."""
        return arrow.InMemoryDataset(self.to_table().sort_by(sorting, **arguments))

    def join(self, right_dataset: Any, keys: Any, right_keys: Any = None, **arguments: Any) -> Any:
        """Return the rows of both datasets in memory, joined like `pyarrow.Table.join`."""
        joined = self.to_table().join(right_dataset.to_table(), keys, right_keys, **arguments)
        return arrow.InMemoryDataset(joined)

    def join_asof(self, right_dataset: Any, *arguments: Any, **named: Any) -> Any:
        """Return the rows of both datasets in memory, joined like `pyarrow.Table.join_asof`."""
        return arrow.InMemoryDataset(self.to_table().join_asof(right_dataset.to_table(), *arguments, **named))

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse: the server decides the columns."""
        raise UnsupportedFeatureError("a remote dataset has no other schema, cast the table that was read")

    @property
    def partition_expression(self) -> None:
        """None: a remote dataset knows no partitions."""
        return None


def _without_rows(schema: pa.Schema) -> arrow.Dataset:
    """Return a dataset that raises an error when C++ code of Arrow reads it and bypasses our methods.

    If our class derived from `Dataset` alone, this code would read a null pointer.
    """
    files, kind = pa.fs.LocalFileSystem(), arrow.IpcFileFormat()
    fragment = kind.make_fragment("(a remote dataset: use its own scanner() or to_reader())", files)
    return arrow.FileSystemDataset([fragment], schema, kind, files)


def _unpickled(snapshot: Snapshot, condition: pc.Expression | None, sql: str | None) -> RemoteDataset:
    return RemoteDataset(snapshot, condition=condition, sql=sql)


_MAX_SHOWN_COLUMNS = 50


def _orderings(order_by: Sequence[str | ColumnOrdering] | None) -> tuple[ColumnOrdering, ...]:
    """Return the columns to sort by. Objects of `lance_core.ColumnOrdering` are taken, too."""
    if isinstance(order_by, str):
        raise InvalidInputError(f"order_by: expected a list of names or ColumnOrdering, found {order_by!r}")
    try:
        return tuple(
            ColumnOrdering(each)
            if isinstance(each, str)
            else ColumnOrdering(each.column_name, each.ascending, each.nulls_first)
            for each in order_by or ()
        )
    except AttributeError:
        raise InvalidInputError(
            f"order_by: expected names or ColumnOrdering, found {list(order_by or ())!r}"
        ) from None
