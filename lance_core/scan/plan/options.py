"""Options of a scan, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression
from lance_core.scan.plan.nearest import SEARCHES, NearestQuery

if TYPE_CHECKING:
    from lance_core.index.text.query import TextQuery
    from lance_core.scan.plan.fusion import Fusion

DEFAULT_BATCH_BYTES = 2 << 20

_LARGEST = (1 << 63) - 1

Computed = tuple[tuple[str, Expression], ...]
"""Names and values of computed columns, in output order."""
BLOB_HANDLINGS = ("blobs_descriptions", "all_descriptions", "all_binary")


@dataclass(frozen=True)
class ColumnOrdering:
    """A column to sort rows by.

    Texts are compared by their bytes in UTF-8. Floats have the total order of IEEE 754: -0.0 comes before
    0.0, and NaN after infinity, or before -infinity if its sign bit is set. Structs are compared field by
    field.

    Attributes:
        column_name: Name or dotted path.
        ascending: Whether smaller values come first.
        nulls_first: Whether nulls come first, in either direction.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


@dataclass(frozen=True)
class ScanOptions:
    """The options of one scan; equal options on one snapshot give equal batches.

    Args:
        columns: Names or dotted paths in output order; `None` means all columns, `()` rows without columns.
        computed: Names and values of computed columns in output order, instead of `columns`.
        filter: Condition that the returned rows meet.
        guards: Number of the guards, the first conditions of `filter`, which decide which rows exist for the
            caller. The other conditions and the computed columns are evaluated only for rows that meet the
            guards. The sizes of batches do not depend on the number of rows that do not meet them.
        limit: Most rows of the result; `None` means all, 0 means none.
        offset: Rows to skip, in the order of the scan; with a filter, matching rows to skip.
        order_by: Columns to sort the rows by, the most significant first. Rows that are equal in all of them
            keep the order of the scan. Limit and offset count sorted rows.
        fragments: Ids of the fragments to read, in this order; `None` means all of them in dataset order.
        include_deleted_rows: Return deleted rows that are still in the data files, too. Their row ids and row
            addresses are null. The result must have the column `_rowid`.
        with_row_id: Append the column `_rowid`.
        with_row_address: Append the column `_rowaddr`.
        batch_rows: Most rows of a streamed batch, deleted rows not counted.
        strict_batch_size: Give all batches but the last exactly `batch_rows` rows.
        blob_handling: "blobs_descriptions" and "all_descriptions" give the descriptors of blobs, "all_binary"
            their values. Only blobs have descriptors, so the first two are the same.
        verify_checksums: Compare pages with their checksums before they are decoded, in files that have
            checksums.
        stored: Return computed columns that are bare columns in the form of data files, to be written again:
            see `lance_core.scan.run.stored_scan`.
        use_scalar_index: Let indices find the rows for the filter, where they can.
        fast_search: Leave out the fragments that an index does not cover, if an index answers a part of the
            filter or, with `nearest`, serves the search.
        batch_bytes: Most bytes of a streamed batch. A larger row is a batch of its own.
        nearest: Return the rows with the nearest vectors instead, nearest first. Limit and offset count these
            rows.
        text_query: Return the rows that meet a full text query instead, the rows with the best scores first.
            Limit and offset count these rows.
        fusion: Join the rows of both searches by their relevance, the most relevant first. Options with both
            `nearest` and `text_query` need either this or `search_filter`.
        search_filter: One of `SEARCHES`: the search that only filters the rows of the other search, which
            ranks them. A row is in the result if both searches find it.
        prefilter: Search only rows that match `filter` and are found by `search_filter`. Otherwise both
            apply to the rows that the search finds. The guards of `filter` always apply before the search.
        with_scores: Append the columns of a search that `columns` does not name, such as `_distance`.

    Raises:
        InvalidInputError: an option is out of range; the message names it.
    """

    columns: tuple[str, ...] | None = None
    computed: Computed | None = None
    filter: Expression | None = None
    guards: int = 0
    limit: int | None = None
    offset: int | None = None
    order_by: tuple[ColumnOrdering, ...] = ()
    fragments: tuple[int, ...] | None = None
    include_deleted_rows: bool = False
    with_row_id: bool = False
    with_row_address: bool = False
    batch_rows: int | None = None
    strict_batch_size: bool = False
    batch_bytes: int = DEFAULT_BATCH_BYTES
    blob_handling: str = "blobs_descriptions"
    verify_checksums: bool = False
    stored: bool = False
    use_scalar_index: bool = True
    fast_search: bool = False
    nearest: NearestQuery | None = None
    text_query: TextQuery | None = None
    fusion: Fusion | None = None
    search_filter: str | None = None
    prefilter: bool = False
    with_scores: bool = True

    def __post_init__(self) -> None:
        for name, value, least in (
            ("limit", self.limit, 0),
            ("offset", self.offset, 0),
            ("batch_rows", self.batch_rows, 1),
            ("batch_bytes", self.batch_bytes, 1),
        ):
            if value is not None and value < least:
                least_value = (
                    f"{name} must be at least 1" if least else f"{name.capitalize()} must be non-negative"
                )
                raise InvalidInputError(f"{least_value}, got {name}={value}")
            if value is not None and value > _LARGEST:
                raise InvalidInputError(f"{name} must be at most {_LARGEST}, got {value}")
        if self.strict_batch_size and self.batch_rows is None:
            raise InvalidInputError("strict_batch_size needs batch_rows")
        self._check_searches()
        if self.is_search and self.include_deleted_rows:
            raise InvalidInputError("Cannot include deleted rows in a search: include_deleted_rows is true")
        if self.blob_handling not in BLOB_HANDLINGS:
            raise InvalidInputError(
                f"blob_handling must be one of {', '.join(BLOB_HANDLINGS)}, got {self.blob_handling!r}"
            )
        seen: set[int] = set()
        for fragment_id in self.fragments or ():
            if fragment_id in seen:
                raise InvalidInputError(f"fragment {fragment_id} is asked for twice")
            seen.add(fragment_id)

    def _check_searches(self) -> None:
        """Refuse two searches without the way to join them, and such a way without two searches."""
        is_both = self.nearest is not None and self.text_query is not None
        if is_both and (self.fusion is None) == (self.search_filter is None):
            raise InvalidInputError(
                "nearest and full_text_query together need hybrid, the way to join their rows; {} is enough. "
                "Or one of them is a filter"
            )
        if not is_both and self.fusion is not None:
            raise InvalidInputError("hybrid joins the rows of nearest and of full_text_query: give both")
        if not is_both and self.search_filter is not None:
            raise InvalidInputError("a search filters the rows of nearest or of full_text_query: give both")
        if self.search_filter not in (None, *SEARCHES):
            raise InvalidInputError(
                "search_filter", expected=" or ".join(SEARCHES), found=repr(self.search_filter)
            )
        if self.compares_matches and self.nearest is not None and self.nearest.segments is not None:
            raise InvalidInputError(
                "index_segments: no index is searched for the rows that a full text query has found"
            )

    @property
    def is_search(self) -> bool:
        """Whether the scan returns the rows that a search finds."""
        return self.nearest is not None or self.text_query is not None

    @property
    def compares_matches(self) -> bool:
        """Whether the search of texts comes first, and only the vectors of the rows that it finds are
        compared. Without a search that is a filter, neither search comes first.
        """
        return self.search_filter is not None and (self.search_filter == "text") == self.prefilter


@lru_cache(256)
def column_options(column: str) -> ScanOptions:
    """Return the options of a scan of one column. Each search makes a projection of its column by them."""
    return ScanOptions(columns=(column,))
