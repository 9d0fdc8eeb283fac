"""New columns from other data, joined by key: a left join with the dataset on the left."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_core.changes.checked_reads import scan_for_change
from lance_core.changes.columns.add import add_columns
from lance_core.changes.columns.key_lookup import KeyLookup, key_columns
from lance_core.changes.source_rows import SourceRows
from lance_core.encodings.values import take_values
from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.scan.arguments import scan_options
from lance_core.scan.plan.projection import ROW_ADDRESS, ROW_ID
from lance_core.scan.scanner import LanceScanner
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot

_BLOCK_BYTES = 8 << 20
"""Approximate size of a batch of the inserted rows, in bytes."""


def join_columns(
    snapshot: Snapshot,
    source: SourceRows,
    left_on: Sequence[str],
    right_on: Sequence[str] | None = None,
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Add the columns of `source` to the rows with the same keys. Other rows get nulls.

    Args:
        snapshot: The version to change.
        source: The new columns and the keys. The keys are held in memory.
        left_on: Key columns of the dataset; `_rowid` and `_rowaddr` are possible.
        right_on: Key columns of `source`, in the same order; the same names if None.
        transaction_id: UUID of the transaction; a new one if None.
        sync: Make everything durable before returning.

    Raises:
        InvalidInputError: There is no such key, keys have different types, a column exists already, or a row
            without a partner has no value for a non-nullable column.
        UnsupportedFeatureError: Keys of this type cannot be compared.
        LanceError: The errors of `add_columns`.
    """
    joined = JoinedColumns(source, left_on, right_on)
    return add_columns(snapshot, joined, transaction_id=transaction_id, sync=sync)


class JoinedColumns:
    """The columns of other rows with the same keys; a `ColumnSource`."""

    is_ordered = False

    def __init__(
        self, source: SourceRows, left_on: Sequence[str], right_on: Sequence[str] | None = None
    ) -> None:
        """Read the keys of `source`; arguments and errors are those of `join_columns`."""
        right_on = left_on if right_on is None else right_on
        self._left_on = list(left_on)
        if not left_on or len(set(left_on)) != len(left_on) or len(right_on) != len(left_on):
            raise InvalidInputError(
                "keys to join by",
                expected="one or more columns, each once, as many on both sides",
                found=left_on,
            )
        schema = key_columns(pa.Table.from_batches([], source.schema), right_on).schema
        keys = [batch.select(right_on) for _, batch in source.batches()]
        self._index = KeyLookup(pa.Table.from_batches(keys, schema))
        self._source = source
        self._schema = pa.schema([field for field in source.schema if field.name not in right_on])
        if not self._schema.names:
            raise InvalidInputError(
                "data to merge has no column besides its keys", column=", ".join(right_on)
            )
        self._read_version: int | None = None
        self._groups: dict[int, list[Fragment]] = {}
        """Groups of fragments that are looked up together, by fragment id."""
        self._found: dict[int, pa.Array] = {}
        """Row numbers of the source for fragments that were looked up but not requested yet."""
        self._lock = threading.Lock()

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        self._scanner(snapshot)
        self._found.clear()
        self._groups = _grouped(snapshot.manifest.fragments, self._source.num_rows)
        if self._read_version is None:
            self._read_version = snapshot.manifest.version
        return self._schema

    def batches(self, snapshot: Snapshot, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        manifest = snapshot.manifest
        if manifest.version != self._read_version and not _are_lasting(self._left_on, manifest):
            raise CommitConflictError(
                f"fragment {fragment.id} is new, and {', '.join(self._left_on)} may name other rows now",
                retryable=False,
            )
        with self._lock:
            found = self._found.pop(fragment.id, None)
            if found is None:
                self._look_up(snapshot, self._groups[fragment.id])
                found = self._found.pop(fragment.id)
        step = max(1, int(_BLOCK_BYTES / max(self._source.bytes_per_row, 1)))
        for start in range(0, len(found), step):
            yield self._rows(found.slice(start, step))

    def finish(self) -> None:
        pass

    def _look_up(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> None:
        found = self._index.find(self._scanner(snapshot, tuple(each.id for each in fragments)).to_table())
        start = 0
        for fragment in fragments:
            self._found[fragment.id] = found.slice(start, fragment.num_rows)
            start += fragment.num_rows

    def _rows(self, found: pa.Array) -> pa.RecordBatch:
        """Return the source rows with these numbers, and nulls for null numbers."""
        arrays = self._source.take(found.drop_null().to_numpy(), self._schema.names)
        if found.null_count:
            is_there = found.is_valid().to_numpy(zero_copy_only=False)
            places = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
            arrays = [take_values(array, places) for array in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _scanner(self, snapshot: Snapshot, fragments: tuple[int, ...] | None = None) -> LanceScanner:
        return scan_for_change(
            snapshot, scan_options(snapshot.manifest.schema, self._left_on, fragments=fragments)
        )


def _grouped(fragments: Iterable[Fragment], num_rows: int) -> dict[int, list[Fragment]]:
    """Return groups of fragments with about `num_rows` rows each, by fragment id.

    Each lookup prepares the keys of the source, which costs as much as a lookup of `num_rows` rows.
    """
    groups: dict[int, list[Fragment]] = {}
    group: list[Fragment] = []
    held = 0
    for fragment in fragments:
        groups[fragment.id] = group
        group.append(fragment)
        held += fragment.num_rows
        if held >= num_rows:
            group, held = [], 0
    return groups


def require_lasting_keys(manifest: Manifest, left_on: Sequence[str]) -> None:
    """Refuse keys that may identify other rows in a later version.

    Raises:
        InvalidInputError: A key is `_rowaddr`, or `_rowid` of a dataset without stable row ids.
    """
    if not _are_lasting(left_on, manifest):
        raise InvalidInputError(
            "rows may have moved since these keys were read",
            expected=f"columns, or {ROW_ID} of a dataset with stable row ids",
            found=", ".join(left_on),
        )


def _are_lasting(left_on: Sequence[str], manifest: Manifest) -> bool:
    """Return whether keys identify the same rows in every version."""
    return ROW_ADDRESS not in left_on and (ROW_ID not in left_on or manifest.has_stable_row_ids)
