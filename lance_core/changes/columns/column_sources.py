"""Sources of the values of new columns: expressions, a function or a stream.

A source yields the values of the live rows of one fragment after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lance_core.changes.checked_reads import scan_for_change
from lance_core.changes.columns.checkpoints import Checkpoints
from lance_core.errors import ArgumentTypeError, CommitConflictError, InvalidInputError
from lance_core.expressions.tree import Literal, columns
from lance_core.hints import did_you_mean
from lance_core.scan.arguments import scan_options
from lance_core.scan.plan.projection import ROW_COLUMNS, ROW_OFFSET
from lance_core.scan.scanner import LanceScanner
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot
from lance_core.write.caller_errors import as_os_errors

RowFunction = Callable[[pa.RecordBatch], Any]
"""Returns new columns for the rows of a batch, as an Arrow batch or table or a pandas frame."""


class ColumnSource(Protocol):
    """Values of new columns."""

    @property
    def is_ordered(self) -> bool:
        """Whether `batches` must be called in dataset order, one fragment after the other."""

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of the new columns of a version. It is called before `batches`.

        Raises:
            InvalidInputError: The columns cannot be made from this version.
        """

    def batches(self, snapshot: Snapshot, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Yield the values for the live rows of a fragment."""

    def finish(self) -> None:
        """Check the end of the source, after the last fragment.

        Raises:
            InvalidInputError: The source has more values than the table has rows.
        """


class ExpressionColumns:
    """Columns that SQL expressions compute from other columns."""

    is_ordered = False

    def __init__(self, columns: Mapping[str, str], batch_rows: int | None = None) -> None:
        self._columns = dict(columns)
        self._batch_rows = batch_rows
        self._scanner: LanceScanner | None = None  # of the last version that `schema` was called with
        self.are_nulls = False
        """Whether every expression is a constant null that has a type, such as `CAST(NULL AS INT)`. Known
        after `schema`.
        """

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        schema = snapshot.manifest.schema
        options = scan_options(schema, self._columns, batch_size=self._batch_rows)
        for _, expression in options.computed or ():
            for name, *_ in columns(expression):
                # Row addresses and the like are valid in one version only.
                if name in ROW_COLUMNS and name not in {field.name for field in schema.fields}:
                    known = [field.name for field in schema.fields]
                    raise InvalidInputError(f"there is no column {name!r}{did_you_mean(name, known)}")
        self.are_nulls = all(
            isinstance(expression, Literal) and not expression.value.is_valid and expression.type != pa.null()
            for _, expression in options.computed or ()
        )
        self._scanner = scan_for_change(snapshot, options)
        return pa.schema([field.remove_metadata() for field in self._scanner.projected_schema])

    def batches(self, snapshot: Snapshot, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        assert self._scanner is not None
        for batch in self._scanner.fragment_batches(fragment.id):
            yield batch.replace_schema_metadata(None)

    def finish(self) -> None:
        pass


class FunctionColumns:
    """Columns that a function computes from batches of other columns. Its calls never overlap."""

    is_ordered = True

    def __init__(
        self,
        function: RowFunction,
        read_columns: Sequence[str] | None = None,
        output_schema: pa.Schema | None = None,
        batch_rows: int | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Keep the function and its arguments.

        Args:
            function: Computes new columns.
            read_columns: Columns that it gets; all if None.
            output_schema: Schema of its results; that of the first result if None.
            batch_rows: Largest number of rows that it gets at once.
            checkpoints: Keeps its results.

        Raises:
            InvalidInputError: `read_columns` has `_rowoffset`, which changes from version to version.
        """
        self._function = function
        self._columns = None if read_columns is None else list(read_columns)
        if ROW_OFFSET in (read_columns or ()):
            raise InvalidInputError(
                "column cannot be read here: it changes from version to version", column=ROW_OFFSET
            )
        self._schema = output_schema
        self._batch_rows = batch_rows
        self._checkpoints = checkpoints

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        if self._schema is None:
            sample = next(self._scanner(snapshot, limit=1).to_batches(), None)
            if sample is None:
                raise InvalidInputError("a function on a dataset without rows needs its output_schema")
            self._schema = self._call(sample).schema
        return self._schema

    def batches(self, snapshot: Snapshot, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        self.schema(snapshot)
        batches = self._scanner(snapshot, fragments=(fragment.id,)).to_batches()
        if self._checkpoints is None:
            yield from map(self._result, batches)
            return
        first_row = 0
        with self._checkpoints.open() as kept:
            for batch in batches:
                result = kept.find(fragment.id, first_row, batch)
                if result is None or not result.schema.equals(self._schema):  # of another function
                    result = self._result(batch)
                    kept.keep(fragment.id, first_row, batch, result)
                first_row += batch.num_rows
                yield result

    def _call(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        with as_os_errors():
            return _as_batch(self._function(batch))

    def _result(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result of the function for a batch, checked."""
        result = self._call(batch)
        if not result.schema.equals(self._schema):
            raise InvalidInputError(
                "Output schema of function does not match the expected schema",
                expected=self._schema,
                found=result.schema,
            )
        if result.num_rows != batch.num_rows:
            raise InvalidInputError(
                "result of the function has another number of rows",
                expected=batch.num_rows,
                found=result.num_rows,
            )
        return result

    def finish(self) -> None:
        pass

    def _scanner(self, snapshot: Snapshot, **arguments: Any) -> LanceScanner:
        options = scan_options(
            snapshot.manifest.schema, self._columns, batch_size=self._batch_rows, **arguments
        )
        return scan_for_change(snapshot, options)


class StreamColumns:
    """Columns from a stream with one row per live row of the table, in dataset order."""

    is_ordered = True

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = batches
        self._rest: pa.RecordBatch | None = None
        self._is_finished = False

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        return self._schema

    def batches(self, snapshot: Snapshot, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        if self._is_finished:
            raise CommitConflictError(
                f"fragment {fragment.id} was added or changed while the columns were read from a stream",
                retryable=False,
            )
        left = fragment.num_rows
        while left:
            batch = self._next()
            if batch is None:
                raise InvalidInputError("stream has fewer rows than the dataset", found=f"{left} missing")
            part = batch.slice(0, left)
            self._rest = batch.slice(part.num_rows)
            left -= part.num_rows
            yield part

    def finish(self) -> None:
        if self._next() is not None:
            raise InvalidInputError("stream has more rows than the dataset")
        self._is_finished = True

    def _next(self) -> pa.RecordBatch | None:
        """Return the next rows, None at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest


def _as_batch(result: Any) -> pa.RecordBatch:
    """Return the result of a function as one batch."""
    if isinstance(result, pa.RecordBatch):
        return result
    if isinstance(result, pa.Table):
        batches = result.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=result.schema)
    if type(result).__module__.partition(".")[0] == "pandas":
        return pa.RecordBatch.from_pandas(result)
    raise ArgumentTypeError(f"expected a record batch from the function, got {type(result).__name__}")
