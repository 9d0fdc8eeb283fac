"""Writers of staged changes: rows, columns of a fragment, tasks of a compaction, segments of an index."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from lance_core.changes.columns.join import require_lasting_keys
from lance_core.changes.columns.replaced_columns import ReplacedColumns, ReplacedColumnsWriter
from lance_core.changes.columns.staged_columns import StagedColumnsWriter
from lance_core.changes.compaction import CompactionMetrics, CompactionTask, execute
from lance_core.changes.indexing.segment import IndexRequest, build_segment, with_model
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.staged.change import DEFER_INDEX_REMAP, StagedChange
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.scan.read.columns import holds_dictionary
from lance_core.storage import Storage
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import create_index, data_replacement, new_transaction, rewrite
from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.dataset_options import DatasetWriteOptions

_TRAIN = "train_index"
"""Operation of a change that is the model of an index."""


class StagedWriter(Protocol):
    """Writer of one staged change; for one thread."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            LanceError: the batch does not fit, or the storage failed.
        """

    def finish(self) -> StagedChange:
        """Complete the files, and return the change.

        Raises:
            LanceError: the files cannot be completed.
        """

    def abort(self) -> None:
        """Remove the files."""


def stage_rows(
    storage: Storage,
    schema: pa.Schema,
    mode: Mode,
    options: DatasetWriteOptions,
    *,
    base: Snapshot | None,
    merge: MergePlan | None = None,
    on: tuple[str, ...] = (),
) -> StagedWriter:
    """Return a writer of rows for a later commit.

    Args:
        storage: storage of the branch.
        schema: schema of the batches to come.
        mode: as for `DatasetWriter`. Rows of a merge, and rows to join by key, are staged as "overwrite".
        options: options of the files and of the dataset.
        base: latest version of the branch; None if there is no dataset yet.
        merge: plan of the merge that the commit makes.
        on: keys by which the commit joins the columns to the rows of the dataset.

    Raises:
        InvalidInputError: a schema that does not fit, or keys that may mean other rows by then.
        UnsupportedFeatureError: dictionaries of 0.1 files, whose values are in manifests only.
        LanceError: as `DatasetWriter` raises.
    """
    if base is not None and on:
        require_lasting_keys(base.manifest, on)
    writer = DatasetWriter(storage, schema, mode, options, base=base)
    if mode != "append" and writer.settings.file_version == FileVersion.V0_1:
        for field in schema:
            if holds_dictionary(field.type):
                writer.abort()
                raise UnsupportedFeatureError("staging dictionaries of 0.1 files", column=field.name)
    return _RowsWriter(writer, merge, on)


def stage_columns(snapshot: Snapshot, fragment_id: int, schema: pa.Schema, *, replace: bool) -> StagedWriter:
    """Return a writer of columns for all rows of a fragment, deleted rows included, for a later commit.

    Args:
        snapshot: version that has the fragment.
        fragment_id: id of the fragment.
        schema: the columns.
        replace: write other values for columns that exist, not new columns.

    Raises:
        LanceError: as `StagedColumnsWriter` and `ReplacedColumnsWriter` raise.
    """
    kind = ReplacedColumnsWriter if replace else StagedColumnsWriter
    return _ColumnsWriter(kind(snapshot, fragment_id, schema), snapshot.manifest.version)


def stage_compaction(snapshot: Snapshot, task: CompactionTask) -> tuple[StagedChange, CompactionMetrics]:
    """Run one task of a compaction, and return its staged change and its metrics.

    Errors are those of `CompactionTask.execute`.
    """
    result = execute(snapshot, task)
    properties = {DEFER_INDEX_REMAP: "true"} if task.options.defer_index_remap else {}
    transaction = new_transaction(task.read_version, properties=properties)
    rewrite(transaction, [(result.original, result.new)])
    return StagedChange("rewrite", transaction), result.metrics


def stage_index_segment(
    snapshot: Snapshot, request: IndexRequest, model: StagedChange | None = None
) -> StagedChange:
    """Build a segment of an index, and return its staged change.

    Args:
        snapshot: The version to read.
        request: What to index. The change of a request with `is_model` has the operation "train_index", and
            is never committed.
        model: Change of such a request: the segment uses its training.

    Raises:
        InvalidInputError: `model` is no model of the index, or an error of `build_segment`.
        LanceError: Another error of `build_segment`.
    """
    if model is not None:
        if model.operation != _TRAIN:
            raise InvalidInputError("receipt of a model", expected=_TRAIN, found=model.operation)
        request = with_model(snapshot, request, model.transaction.create_index.new_indices[0])
    segment = build_segment(snapshot, request)
    operation = _TRAIN if request.is_model else "create_index"
    return StagedChange(operation, create_index(new_transaction(segment.dataset_version), [segment]))


class _RowsWriter:
    """Writer of rows that are added, or that the commit merges or joins."""

    def __init__(self, writer: DatasetWriter, merge: MergePlan | None, on: tuple[str, ...]) -> None:
        self._writer, self._merge, self._on = writer, merge, on
        self.write = writer.write
        self.abort = writer.abort

    def finish(self) -> StagedChange:
        transaction = self._writer.transaction()
        operation = str(transaction.WhichOneof("operation"))
        if self._merge is not None:
            operation = "merge_insert"
        elif self._on:
            operation = "add_columns"
        return StagedChange(operation, transaction, self._writer.settings, self._merge, self._on)


class _ColumnsWriter:
    """Writer of columns of one fragment."""

    def __init__(self, writer: StagedColumnsWriter | ReplacedColumnsWriter, read_version: int) -> None:
        self._writer = writer
        self._transaction = new_transaction(read_version)
        self.write = writer.write
        self.abort = writer.abort

    def finish(self) -> StagedChange:
        columns, transaction = self._writer.finish(), self._transaction
        if isinstance(columns, ReplacedColumns):
            data_replacement(transaction, [(columns.fragment_id, columns.file)])
            return StagedChange("replace_columns", transaction)
        transaction.merge.fragments.append(columns.fragment)
        transaction.merge.schema.extend(columns.fields.fields)
        return StagedChange("add_columns", transaction)
