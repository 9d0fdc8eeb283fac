"""SQL queries over one version of a dataset: DataFusion computes them on a scan.

The engine is the package `datafusion`, which is imported with the first query. See
docs/decisions/0026-sql-queries.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import pyarrow as pa

from lance_core.api.dataset.methods.arrow_dataset import ArrowDataset
from lance_core.api.dataset.sql_functions import register_functions
from lance_core.arguments import named_arguments, refuse_wrong_types
from lance_core.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_core.scan.arguments import scan_options
from lance_core.scan.plan.projection import expression_schema
from lance_core.scan.scanner import LanceScanner

if TYPE_CHECKING:
    from datafusion import DataFrame, LogicalPlan, RecordBatchStream, SessionContext

    from lance_core.scan.plan.options import ScanOptions
    from lance_core.table.snapshot import Snapshot

Result = TypeVar("Result")
_STEPS_OF_ROWS = frozenset({"Projection", "Filter", "Sort", "Limit", "SubqueryAlias"})
"""Steps of the engine's plans that return rows of their input."""
BlobHandling = Literal["all_binary", "blobs_descriptions", "all_descriptions"]


@dataclass(frozen=True)
class TableQuery:
    """A query and the settings of its table; see `SqlQueryBuilder`."""

    snapshot: Snapshot
    text: str
    table_name: str = "dataset"
    with_row_id: bool = False
    with_row_addr: bool = False
    blob_handling: BlobHandling | None = None
    batch_size: int | None = None
    batch_size_bytes: int | None = None


@named_arguments
class SqlQueryBuilder:
    """A query in the making. The methods that set something return the builder."""

    def __init__(self, builder: TableQuery) -> None:
        """Use `LanceDataset.sql`."""
        refuse_wrong_types(TableQuery, {"text": builder.text})
        self._query = builder

    def table_name(self, table_name: str) -> Self:
        """Set the name of the dataset in the query; default: `dataset`.

        As in SQL, the case of a name counts only if the query quotes it.
        """
        return self._with(table_name=table_name)

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Set whether the table has the column `_rowid`.

        A result whose rows are rows of the table has it even if the query does not select it.
        """
        return self._with(with_row_id=with_row_id)

    def with_row_addr(self, with_row_addr: bool = True) -> Self:
        """Set whether the table has the column `_rowaddr`; see `with_row_id`."""
        return self._with(with_row_addr=with_row_addr)

    def blob_handling(self, blob_handling: BlobHandling) -> Self:
        """Set what columns of blobs hold: "all_binary" their bytes, the others their descriptors.

        Raises:
            InvalidInputError: There is no such handling.
        """
        known = ("all_binary", "blobs_descriptions", "all_descriptions")
        if blob_handling not in known:
            raise InvalidInputError("blob_handling", expected=" or ".join(known), found=blob_handling)
        return self._with(blob_handling=blob_handling)

    def batch_size(self, batch_size: int) -> Self:
        """Set the largest number of rows in a batch."""
        return self._with(batch_size=batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Set the approximate largest size of the batches that the query reads, in bytes."""
        return self._with(batch_size_bytes=batch_size_bytes)

    def build(self) -> SqlQuery:
        """Return the query. It is checked when it is executed."""
        return SqlQuery(self._query)

    def _with(self, **changes: Any) -> Self:
        refuse_wrong_types(TableQuery, changes)
        self._query = replace(self._query, **changes)
        return self


@named_arguments
class SqlQuery:
    """A query that can be executed any number of times. It only reads.

    Every method raises:
        InvalidInputError: The query is not valid, or a value cannot be computed.
        UnsupportedFeatureError: `datafusion` is not installed.
        LanceError: The errors of a scan.
    """

    def __init__(self, query: TableQuery) -> None:
        """Use `SqlQueryBuilder.build`."""
        self._query = query

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Return all rows of the result; none: an empty list."""
        return [batch for batch in self.to_stream_reader() if batch.num_rows]

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Return the result as a stream. Rows are read and computed when batches are requested.

        Sorts, joins and aggregations hold what they need in memory.
        """
        table, result = _started(self._query)
        return pa.RecordBatchReader.from_batches(result.schema, _batches(table, result))

    def explain_plan(self, verbose: bool = False, analyze: bool = False) -> str:
        """Return the plan of the engine as text. `DatasetExec` is the scan, with its columns and condition.

        Args:
            verbose: Add the steps of the engine's optimizer.
            analyze: Run the query, and add rows and times.
        """
        table, _ = _started(self._query)  # EXPLAIN would report an error of the plan as a result
        words = ["EXPLAIN", *["ANALYZE"] * analyze, *["VERBOSE"] * verbose, self._query.text]
        explained = replace(self._query, text=" ".join(words))
        result = _translated(table, lambda: _executed(explained, table))
        plans = pa.Table.from_batches(_batches(table, result), result.schema).to_pylist()
        return "\n".join(f"{row['plan_type']}:\n{row['plan']}" for row in plans)


class _Table(ArrowDataset):
    """The dataset as the engine sees it. It has one fragment, so that rows keep their order."""

    def __init__(self, query: TableQuery) -> None:
        self._query = query
        self.pushes = True
        self.error: LanceError | None = None
        self._schema = LanceScanner(query.snapshot, self._options()).projected_schema

    @property
    def schema(self) -> pa.Schema:
        """All columns, with the row ids and addresses that the query asks for."""
        return self._schema

    def get_fragments(self, filter: Any = None) -> list[_Fragment]:
        """Return the only fragment."""
        return [_Fragment(self)]

    def scanner(self, columns: Any = None, filter: Any = None, **arguments: Any) -> LanceScanner:
        """Return a scan for the engine, which asks for it while it plans and again while it reads.

        Raises:
            UnsupportedFeatureError: The condition cannot be pushed down; `pushes` is false from now on.
        """
        return LanceScanner(self._query.snapshot, self._options(columns, filter))

    def _options(self, columns: list[str] | None = None, filter: Any = None) -> ScanOptions:
        query = self._query
        schema = query.snapshot.manifest.schema
        if columns is None:
            columns = [field.name for field in schema.fields]
            columns += ["_rowid"] * query.with_row_id + ["_rowaddr"] * query.with_row_addr
        if filter is not None:
            from lance_core.expressions.parsing.arrow import parse_arrow_as_sql  # late: it takes long to load

            filter = parse_arrow_as_sql(filter, expression_schema(schema))
            if filter is None:
                self.pushes = False
                raise UnsupportedFeatureError("pushing this condition down")
        return scan_options(
            schema,
            columns,
            filter,
            batch_size=query.batch_size,
            batch_size_bytes=query.batch_size_bytes,
            blob_handling=query.blob_handling,
        )


class _Fragment:
    """The rows of a `_Table`."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def scanner(self, schema: pa.Schema, columns: list[str], filter: Any, batch_size: int) -> _Scan:
        """Return a scan. The engine gives its schema and batch size, which the table knows already."""
        return _Scan(self._table, self._table.scanner(columns, filter))


class _Scan:
    """A scan whose error the table keeps, since the engine turns it into text."""

    def __init__(self, table: _Table, scanner: LanceScanner) -> None:
        self._table = table
        self._scanner = scanner
        self.projected_schema = scanner.projected_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the scan."""
        try:
            yield from self._scanner.to_batches()
        except Exception as error:
            if isinstance(error, LanceError):
                self._table.error = error
            raise


@dataclass(frozen=True)
class _Result:
    """The batches of a query, which the engine computes when they are requested, and their schema.

    The stream is the engine's own, not a reader of PyArrow: that releases the GIL before it frees a stream.
    If the garbage collector does so while the engine calls this package, the engine takes the GIL to be held,
    frees the scan of the query, and the process ends.
    """

    schema: pa.Schema
    stream: RecordBatchStream


def _started(query: TableQuery) -> tuple[_Table, _Result]:
    """Begin a query. Return its table and its result.

    The engine does not evaluate conditions that it pushes down once more. If one of them cannot be pushed,
    the query is planned again without its rule that pushes conditions.
    """
    table = _Table(query)
    try:
        return table, _translated(table, lambda: _executed(query, table))
    except LanceError:
        if table.pushes:
            raise
    return table, _translated(table, lambda: _executed(query, table))


def _executed(query: TableQuery, table: _Table) -> _Result:
    context = _context(query)
    if not table.pushes:
        context.remove_optimizer_rule("push_down_filter")
    register_functions(context)
    context.register_dataset(query.table_name, table)
    frame = _with_row_keys(context, query, _selected(context, query.text))
    return _Result(frame.schema(), frame.execute_stream())


def _context(query: TableQuery) -> SessionContext:
    try:
        from datafusion import SessionConfig, SessionContext
    except ImportError:
        raise UnsupportedFeatureError(
            "SQL queries need the package datafusion: pip install 'lance-flight[sql]'"
        ) from None
    # Rows keep the order of the dataset where the query does not sort, join or aggregate.
    config = SessionConfig().set("datafusion.optimizer.enable_round_robin_repartition", "false")
    return SessionContext(config if query.batch_size is None else config.with_batch_size(query.batch_size))


def _selected(context: SessionContext, text: str) -> DataFrame:
    """Return the result of a query that only reads: COPY, INSERT and CREATE are refused."""
    from datafusion import SQLOptions

    options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    return context.sql_with_options(text, options)


def _with_row_keys(context: SessionContext, query: TableQuery, frame: DataFrame) -> DataFrame:
    """Return a result with the row ids and addresses that the query asks for, if it has rows of the table.

    Rows of joins, groups and windows, or of a subquery that leaves ids out, have none.
    """
    names = ["_rowid"] * query.with_row_id + ["_rowaddr"] * query.with_row_addr
    missing = [name for name in names if name not in frame.schema().names]
    step = frame.logical_plan()
    while _kind(step) in _STEPS_OF_ROWS:
        (step,) = step.inputs()
    if not missing or _kind(step) != "TableScan":
        return frame
    try:
        place = _end_of_columns(query.text)
        return _selected(context, f"{query.text[:place]}, {', '.join(missing)} {query.text[place:]}")
    except Exception:  # the engine raises bare exceptions
        return frame


def _kind(step: LogicalPlan) -> str:
    return step.display().split(":")[0]


def _end_of_columns(text: str) -> int:
    """Return the place of the outermost FROM of a query."""
    from sqlglot import TokenType, tokenize  # late: it takes long to load

    depth, last = 0, None
    for token in tokenize(text):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type is TokenType.FROM and last is not TokenType.DISTINCT:
            return token.start
        last = token.token_type
    raise InvalidInputError("SQL query: a FROM is missing")


def _batches(table: _Table, result: _Result) -> Iterator[pa.RecordBatch]:
    while (batch := _translated(table, lambda: next(result.stream, None))) is not None:
        yield batch.to_pyarrow()


def _translated(table: _Table, call: Callable[[], Result]) -> Result:
    """Return the result of a call of the engine, with its errors as errors of this package."""
    try:
        return call()
    except (LanceError, TypeError):
        raise
    except Exception as error:  # the engine raises bare exceptions, and Arrow's for a stream
        if table.error is not None:
            raise table.error from None
        raise InvalidInputError(f"SQL query: {error}") from None
