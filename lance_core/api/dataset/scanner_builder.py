"""Scans that are described step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from lance_core.api.dataset.scans import scan_of
from lance_core.api.fragment.lance_fragment import fragment_ids
from lance_core.arguments import named_arguments
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.plan.bind_nearest import bind_nearest
from lance_core.scan.scanner import LanceScanner

if TYPE_CHECKING:
    from lance_core.api.dataset.methods.opened import OpenedDataset
    from lance_core.scan.plan.options import ColumnOrdering
    from lance_core.scan.statistics import ScanStatistics


@named_arguments
class ScannerBuilder:
    """A scan that is described step by step. Every method but `to_scanner` returns the builder itself.

    Arguments are those of `LanceDataset.scanner`. They are checked when the scan is made.
    """

    def __init__(self, ds: OpenedDataset) -> None:
        """Begin with a scan of all rows and columns of a dataset."""
        self.ds = ds
        self._arguments: dict[str, Any] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `LanceDataset.scanner` that were set."""
        return dict(self._arguments)

    def apply_defaults(self, default_opts: Mapping[str, Any]) -> Self:
        """Call the method that each key names; a mapping is given as named arguments.

        Raises:
            InvalidInputError: A key names no method of the builder.
        """
        for name, value in default_opts.items():
            if name not in _SETTERS:
                raise InvalidInputError(f"Unknown option {name}")
            setter = getattr(self, name)
            if isinstance(value, Mapping) and name != "columns":
                setter(**value)
            else:
                setter(value)
        return self

    def batch_size(self, batch_size: int | None) -> Self:
        """Set the most rows of a batch."""
        return self._set("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int | None) -> Self:
        """Set the most bytes of a batch."""
        return self._set("batch_size_bytes", batch_size_bytes)

    def strict_batch_size(self, strict_batch_size: bool = False) -> Self:
        """Set whether all batches but the last have exactly `batch_size` rows."""
        return self._set("strict_batch_size", strict_batch_size)

    def io_buffer_size(self, io_buffer_size: int | None) -> Self:
        """Set a number that has no effect here."""
        return self._set("io_buffer_size", io_buffer_size)

    def batch_readahead(self, nbatches: int | None = None) -> Self:
        """Set a number that has no effect here."""
        return self._set("batch_readahead", nbatches)

    def fragment_readahead(self, nfragments: int | None = None) -> Self:
        """Set a number that has no effect here."""
        return self._set("fragment_readahead", nfragments)

    def scan_in_order(self, scan_in_order: bool = True) -> Self:
        """Set whether rows must have the order of the dataset, which they have in any case."""
        return self._set("scan_in_order", scan_in_order)

    def limit(self, n: int | None = None) -> Self:
        """Set the most rows of the result."""
        return self._set("limit", n)

    def offset(self, n: int | None = None) -> Self:
        """Set the number of rows to skip."""
        return self._set("offset", n)

    def columns(self, cols: list[str] | dict[str, str] | None = None) -> Self:
        """Set the columns of the result."""
        return self._set("columns", cols)

    def filter(self, filter: Any) -> Self:
        """Set the condition that returned rows meet."""
        return self._set("filter", filter)

    def prefilter(self, prefilter: bool) -> Self:
        """Set whether a search finds only rows that match the filter."""
        return self._set("prefilter", prefilter)

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Set whether the result has the column `_rowid`."""
        return self._set("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> Self:
        """Set whether the result has the column `_rowaddr`."""
        return self._set("with_row_address", with_row_address)

    def late_materialization(self, late_materialization: bool | list[str]) -> Self:
        """Set columns to read after the filter. A scan decides that by itself, so this has no effect."""
        return self._set("late_materialization", late_materialization)

    def blob_handling(self, blob_handling: str | None) -> Self:
        """Set how blobs are returned."""
        return self._set("blob_handling", blob_handling)

    def use_stats(self, use_stats: bool = True) -> Self:
        """Set a hint that has no effect here."""
        return self._set("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> Self:
        """Set a hint that has no effect here."""
        return self._set("use_scalar_index", use_scalar_index)

    def with_fragments(self, fragments: Iterable[Any] | None) -> Self:
        """Set the fragments to read, in this order. Raises TypeError for objects that are no fragments."""
        return self._set("fragments", fragment_ids(fragments))

    def include_deleted_rows(self, flag: bool) -> Self:
        """Set whether deleted rows that are still in the data files are returned."""
        return self._set("include_deleted_rows", flag)

    def order_by(self, orderings: list[str | ColumnOrdering] | None) -> Self:
        """Set the columns to sort the rows by."""
        return self._set("order_by", orderings)

    def fast_search(self, flag: bool) -> Self:
        """Set whether a search leaves out rows that no index covers."""
        return self._set("fast_search", flag)

    def disable_scoring_autoprojection(self, disable: bool = True) -> Self:
        """Set whether scores of a search are columns only if they are named."""
        return self._set("disable_scoring_autoprojection", disable)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], object] | None) -> Self:
        """Set a function that gets the statistics of the scan after its last row.

        It is called once for each `to_table` and each `to_batches` that reaches its end. An error that it
        raises is logged.
        """
        return self._set("scan_stats_callback", callback)

    def row_addr_prefilter(self, allowlist: bytes | None = None, blocklist: bytes | None = None) -> Self:
        """Refuse sets of row addresses."""
        return self._refuse("row_addr_prefilter", allowlist, blocklist)

    def with_index_segments(self, index_segments: Iterable[Any] | None) -> Self:
        """Set the uuids of the segments of a vector index that find the rows of `nearest`."""
        return self._set("index_segments", None if index_segments is None else list(index_segments))

    def substrait_aggregate(self, aggregate: bytes) -> Self:
        """Refuse an aggregate."""
        return self._refuse("substrait_aggregate", aggregate)

    def nearest(
        self,
        column: str,
        q: Any,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: str = "normal",
        distance_range: tuple[float | None, float | None] | None = None,
        search_effort: float | None = None,
    ) -> Self:
        """Set the search of the rows with the nearest vectors; docs/vector-search.md has the arguments.

        Raises:
            InvalidInputError: An argument does not fit the dataset; see `bind_nearest`.
            TypeError: An argument has another type.
        """
        arguments = {
            "column": column,
            "q": q,
            "k": k,
            "metric": metric,
            "nprobes": nprobes,
            "minimum_nprobes": minimum_nprobes,
            "maximum_nprobes": maximum_nprobes,
            "refine_factor": refine_factor,
            "use_index": use_index,
            "ef": ef,
            "query_parallelism": query_parallelism,
            "approx_mode": approx_mode,
            "distance_range": distance_range,
            "search_effort": search_effort,
        }
        bind_nearest(self.ds.snapshot.manifest.schema, arguments)
        return self._set("nearest", arguments)

    def full_text_search(self, query: Any, columns: list[str] | None = None) -> Self:
        """Set the search of the rows that contain words.

        Args:
            query: A text, or a query of `lance_core.api.query`.
            columns: Columns that a text is searched in; None means all columns with a full text index.
        """
        if isinstance(query, str):
            query = {"query": query} if columns is None else {"query": query, "columns": columns}
        return self._set("full_text_query", query)

    def hybrid(self, hybrid: Mapping[str, Any]) -> Self:
        """Set how the rows of `nearest` and of `full_text_search` are joined; docs/vector-search.md has the
        arguments. An addition to the methods of the reference.
        """
        return self._set("hybrid", hybrid)

    def minhash_search(self, query: Any) -> Self:
        """Refuse a search of similar texts."""
        return self._refuse("minhash_search", query)

    def to_scanner(self) -> LanceScanner:
        """Return the scan; errors are those of `LanceDataset.scanner`."""
        return scan_of(self.ds.snapshot, self._arguments)

    def _set(self, name: str, value: Any) -> Self:
        self._arguments[name] = value
        return self

    def _refuse(self, name: str, *values: Any) -> Self:
        if any(value is not None for value in values):
            raise UnsupportedFeatureError(f"{name!r} of scans is not supported yet")
        return self


_SETTERS = {name for name in vars(ScannerBuilder) if name[0] != "_"} - {
    "apply_defaults",
    "arguments",
    "to_scanner",
}
"""Methods that a default may name."""
