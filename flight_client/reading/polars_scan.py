"""A remote dataset as a Polars LazyFrame: columns, filters and slices are pushed to the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.io.external_reader import FileReader, FileReaderBuilder, ReaderCapabilities

from flight_client.reading.filter_pushdown import travelling
from flight_client.reading.scanner import RemoteScanner

if TYPE_CHECKING:
    from polars.io.external_reader import FilterExpr


class ScannedDataset(Protocol):
    """Methods of a `RemoteDataset` that a lazy frame needs."""

    @property
    def name(self) -> str:
        """Name of the dataset on the server."""

    @property
    def version(self) -> int:
        """Version that is read."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of all columns."""

    def count_rows(self) -> int:
        """Return the number of rows."""

    def scanner(
        self,
        columns: Sequence[str],
        filter: pc.Expression | None,
        *,
        limit: int | None,
        offset: int | None,
    ) -> RemoteScanner:
        """Return a scan of some columns and rows."""


def scan_remote(dataset: ScannedDataset) -> pl.LazyFrame:
    """Return a lazy frame over the rows of a dataset, which are read when the frame is collected."""
    schema = pl.DataFrame(dataset.schema.empty_table()).schema
    builder = _Builder(dataset, dict(schema))
    return pl.scan_external_reader(builder, sources=[dataset.name], schema=schema)


class _Builder(FileReaderBuilder):
    """Description of our reader for Polars. The whole dataset is one source, which is read in parallel."""

    def __init__(self, dataset: ScannedDataset, schema: dict[str, Any]) -> None:
        self._dataset = dataset
        self._schema = schema

    def reader_capabilities(self) -> ReaderCapabilities:
        # Polars applies all conditions again, because it does not push those that Arrow cannot express.
        return ReaderCapabilities(pre_slice=True, supported_filter="partial")

    def build_file_reader(self, source: str | bytes, multi_scan_context: dict[Any, Any]) -> _Reader:
        return _Reader(self._dataset, self._schema)

    def explain_properties(self) -> dict[str, str]:
        return {"name": "lance_flight", "dataset": self._dataset.name, "version": str(self._dataset.version)}


class _Reader(FileReader):
    """Reader of the dataset, for one query."""

    def __init__(self, dataset: ScannedDataset, schema: dict[str, Any]) -> None:
        self._dataset = dataset
        self._schema = schema

    def schema(self) -> dict[str, Any]:
        return self._schema

    def n_rows_in_file(self, limit: int | None = None) -> int:
        num_rows = self._dataset.count_rows()
        return num_rows if limit is None else min(num_rows, limit)

    def collect_batches(
        self,
        *,
        columns: Sequence[str],
        row_index: tuple[str, int] | None,
        pre_slice: tuple[int, int] | None,
        filters: Sequence[FilterExpr],
        num_pipelines: int,
    ) -> Iterator[pl.DataFrame]:
        offset, limit = pre_slice or (None, None)
        scanner = self._dataset.scanner(
            list(columns), None if pre_slice else self._condition(filters), limit=limit, offset=offset
        )
        for batch in scanner.to_batches():
            # A batch without columns has rows, but a frame that is made of it has none.
            yield pl.DataFrame(batch) if columns else pl.DataFrame(height=batch.num_rows)

    def _condition(self, filters: Sequence[FilterExpr]) -> pc.Expression | None:
        """Return the part of the filters that Arrow can express and the server understands.

        Polars applies all filters again. The client does not evaluate the rest with Arrow, which would drop
        NaN where Polars keeps it.
        """
        conditions = []
        for each in filters:
            try:
                condition = each.pyarrow_expr
            except Exception:  # Polars raises any error of its conversion
                continue
            if condition is not None:
                conditions.append(condition)
        return travelling(reduce(and_, conditions), self._dataset.schema) if conditions else None
