"""The part of a dataset's interface that changes its rows.

Most processes only read. They start sooner, since the code that changes rows is imported when it is first
used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lance_core.api.dataset.delta import DatasetDelta
    from lance_core.api.dataset.merge_insert import MergeInsertBuilder


class DeleteResult(TypedDict):
    """Result of `delete`."""

    num_deleted_rows: int


class UpdateResult(TypedDict):
    """Result of `update`."""

    num_rows_updated: int


class RowChanges(OpenedDataset):
    """Methods that delete, update and merge rows. Each moves this object to the version that it makes.

    Rows are not changed in place: deletion files name the deleted rows, and new fragments hold new values.
    With stable row ids a row keeps its id.
    """

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> DeleteResult:
        """Delete the rows that meet a condition. A version is made even if no row meets it.

        Args:
            predicate: SQL text or a `pyarrow.compute.Expression`.
            conflict_retries: How often to retry on a newer version after other writers changed the same
                rows. Changes of other rows are no conflict.
            retry_timeout: No attempt begins later than this after the first.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make everything durable before returning. The reference does not.

        Raises:
            InvalidInputError: The predicate is not valid.
            CommitConflictError: Other writers changed the same rows too often.
            CommitUnknownError: The storage did not tell whether the version was made.
            StorageError: The storage failed; nothing was changed.
        """
        from lance_core.changes.rows.delete import delete

        self._snapshot, num_rows = delete(
            self._snapshot,
            predicate,
            conflict_retries=conflict_retries,
            retry_timeout=retry_timeout,
            transaction_id=transaction_id,
            sync=sync,
        )
        return DeleteResult(num_deleted_rows=num_rows)

    def truncate_table(self) -> None:
        """Delete all rows. The columns stay; errors are those of `delete`."""
        self.delete("true")

    def update(
        self,
        updates: Mapping[str, str],
        where: str | pc.Expression | None = None,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        data_storage_version: str | None = None,
        *,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> UpdateResult:
        """Set columns to new values in the rows that meet a condition.

        Args:
            updates: SQL expressions by column name. They see the old values, and their results are cast to
                the type of the column. If a value does not fit, the update is refused; integers do not wrap
                around.
            where: SQL text or a `pyarrow.compute.Expression`; None means all rows.
            conflict_retries, retry_timeout, transaction_id, sync: As for `delete`.
            data_storage_version: None, or the file version of the dataset.

        Raises:
            InvalidInputError: A column, an expression, the condition or a value is not valid.
            LanceError: The errors of `delete`.
        """
        from lance_core.changes.rows.update import update

        self._snapshot, num_rows = update(
            self._snapshot,
            updates,
            where,
            conflict_retries=conflict_retries,
            retry_timeout=retry_timeout,
            data_storage_version=data_storage_version,
            transaction_id=transaction_id,
            sync=sync,
        )
        return UpdateResult(num_rows_updated=num_rows)

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Return a builder that merges other rows into this dataset.

        Args:
            on: Key columns: rows with equal values match. The primary key of the dataset if left out.

        Raises:
            InvalidInputError: There is no such column, or no column is named and there is no primary key.
            UnsupportedFeatureError: Rows cannot be matched by a column of this type.
        """
        from lance_core.api.dataset.merge_insert import MergeInsertBuilder

        keys = () if on is None else (on,) if isinstance(on, str) else tuple(on)
        return MergeInsertBuilder(self, keys)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Return the changes between two versions of this branch.

        Args:
            compared_against: An older version to compare the opened version with.
            begin_version, end_version: The versions to compare, instead of `compared_against`.

        Raises:
            InvalidInputError: The arguments do not name exactly two versions, or name the later one first.
            VersionNotFoundError: There is no such version.
            UnsupportedFeatureError: The versions lack the data that a comparison needs; see
                `lance_core.scan.changes.compare_versions`.
        """
        from lance_core.api.dataset.delta import DatasetDelta
        from lance_core.scan.changes import compare_versions

        if compared_against is not None and begin_version is None and end_version is None:
            begin_version, end_version = compared_against, self.version
        elif compared_against is not None or begin_version is None or end_version is None:
            raise InvalidInputError("give either compared_against, or begin_version and end_version")
        begin, end = (
            self._snapshot if version == self.version else self.open_reference(version)
            for version in (begin_version, end_version)
        )
        return DatasetDelta(compare_versions(begin, end))
