"""The builder of a merge of rows, with the names, arguments and results of the reference library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, cast

import pyarrow as pa

from lance_core.api.dataset.transactions import from_message
from lance_core.api.names.late import refuse_missing
from lance_core.arguments import named_arguments, refuse_wrong_types
from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.changes.rows.key_matches import key_fields
from lance_core.changes.rows.merge_insert import merge_insert, write_merge
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.rows.row_change import make_row_change
from lance_core.changes.rows.update import require_own_file_version
from lance_core.changes.source_rows import SourceRows
from lance_core.errors import ArgumentTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.write.targets import TargetBases

if TYPE_CHECKING:
    from lance_core.api.dataset.methods.opened import OpenedDataset
    from lance_core.api.dataset.operations import Transaction


class ExecuteResult(TypedDict):
    """Numbers of rows that a merge inserted, updated and deleted."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


@named_arguments
class MergeInsertBuilder:
    """A merge of rows into a dataset: first set the actions per kind of row, then `execute` it.

    The methods that set something return the builder.
    """

    if not TYPE_CHECKING:  # a type checker would believe that every name exists
        __getattr__ = refuse_missing("MergeInsertBuilder")

    def __init__(self, dataset: OpenedDataset, on: tuple[str, ...]) -> None:
        """Use `LanceDataset.merge_insert`, which names the errors."""
        key_fields(dataset.snapshot, on)
        self._dataset = dataset
        self._plan = MergePlan(on)
        self._conflict_retries = CONFLICT_RETRIES
        self._retry_timeout = RETRY_TIMEOUT
        self._targets = TargetBases(uri=dataset.uri)

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update matched rows of the dataset with the values of their source rows.

        Args:
            condition: SQL on `source.<column>` and `target.<column>`. Only pairs that meet it are updated.
                Other matched rows keep their values, and their source rows are not inserted.
        """
        return self._with(when_matched="update_all", when_matched_condition=condition)

    def when_matched_delete(self) -> Self:
        """Delete rows of the dataset that match a source row."""
        return self._with(when_matched="delete", when_matched_condition=None)

    def when_matched_fail(self) -> Self:
        """Refuse the merge if a source row matches a row of the dataset."""
        return self._with(when_matched="fail", when_matched_condition=None)

    def when_not_matched_insert_all(self) -> Self:
        """Insert source rows that match no row of the dataset."""
        return self._with(when_not_matched="insert_all")

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> Self:
        """Delete rows of the dataset that match no source row.

        Args:
            expr: SQL on columns of the dataset. Only rows that meet it are deleted.
        """
        return self._with(when_not_matched_by_source="delete", when_not_matched_by_source_condition=expr)

    def conflict_retries(self, max_retries: int) -> Self:
        """Set how often the merge is retried on a newer version after a conflict; default: 10."""
        self._conflict_retries = max_retries
        return self

    def retry_timeout(self, timeout: timedelta) -> Self:
        """Set how long after the first attempt another attempt may begin; default: 30 seconds.

        Raises:
            ArgumentTypeError: `timeout` is no `timedelta`.
        """
        if not isinstance(timeout, timedelta):
            raise ArgumentTypeError(f"timeout must be a timedelta, got {type(timeout).__name__}")
        self._retry_timeout = timeout
        return self

    def use_index(self, use_index: bool) -> Self:
        """Do nothing: keys are always scanned, and pruned by statistics."""
        return self

    def write_mode(self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]) -> Self:
        """Set how updated rows are written.

        Raises:
            UnsupportedFeatureError: The mode is "rewrite_columns".
            InvalidInputError: There is no such mode.
        """
        if mode == "rewrite_columns":
            raise UnsupportedFeatureError("write_mode", found=mode)
        if mode not in ("auto", "rewrite_rows"):
            raise InvalidInputError(
                "write_mode", expected="auto, rewrite_rows or rewrite_columns", found=mode
            )
        return self

    def data_storage_version(self, version: str) -> Self:
        """Set the file version of new data files, which can only be the version of the dataset.

        Raises:
            InvalidInputError: There is no such version.
            UnsupportedFeatureError: The dataset has another version.
        """
        require_own_file_version(self._dataset.snapshot, version)
        return self

    def target_bases(self, bases: Sequence[str]) -> Self:
        """Set the base paths that files of new rows are written to, one after the other.

        Deletion files are always written to the dataset itself.

        Args:
            bases: Names or paths of base paths. The URI of the dataset means the dataset itself.
        """
        references = tuple(bases)
        refuse_wrong_types(TargetBases, {"references": references})
        self._targets = replace(self._targets, references=references)
        return self

    def target_all_bases(self, include_primary: bool = True) -> Self:
        """Write files of new rows to all base paths that the dataset has when the merge is executed.

        Args:
            include_primary: Write to the dataset itself, too. It comes first.
        """
        self._targets = replace(self._targets, all_bases=include_primary)
        return self

    def execute(
        self,
        data_obj: Any,
        *,
        schema: pa.Schema | None = None,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> ExecuteResult:
        """Merge, and move the dataset to the new version.

        Args:
            data_obj: Source rows: any data that `write_dataset` takes. They have the key columns and some or
                all other columns. If they are no Arrow table in memory, a temporary file holds them.
            schema: As for `write_dataset`.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make everything durable before returning. The reference does not.

        Raises:
            LanceError: The errors of `lance_core.changes.rows.merge_insert.merge_insert`.
        """
        self._plan.check()
        with SourceRows(data_obj, schema) as source:
            made, counts = merge_insert(
                self._dataset.snapshot,
                source,
                self._plan,
                conflict_retries=self._conflict_retries,
                retry_timeout=self._retry_timeout,
                transaction_id=transaction_id,
                targets=self._targets,
                sync=sync,
            )
        self._dataset.move_to(made)
        return cast(ExecuteResult, counts)

    def execute_uncommitted(
        self, data_obj: Any, *, schema: pa.Schema | None = None, sync: bool = True
    ) -> tuple[Transaction, ExecuteResult]:
        """Write the files of the merge, without a commit.

        Args:
            data_obj, schema, sync: As for `execute`.

        Returns:
            A transaction for `LanceDataset.commit`, and the numbers of rows as from `execute`. The
            transaction does not tell which rows of a fragment it deletes, so every other change of these
            fragments is a conflict.

        Raises:
            LanceError: The errors of `execute`.
        """
        with SourceRows(data_obj, schema) as source:
            change = make_row_change(
                self._dataset.snapshot,
                lambda current, change: write_merge(
                    current, source, self._plan, change, self._targets, sync=sync
                ),
            )
        return from_message(change.transaction), cast(ExecuteResult, change.counts)

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """Return the steps of the merge as text, without running it.

        The text is for people and changes between releases.

        Args:
            schema: Schema of the source rows; None means the schema of the dataset.
            verbose: Add the pages of the key columns, per fragment.

        Raises:
            LanceError: A column of the source does not fit, or the merge has no action.
        """
        from lance_core.changes.rows.merge_explain import explain_merge  # late: rarely needed

        return explain_merge(self._dataset.snapshot, schema, self._plan, verbose=verbose)

    def analyze_plan(self, data_obj: Any, *, schema: pa.Schema | None = None) -> str:
        """Run the merge without a commit. Return its steps with times, rows, bytes and pages as text.

        The files of the run are removed. (The reference leaves them to a cleanup.)

        Args:
            data_obj, schema: As for `execute`.

        Raises:
            LanceError: The errors of `execute`.
        """
        from lance_core.changes.rows.merge_explain import analyze_merge  # late: rarely needed

        with SourceRows(data_obj, schema) as source:
            return analyze_merge(self._dataset.snapshot, source, self._plan, self._targets)

    def execute_batches(self, new_data: Any) -> ExecuteResult:
        """Merge rows that memory holds; see `execute`.

        Args:
            new_data: An Arrow table, batch or reader. A reader is read into memory, not into a file.
        """
        return self.execute(_held(new_data))

    def execute_uncommitted_batches(self, new_data: Any) -> tuple[Transaction, ExecuteResult]:
        """Write the files of the merge of rows that memory holds; see `execute_uncommitted`.

        Args:
            new_data: As for `execute_batches`.
        """
        return self.execute_uncommitted(_held(new_data))

    def analyze_plan_batches(self, new_data: Any) -> str:
        """Run the merge of rows that memory holds without a commit; see `analyze_plan`.

        Args:
            new_data: As for `execute_batches`.
        """
        return self.analyze_plan(_held(new_data))

    def _with(self, **changes: Any) -> Self:
        refuse_wrong_types(MergePlan, changes)
        self._plan = replace(self._plan, **changes)
        return self


def _held(new_data: Any) -> pa.Table:
    """Return an Arrow table, batch or reader as a table in memory; raise TypeError for other data."""
    if not isinstance(new_data, pa.RecordBatch) and not hasattr(new_data, "__arrow_c_stream__"):
        raise ArgumentTypeError(
            f"new_data must be an Arrow table, batch or reader, got {type(new_data).__name__}"
        )
    return pa.table(new_data)
