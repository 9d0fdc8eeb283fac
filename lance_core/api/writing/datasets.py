"""The writing of a dataset or of a new version, with the arguments of the reference library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from lance_core.api.dataset.lance_dataset import LanceDataset
from lance_core.api.names.namespaces import refuse_namespaces
from lance_core.api.progress import FragmentWriteProgress
from lance_core.api.writing.arguments import storage_version, write_version
from lance_core.arguments import named
from lance_core.errors import ArgumentTypeError
from lance_core.maintenance.auto_cleanup import AutoCleanupConfig
from lance_core.scan.session import Session
from lance_core.storage import CommitLock, fresh_memory_uri
from lance_core.table.bases import DatasetBasePath
from lance_core.write.dataset import Mode


@named
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
    commit_lock: CommitLock | None = None,
    progress: FragmentWriteProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
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
    namespace_client: object = None,
    table_id: object = None,
    session: Session | None = None,
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
            is made on. `memory://` without a name makes a new dataset in memory, whose `uri` has a new name.
        schema: Schema that frames, dicts and iterables are converted to.
        mode: "create" (there must be no dataset), "append" or "overwrite". The last two create a dataset if
            there is none.
        max_rows_per_file: Rows after which a new file, and fragment, begins.
        max_rows_per_group: Rows per batch of 0.1 files. Later file versions have no such batches.
        max_bytes_per_file: Approximate size at which a new file begins, in bytes.
        max_page_bytes: Approximate size at which a page of one column ends, in bytes.
        commit_lock: Function from a version number to a context manager, as for `dataset`. The returned
            dataset keeps it.
        progress: Called when fragments begin and end.
        storage_options: Settings of the storage that the URI names, and of base paths, as for `dataset`.
        data_storage_version: "0.1" ("legacy"), "2.0", "2.1" or "2.2" ("stable"). None means the version of
            the dataset, and "stable" for a new one. Appending with another version is an error.
        use_legacy_format: Deprecated: True means `data_storage_version` "legacy", False "stable".
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
        namespace_client, table_id: Not supported.
        session: Session of the returned dataset, as for `dataset`. An opened dataset keeps its own otherwise.
        sync: On local disks make everything durable before returning. The reference does not.

    Returns:
        The dataset at the new version.

    Raises:
        DatasetExistsError: `mode` is "create" and there is a dataset.
        InvalidInputError: An argument is out of range, columns do not fit the dataset, or the dataset has no
            such base path.
        UnsupportedFeatureError: A type or file version cannot be written, or an argument is not supported.
        ArgumentTypeError: `session` is no session of this package.
        CommitConflictError: Another commit is in conflict with this one.
        CommitUnknownError: The storage did not tell whether the version was made.
        StorageError: The storage failed; nothing was written.
    """
    refuse_namespaces(namespace_client, table_id)
    if not isinstance(session, Session | None):
        raise ArgumentTypeError(f"session must be a lance_core.Session, got {type(session).__name__}")
    if not isinstance(uri, LanceDataset):
        uri = fresh_memory_uri(fspath(uri))
    snapshot = write_version(
        data_obj,
        uri,
        schema,
        mode,
        max_rows_per_file=max_rows_per_file,
        max_rows_per_group=max_rows_per_group,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        commit_lock=commit_lock,
        progress=progress,
        storage_options=storage_options,
        base_store_params=base_store_params,
        data_storage_version=storage_version(data_storage_version, use_legacy_format),
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
    if session is not None:
        snapshot = replace(snapshot, session=session)
    if isinstance(uri, LanceDataset):
        return uri.at(snapshot)
    return LanceDataset(uri, storage_options=storage_options, snapshot=snapshot)
