"""Datasets as a caller opens and writes them, with the names and arguments of the reference library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from lance_core.api.blob_reads import BlobReads
from lance_core.api.column_changes import AlterColumn, ColumnChanges
from lance_core.api.commit import Committing
from lance_core.api.fragment import LanceFragment
from lance_core.api.history import History, Version
from lance_core.api.indexing import IndexInformation, Indexing
from lance_core.api.late import import_late
from lance_core.api.opened import Reference
from lance_core.api.reading import Reading
from lance_core.api.row_changes import DeleteResult, RowChanges, UpdateResult
from lance_core.api.tags_and_branches import Branch, Branches, Tag, Tags
from lance_core.errors import DatasetNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_core.hints import did_you_mean, near_names
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.session import Session
from lance_core.storage import scheme_of, storage_for
from lance_core.table.bases import DatasetBasePath
from lance_core.table.snapshot import open_kept, version_before
from lance_core.table.versions import VERSIONS

if TYPE_CHECKING:
    from lance_core.api.delta import DatasetDelta
    from lance_core.api.merge_insert import ExecuteResult, MergeInsertBuilder
    from lance_core.api.operations import Index, LanceOperation, Transaction
    from lance_core.api.optimize import DatasetOptimizer
    from lance_core.api.progress import FragmentWriteProgress
    from lance_core.write.dataset import Mode

__all__ = [
    "AlterColumn",
    "Branch",
    "Branches",
    "DatasetDelta",
    "DatasetOptimizer",
    "DeleteResult",
    "ExecuteResult",
    "Index",
    "IndexInformation",
    "LanceDataset",
    "LanceOperation",
    "LanceScanner",
    "MergeInsertBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "Version",
    "dataset",
    "write_dataset",
]

__getattr__ = import_late(
    __name__,
    {
        "DatasetDelta": "lance_core.api.delta",
        "DatasetOptimizer": "lance_core.api.optimize",
        "ExecuteResult": "lance_core.api.merge_insert",
        "Index": "lance_core.api.operations",
        "LanceOperation": "lance_core.api.operations",
        "MergeInsertBuilder": "lance_core.api.merge_insert",
        "Transaction": "lance_core.api.operations",
    },
)


def dataset(
    uri: str | PathLike[str],
    version: Reference | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: object = None,
    index_cache_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    default_scan_options: Mapping[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: Mapping[str, Any] | None = None,
    session: Session | None = None,
    *,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
) -> LanceDataset:
    """Open a dataset.

    `block_size`, `read_params` and the sizes of caches have no effect: reads follow the pages, and datasets
    share the caches of their session.

    Args:
        uri: Path or URL of the dataset's directory.
        version: Version or tag to open; the latest version if left out.
        asof: Open the last version committed before this time. A time without a zone is local time; text is
            ISO 8601. Has no effect if `version` is given.
        storage_options: Settings of the storage that the URI names, and of base paths. The key
            `base_<id>.<key>` is for the base path with this id only.
        base_store_params: Settings of the storages of base paths by their path, instead of
            `storage_options`.
        session: Caches, memory and settings of reads and changes, also of other versions that are opened from
            the dataset. By default all datasets share one session of the process.

    Raises:
        TypeError: `session` is no session of this package.
        DatasetNotFoundError: There is no dataset, no such version or tag, or no version as old as `asof`.
        UnsupportedFeatureError: The dataset uses a feature that is not supported, or `commit_lock` or
            `default_scan_options` is given. The message names it.
    """
    for name, value in (("commit_lock", commit_lock), ("default_scan_options", default_scan_options)):
        if value is not None:
            raise UnsupportedFeatureError(f"argument {name!r} is not supported")
    if not isinstance(session, Session | None):
        raise TypeError(f"session must be a lance_core.Session, got {type(session).__name__}")
    try:
        opened = LanceDataset(
            fspath(uri), version, storage_options, session=session, base_store_params=base_store_params
        )
    except DatasetNotFoundError as error:
        if type(error) is not DatasetNotFoundError or scheme_of(fspath(uri)) != "file":
            raise
        raise DatasetNotFoundError(f"{error}{_hint_beside(fspath(uri))}") from None
    if version is not None or asof is None:
        return opened
    return opened.checkout_version(_version_before(opened, asof))


def write_dataset(
    data_obj: Any,
    uri: str | PathLike[str] | LanceDataset,
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    max_rows_per_file: int | None = 1024 * 1024,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int | None = 90 * 1024 * 1024 * 1024,
    max_page_bytes: int | None = None,
    progress: FragmentWriteProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
    data_storage_version: str | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: Mapping[str, int] | None = None,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    transaction_id: str | None = None,
    initial_bases: Sequence[DatasetBasePath] | None = None,
    target_bases: Sequence[str] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    sync: bool = True,
) -> LanceDataset:
    """Write data as a new dataset, or as a new version of a dataset.

    Memory is bounded whatever the size of the data. The new version becomes visible with the commit at the
    end. If a write fails or is killed, the dataset stays as it was.

    Args:
        data_obj: An Arrow table, batch, reader, dataset or scanner, a dataset or scanner of this package, a
            pandas or polars frame, columns as a dict, rows as a list of dicts, any object with
            `__arrow_c_stream__`, or an iterable of record batches together with `schema`.
        uri: Path or URL of the dataset, or an opened dataset. Then the opened version is what the new version
            is made on.
        schema: Schema that frames, dicts and iterables are converted to.
        mode: "create" (there must be no dataset), "append" or "overwrite". The last two create a dataset if
            there is none.
        max_rows_per_file: Rows after which a new file, and fragment, begins.
        max_rows_per_group: Rows per batch of 0.1 files. Later file versions have no such batches.
        max_bytes_per_file: Approximate size at which a new file begins, in bytes.
        max_page_bytes: Approximate size at which a page of one column ends, in bytes.
        progress: Called when fragments begin and end.
        storage_options: Settings of the storage that the URI names, and of base paths, as for `dataset`.
        data_storage_version: "0.1" ("legacy"), "2.0", "2.1" or "2.2" ("stable"). None means the version of
            the dataset, and "stable" for a new one. Appending with another version is an error.
        enable_v2_manifest_paths: Name the manifests of a new dataset so that the newest is listed first.
        enable_stable_row_ids: Let the rows of a new dataset keep their row ids when they move.
        auto_cleanup_options: `interval` (versions) and `older_than_seconds`. They become settings of a new
            dataset, and commits clean up by them.
        commit_message, transaction_properties: Texts that are stored in the transaction.
        transaction_id: UUID of the transaction.
        initial_bases: Base paths of a new dataset. They get the ids 1, 2, and so on, if they have none.
        target_bases: Names or paths of the base paths that data files are written to, one after the other.
            The URI of the dataset means the dataset itself, which is also the default.
        target_all_bases: True: write data files to the dataset itself and to all its base paths, one after
            the other. False: to all base paths.
        base_store_params: Settings of the storages of base paths by their path, as for `dataset`. An opened
            dataset keeps the settings that it was opened with.
        external_blob_mode: "reference" leaves blobs that are given by a URI where they are. "ingest" reads
            them one after the other and stores them in the dataset; `storage_options` apply to their storage,
            too.
        allow_external_blob_outside_bases: Allow "reference" for files anywhere. Otherwise it is refused for
            files that are in none of the dataset's base paths.
        blob_pack_file_size_threshold: Largest size of a side file that blobs share, in bytes. It overrides
            the fields' own setting.
        sync: On local disks make everything durable before returning. The reference does not.

    Returns:
        The dataset at the new version.

    Raises:
        DatasetExistsError: `mode` is "create" and there is a dataset.
        InvalidInputError: An argument is out of range, columns do not fit the dataset, or the dataset has no
            such base path.
        UnsupportedFeatureError: A type or file version cannot be written.
        CommitConflictError: Another commit is in conflict with this one.
        CommitUnknownError: The storage did not tell whether the version was made.
        StorageError: The storage failed; nothing was written.
    """
    # Late: most processes only read.
    from lance_core.api.write_arguments import write_destination, write_options
    from lance_core.write.dataset import write_data

    destination = write_destination(uri, storage_options, base_store_params)
    options = write_options(
        destination,
        max_rows_per_file=max_rows_per_file,
        max_rows_per_group=max_rows_per_group,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        progress=progress,
        storage_options=storage_options,
        data_storage_version=data_storage_version,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        enable_stable_row_ids=enable_stable_row_ids,
        auto_cleanup_options=auto_cleanup_options,
        commit_message=commit_message,
        transaction_properties=transaction_properties,
        transaction_id=transaction_id,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
        sync=sync,
    )
    snapshot = write_data(
        destination.storage,
        data_obj,
        schema,
        mode,
        options,
        base=destination.base,
        open_base=destination.open_base,
    )
    if isinstance(uri, LanceDataset):
        return uri.at(snapshot)
    return LanceDataset(destination.uri, storage_options=storage_options, snapshot=snapshot)


class LanceDataset(Reading, BlobReads, RowChanges, ColumnChanges, History, Indexing, Committing):
    """One version of a dataset."""

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
            TypeError: An item is no `DatasetBasePath`.
            InvalidInputError: Another base path has the same id, name or path, or a path is not absolute.
            CommitConflictError: Another commit added a base path with the same id, name or path.
            CommitUnknownError: The storage did not tell whether the version was made.
        """
        from lance_core.changes.settings import add_bases  # late: most processes only read

        for base in new_bases:
            if not isinstance(base, DatasetBasePath):
                raise TypeError(f"new_bases must be DatasetBasePath objects, got {type(base).__name__}")
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

    def get_fragments(self) -> list[LanceFragment]:
        """Return all fragments in dataset order."""
        return [LanceFragment(self, fragment) for fragment in self._snapshot.manifest.fragments]

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

    def insert(self, data: Any, *, mode: Literal["append", "overwrite"] = "append", **arguments: Any) -> None:
        """Write a new version on top of this one and move to it; arguments are those of `write_dataset`."""
        self._snapshot = write_dataset(data, self, mode=mode, **arguments).snapshot

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


def _version_before(opened: LanceDataset, asof: datetime | str) -> int:
    if isinstance(asof, str):
        try:
            asof = datetime.fromisoformat(asof)
        except ValueError:
            raise InvalidInputError("asof is not an ISO 8601 time", found=asof) from None
    elif not isinstance(asof, datetime):
        raise TypeError(f"asof must be a datetime or text, got {type(asof).__name__}")
    version = version_before(opened.snapshot.storage, asof.astimezone())
    if version is None:
        raise DatasetNotFoundError(f"{asof} is earlier than the first version of this dataset")
    return version


def _hint_beside(path: str) -> str:
    """Return the end of a message about a path without a dataset: datasets beside it with similar names."""
    parent, name = os.path.split(path.rstrip("/"))
    try:
        entries = sorted(os.listdir(parent or "."))
    except OSError:
        return ""
    by_stem = {entry.removesuffix(".lance"): entry for entry in entries}
    near = [os.path.join(parent, by_stem[stem]) for stem in near_names(name.removesuffix(".lance"), by_stem)]
    near = [each for each in near if os.path.isdir(os.path.join(each, VERSIONS))]
    return did_you_mean(path, near) if near else ""
