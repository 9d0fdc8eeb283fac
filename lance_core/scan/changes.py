"""Rows that were inserted, updated and deleted between two versions of a table.

With stable row ids, each row has the versions in which it was created and last changed, and keeps its id
when it is moved. Without them, fragments and deletion files show the changes, as long as no row was moved.
Changes that neither of these shows are refused; the error names them.

Source: docs/format.md, "Row ids and lineage".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from lance_core.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from lance_core.number_sets import are_among, distinct
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID
from lance_core.scan.scanner import LanceScanner
from lance_core.table.snapshot import Snapshot, read_manifest
from lance_core.table.transaction import read_transaction

Numbers = npt.NDArray[np.uint64]

_MOVES_NOTHING = frozenset(
    {
        "append",
        "create_index",
        "delete",
        "overwrite",
        "project",
        "reserve_fragments",
        "update_bases",
        "update_config",
    }
)
"""Operations after which every remaining row has its old address."""

_KEEPS_ROWS = frozenset(
    {"create_index", "merge", "project", "reserve_fragments", "rewrite", "update_bases", "update_config"}
)
"""Operations that neither add nor remove rows, nor change a value of a column that the row had."""

Effect = Literal["same", "added", "replaced", "changed"]
"""Effect of a version on the rows of the version before: none, although rows may have moved and columns
may have changed; added rows; replaced rows; or any other change.
"""


@dataclass(frozen=True)
class RowSet:
    """Rows of one version, as arguments of a scan."""

    version: int
    fragments: tuple[int, ...]
    """Ids of the fragments that the rows are in."""
    filter: str | None = None
    """SQL that is true for exactly these rows of the fragments; None for all rows."""


@dataclass(frozen=True)
class Changes:
    """Changes of the rows from `begin` to `end`; made by `compare_versions`."""

    begin: Snapshot
    end: Snapshot
    transactions: tuple[Transaction, ...]
    """Transactions of the versions after `begin`, up to `end`."""

    @property
    def inserted(self) -> RowSet:
        """The rows of `end` that `begin` does not have."""
        if not self._is_stable:
            known = set(self.begin.manifest.fragment_ids)
            new = [number for number in self.end.manifest.fragment_ids if number not in known]
            return RowSet(self.end.manifest.version, tuple(new))
        return self._since(f"{CREATED_AT} > {self.begin.manifest.version}")

    @property
    def updated(self) -> RowSet:
        """The rows of `end` that `begin` has, and that were written or got a column since."""
        if not self._is_stable:
            return RowSet(self.end.manifest.version, ())
        version = self.begin.manifest.version
        return self._since(f"{CREATED_AT} <= {version} AND {LAST_UPDATED_AT} > {version}")

    def deleted(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the row ids and row addresses in `begin` of the rows that `end` does not have.

        Raises:
            LanceError: ids or deletions cannot be read.
        """
        before, after = self._differing
        left = [ids for ids, _ in _rows(self.end, after)]
        kept = distinct(np.concatenate([np.empty(0, np.uint64), *left]))
        for ids, addresses in _rows(self.begin, before):
            gone = ~are_among(kept, ids)
            if gone.any():
                yield ids[gone], addresses[gone]

    @property
    def _is_stable(self) -> bool:
        return self.end.manifest.has_stable_row_ids

    def _since(self, condition: str) -> RowSet:
        return RowSet(self.end.manifest.version, self._differing[1], condition)

    @cached_property
    def _differing(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The fragments of `begin` that `end` does not have unchanged, and the other way round."""
        before, after = (
            {message.id: message for message in snapshot.manifest.message.fragments}
            for snapshot in (self.begin, self.end)
        )
        same = {number for number, message in before.items() if after.get(number) == message}
        return tuple(n for n in before if n not in same), tuple(n for n in after if n not in same)


def compare_versions(begin: Snapshot, end: Snapshot) -> Changes:
    """Return the changes from one version of a table to a later version.

    Raises:
        InvalidInputError: `end` is older than `begin`.
        UnsupportedFeatureError: a version between them restored an older version, was cleaned up, or moved
            rows of a table without stable row ids.
    """
    first, last = begin.manifest.version, end.manifest.version
    if first > last:
        raise InvalidInputError("changes go from an older version to a newer one", found=f"{first} to {last}")
    transactions = tuple(_transaction(end, version) for version in range(first + 1, last + 1))
    stable = begin.manifest.has_stable_row_ids and end.manifest.has_stable_row_ids
    for version, transaction in enumerate(transactions, first + 1):
        operation = transaction.WhichOneof("operation")
        if operation in ("restore", "clone", None) or not (stable or _moves_nothing(transaction)):
            raise UnsupportedFeatureError(
                f"changes of rows across version {version}" + ("" if stable else " without stable row ids"),
                found=operation or "an unknown operation",
            )
    return Changes(begin, end, transactions)


def effect_on_rows(transaction: Transaction) -> Effect:
    """Return the effect of a transaction's version on the rows of the version before."""
    operation = transaction.WhichOneof("operation")
    if operation in _KEEPS_ROWS:
        return "same"
    if operation == "append" or (operation == "update" and not _takes_rows(transaction.update)):
        return "added"
    return "replaced" if operation == "overwrite" else "changed"


def _takes_rows(update: Transaction.Update) -> bool:
    """Return whether an update deletes, moves or changes existing rows."""
    return bool(update.updated_fragments or update.removed_fragment_ids or update.fields_modified)


def _transaction(end: Snapshot, version: int) -> Transaction:
    try:
        same = version == end.manifest.version
        return read_transaction(end.storage, end.manifest if same else read_manifest(end.storage, version))
    except VersionNotFoundError:
        raise UnsupportedFeatureError(f"changes of rows across version {version}, which is gone") from None


def _moves_nothing(transaction: Transaction) -> bool:
    operation = transaction.WhichOneof("operation")
    if operation != "update":
        return operation in _MOVES_NOTHING
    update = transaction.update
    takes_rows = bool(update.updated_fragments or update.removed_fragment_ids)
    in_place = update.update_mode == Transaction.Update.REWRITE_COLUMNS or bool(update.fields_modified)
    return not in_place and not (takes_rows and update.new_fragments)


def _rows(snapshot: Snapshot, fragments: tuple[int, ...]) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the ids and addresses of the live rows of some fragments."""
    options = ScanOptions(columns=(), fragments=fragments, with_row_id=True, with_row_address=True)
    for batch in LanceScanner(snapshot, options).to_batches():
        yield batch.column(ROW_ID).to_numpy(), batch.column(ROW_ADDRESS).to_numpy()
