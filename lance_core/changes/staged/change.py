"""Description of a staged change: the transaction that it would make alone, and how it is committed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from google.protobuf.message import DecodeError

from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.commit.next_manifest import TableSettings
from lance_core.errors import InvalidInputError, StorageError
from lance_core.file.footer import FileVersion
from lance_core.file.side_files import delete_data_file
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.indices import segment_directory
from lance_core.write.targets import DIRECTORY

DEFER_INDEX_REMAP = "defer_index_remap"
"""Property of the transaction of a staged compaction whose commit leaves index files as they are."""


@dataclass(frozen=True)
class StagedChange:
    """Written data files or index files that belong to no version, and what a commit does with them.

    Attributes:
        operation: Operation of the commit: append, overwrite, merge_insert, add_columns, replace_columns,
            rewrite or create_index. A change with train_index is the model of an index, and is not committed.
        transaction: The transaction that this change would make alone, on the version that it read. Rows
            that are merged, and rows whose columns are joined by key, are rows of an overwrite.
        settings: Settings of the version that an overwrite makes.
        merge: Plan of a merge.
        on: Keys by which columns are joined.
    """

    operation: str
    transaction: Transaction
    settings: TableSettings = field(default_factory=TableSettings)
    merge: MergePlan | None = None
    on: tuple[str, ...] = ()

    @property
    def read_version(self) -> int:
        """Return the version that the change was made on; 0 for a new dataset."""
        return self.transaction.read_version

    @property
    def num_rows(self) -> int:
        """Return the number of staged rows; 0 for columns of rows that exist."""
        added = (*self.transaction.append.fragments, *self.transaction.overwrite.fragments)
        return sum(fragment.physical_rows for fragment in added)

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """Return the paths of the files, relative to the branch, with their sizes in bytes."""
        indexed = tuple(
            (f"{segment_directory(segment)}/{file.path}", file.size_bytes)
            for segment in self.transaction.create_index.new_indices
            for file in segment.files
        )
        data = tuple((f"{DIRECTORY}/{file.path}", file.file_size_bytes) for file in self._data_files())
        return indexed + data

    def _data_files(self) -> list[table_pb2.DataFile]:
        transaction = self.transaction
        if self.operation == "replace_columns":
            return [each.new_file for each in transaction.data_replacement.replacements]
        if transaction.HasField("merge"):  # the last file of each fragment is the new one
            return [fragment.files[-1] for fragment in transaction.merge.fragments]
        new = [*transaction.append.fragments, *transaction.overwrite.fragments]
        new += [fragment for group in transaction.rewrite.groups for fragment in group.new_fragments]
        return [file for fragment in new for file in fragment.files]

    def discard(self, storage: Storage) -> None:
        """Remove the files. A file that cannot be removed belongs to no version, and does no harm."""
        for path, _ in self.files:
            with suppress(StorageError):
                delete_data_file(storage, path)
        for segment in self.transaction.create_index.new_indices:
            with suppress(StorageError):
                storage.delete_directory(segment_directory(segment))

    def as_data(self) -> dict[str, Any]:
        """Return plain values for JSON, which `from_data` reads."""
        version = self.settings.file_version
        return {
            "operation": self.operation,
            "transaction": base64.b64encode(self.transaction.SerializeToString()).decode(),
            "file_version": version.name if version else None,
            "stable_row_ids": self.settings.stable_row_ids,
            "files": self.files,
            "merge": None if self.merge is None else asdict(self.merge),
            "on": self.on,
        }

    @staticmethod
    def from_data(values: Mapping[str, Any]) -> StagedChange:
        """Return the change from the values of `as_data`; further values are ignored.

        Raises:
            InvalidInputError: a value is missing, or does not decode.
            UnsupportedFeatureError: the data files have a version that this package does not know.
        """
        try:
            merge, version = values["merge"], values["file_version"]
            return StagedChange(
                operation=values["operation"],
                transaction=Transaction.FromString(base64.b64decode(values["transaction"])),
                settings=TableSettings(
                    FileVersion.from_name(version) if version else None, values["stable_row_ids"]
                ),
                merge=MergePlan(**{**merge, "on": tuple(merge["on"])}) if merge else None,
                on=tuple(values.get("on", ())),  # older releases joined no columns
            )
        except (ValueError, KeyError, TypeError, DecodeError) as error:
            raise InvalidInputError("the description of a staged change", found=error) from None
