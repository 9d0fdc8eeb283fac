"""A dataset as a caller holds it, with the names and arguments of the reference library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import pyarrow as pa

from lance_core.api.dataset.methods.blob_reads import BlobReads
from lance_core.api.dataset.methods.column_changes import ColumnChanges
from lance_core.api.dataset.methods.commits import Committing
from lance_core.api.dataset.methods.facts import Facts
from lance_core.api.dataset.methods.history import History
from lance_core.api.dataset.methods.opened import Reference
from lance_core.api.dataset.methods.reading import Reading
from lance_core.api.dataset.methods.row_changes import RowChanges
from lance_core.api.dataset.methods.tags_and_branches import Branches, Tags
from lance_core.api.fragment import LanceFragment
from lance_core.api.names.late import refuse_missing
from lance_core.errors import ArgumentTypeError, DatasetNotFoundError
from lance_core.storage import storage_for
from lance_core.table.bases import DatasetBasePath
from lance_core.table.snapshot import open_kept

if TYPE_CHECKING:
    from lance_core.api.optimize import DatasetOptimizer
    from lance_core.api.writing.arguments import WriteArguments


class LanceDataset(Reading, BlobReads, RowChanges, ColumnChanges, History, Facts, Committing):
    """One version of a dataset."""

    if not TYPE_CHECKING:  # a type checker would believe that every name exists
        __getattr__ = refuse_missing("LanceDataset")

    def __len__(self) -> int:
        """Return the number of live rows. Without rows a dataset is false, like a list."""
        return self.count_rows()

    @staticmethod
    def drop(
        base_uri: str | PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a dataset with all its versions, tags and branches.

        Args:
            base_uri: Path or URL of the dataset.
            storage_options: Settings of the storage that the URI names.
            ignore_not_found: Do nothing if there is no dataset.

        Raises:
            DatasetNotFoundError: There is no dataset.
            StorageError: The storage failed; `lance_core.maintenance.drop` says what is left then.
        """
        from lance_core.maintenance.drop import drop_table  # late: most processes only read

        try:
            drop_table(storage_for(fspath(base_uri), storage_options))
        except DatasetNotFoundError:
            if not ignore_not_found:
                raise

    @property
    def tags(self) -> Tags:
        """The tags of all branches."""
        return Tags(self)

    @property
    def branches(self) -> Branches:
        """All branches except the main one."""
        return Branches(self)

    def config(self) -> dict[str, str]:
        """Return the settings of the table."""
        return dict(self._snapshot.manifest.config)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that users set on the table."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The metadata of the schema."""
        return dict(self._snapshot.manifest.schema.metadata)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Return the base paths by id: directories outside the dataset with files of this version."""
        return dict(self._snapshot.manifest.base_paths)

    def add_bases(
        self,
        new_bases: Sequence[DatasetBasePath],
        transaction_properties: Mapping[str, str] | None = None,
        *,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> Self:
        """Add base paths, which writes can then name as targets, and move to the new version.

        Args:
            new_bases: The base paths. Those without an id get the next free ids.
            transaction_properties: Texts that are stored in the transaction.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make everything durable before returning.

        Returns:
            This dataset.

        Raises:
            ArgumentTypeError: An item is no `DatasetBasePath`.
            InvalidInputError: Another base path has the same id, name or path, or a path is not absolute.
            CommitConflictError: Another commit added a base path with the same id, name or path.
            CommitUnknownError: The storage did not tell whether the version was made.
        """
        from lance_core.changes.settings import add_bases  # late: most processes only read

        for base in new_bases:
            if not isinstance(base, DatasetBasePath):
                raise ArgumentTypeError(
                    f"new_bases must be DatasetBasePath objects, got {type(base).__name__}"
                )
        self.move_to(
            add_bases(
                self._snapshot,
                new_bases,
                properties=transaction_properties,
                transaction_id=transaction_id,
                sync=sync,
            )
        )
        return self

    @property
    def data_storage_version(self) -> str:
        """File version of the data files."""
        return self._snapshot.manifest.data_storage_version

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their row ids when they move."""
        return self._snapshot.manifest.has_stable_row_ids

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment with this id, None if there is none."""
        for fragment in self._snapshot.manifest.fragments:
            if fragment.id == fragment_id:
                return LanceFragment(self, fragment)
        return None

    def validate(self) -> None:
        """Check every file of this version.

        Of 2.x files that this library wrote every byte is checked. All other files have to decode. Changes
        check the pages that they read anyway; this method finds damage in all other pages.

        Raises:
            CorruptFileError: The first damage; names file, column and page.
        """
        from lance_core.scan.validate import validate_snapshot  # late: most processes do without

        validate_snapshot(self._snapshot)

    def insert(
        self,
        data: Any,
        *,
        mode: Literal["append", "overwrite"] = "append",
        schema: pa.Schema | None = None,
        **arguments: Unpack[WriteArguments],
    ) -> None:
        """Write a new version on top of this one and move to it; arguments are those of `write_dataset`."""
        from lance_core.api.writing.arguments import write_version  # late: most processes only read

        self._snapshot = self._bound(write_version(data, self, schema, mode, **arguments))

    @property
    def optimize(self) -> DatasetOptimizer:
        """Operations that make the dataset faster to read, such as compaction."""
        from lance_core.api.optimize import DatasetOptimizer  # late: most processes only read

        return DatasetOptimizer(self)

    def checkout_version(self, version: Reference) -> LanceDataset:
        """Return another version of the dataset. This object stays at its version.

        Args:
            version: A number is a version of the opened branch. Text is a tag of any branch. A pair is a
                branch (`None` or "main": the main one) and its version (`None`: the latest).

        Raises:
            DatasetNotFoundError: There is no such version, tag or branch.
        """
        return self.at(self.open_reference(version))

    def checkout_latest(self) -> None:
        """Move this object to the latest version of its branch."""
        self._snapshot = self._bound(open_kept(self._storage, open_base=self._snapshot.open_base))
