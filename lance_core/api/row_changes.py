"""Methods that change rows of a dataset, with the names, arguments and results of the reference library.

Most processes only read, and start sooner without what writes: it is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from lance_core.api.opened import OpenedDataset
from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lance_core.api.delta import DatasetDelta
    from lance_core.api.merge_insert import MergeInsertBuilder


class DeleteResult(TypedDict):
    """Result of `delete`."""

    num_deleted_rows: int


class UpdateResult(TypedDict):
    """Result of `update`."""

    num_rows_updated: int


class RowChanges(OpenedDataset):
    """Delete, update and merge. Each moves this object to the version that it makes.

    Rows are not changed in place: a deletion file names those that are gone, and new values stand in new
    fragments. With stable row ids a row keeps its id.
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
        """Delete the rows that a condition is true for; a version is made even where there are none.

        Args:
            predicate: SQL text or a `pyarrow.compute.Expression`.
            conflict_retries: how often to do it again on a newer version, when other writers changed the
                same rows. Changes of other rows are no conflict.
            retry_timeout: how long after the first attempt another one may begin.
            transaction_id: a UUID that the transaction gets as its own; repeating it gives the first result.
            sync: on local disks make everything durable before returning. The reference does not.

        Raises:
            InvalidInputError: the predicate cannot be used.
            CommitConflictError: other writers were in the way too often.
            CommitUnknownError: nobody can say whether the version was made.
            StorageError: the storage failed; nothing was changed.
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
        """Give columns new values in the rows that a condition is true for.

        Args:
            updates: SQL expressions by column name; they see the old values, and become the type of the
                column. A value that does not fit refuses the whole update; integers do not wrap around.
            where: SQL text or a `pyarrow.compute.Expression`; None means all rows.
            conflict_retries, retry_timeout, transaction_id, sync: as for `delete`.
            data_storage_version: None, or the version that the data files have.

        Raises:
            LanceError: as for `delete`; InvalidInputError also names a column, expression or value.
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
        """Begin to merge other rows into this dataset.

        Args:
            on: columns whose values make rows match; the primary key of the dataset if not given.
        """
        from lance_core.api.merge_insert import MergeInsertBuilder

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
            compared_against: an older version, which the opened one is compared with; without the others.
            begin_version, end_version: versions to compare; both of them.

        Raises:
            InvalidInputError: not exactly one of the two ways, or the versions are the wrong way round.
            VersionNotFoundError: there is no such version.
            UnsupportedFeatureError: nobody can tell, see `lance_core.scan.changes.compare_versions`.
        """
        from lance_core.api.delta import DatasetDelta
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
