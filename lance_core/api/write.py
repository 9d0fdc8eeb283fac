"""Datasets as a caller writes them, with the names, arguments and results of the reference library."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from lance_core.api.dataset import LanceDataset
from lance_core.api.fragment_metadata import FragmentMetadata
from lance_core.api.operations import LanceOperation, Transaction
from lance_core.errors import InvalidInputError
from lance_core.file.writer_options import WriteOptions
from lance_core.schema import Schema
from lance_core.storage import ReadableFile, storage_for
from lance_core.write.batch_sources import batches_of
from lance_core.write.dataset import DatasetWriter, Mode, write_data
from lance_core.write.dataset_options import DatasetWriteOptions, file_version
from lance_core.write.fragments import FileLimits, FragmentWriteProgress


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
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    sync: bool = True,
) -> LanceDataset:
    """Write data as a new dataset, or as a new version of one.

    Memory is bounded whatever the size of the data. Until the commit at the end nobody sees anything; a write
    that fails or is killed leaves the dataset as it was.

    Args:
        data_obj: an Arrow table, batch, reader, dataset or scanner, a dataset or scanner of this package, a
            pandas or polars frame, columns as a dict, rows as a list of dicts, anything with
            `__arrow_c_stream__`, or an iterable of record batches together with `schema`.
        uri: path or URL of the dataset, or an open one: then the new version is made on the opened version.
        schema: what frames, dicts and iterables are turned into.
        mode: "create" (there must be no dataset), "append" or "overwrite" (which create one, too).
        max_rows_per_file: rows after which a new file, and fragment, begins.
        max_rows_per_group: rows per batch of 0.1 files; others have none.
        max_bytes_per_file: bytes after which a new file begins; about.
        max_page_bytes: bytes of one column after which a page ends; about.
        progress: told when fragments begin and end.
        storage_options: settings of the storage that the URI names.
        data_storage_version: "0.1" ("legacy"), "2.0", "2.1" or "2.2" ("stable"). None means that of the
            table, and "stable" for a new one; when appending another one than the table's is an error.
        enable_v2_manifest_paths: name the manifests of a new dataset so that the newest is listed first.
        enable_stable_row_ids: let the rows of a new dataset keep their ids when they are moved.
        auto_cleanup_options: `interval` and `older_than_seconds`; noted in the settings of a new dataset for
            commits to clean up after.
        commit_message, transaction_properties: noted in the transaction.
        transaction_id: a UUID that the transaction gets as its own id.
        external_blob_mode: what becomes of blobs that are given by a URI: "reference" leaves them where they
            are, "ingest" reads their bytes, one blob after the other, and keeps them in the dataset.
            `storage_options` are those of their storage, too.
        allow_external_blob_outside_bases: allow "reference"; it is refused otherwise.
        blob_pack_file_size_threshold: most bytes of a side file that blobs share, whatever the fields say.
        sync: on local disks make everything durable before returning. The reference does not.

    Returns:
        The dataset at the new version.

    Raises:
        DatasetExistsError: `mode` is "create" and there is a dataset.
        InvalidInputError: arguments that make no sense, or columns that do not fit the dataset.
        UnsupportedFeatureError: a type or version that is not written.
        CommitConflictError: another version makes this one impossible.
        CommitUnknownError: nobody can say whether the version was made.
        StorageError: the storage failed; nothing was written.
    """
    opened, path = (uri, uri.uri) if isinstance(uri, LanceDataset) else (None, fspath(uri))
    options = DatasetWriteOptions(
        file_version=file_version(data_storage_version),
        enable_stable_row_ids=enable_stable_row_ids,
        limits=_limits(max_rows_per_file, max_bytes_per_file),
        files=replace(
            _file_options(max_page_bytes, max_rows_per_group),
            external_blobs=allow_external_blob_outside_bases,
            open_uri=_open_uri(external_blob_mode, allow_external_blob_outside_bases, storage_options),
            blob_pack_bytes=_pack_bytes(blob_pack_file_size_threshold),
        ),
        progress=progress,
        commit_message=commit_message,
        transaction_properties=transaction_properties or {},
        transaction_id=transaction_id,
        config=_cleanup_settings(auto_cleanup_options),
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        sync=sync,
    )
    base = opened.snapshot if opened is not None else None
    storage = base.storage if base else storage_for(path, storage_options)
    snapshot = write_data(storage, data_obj, schema, mode, options, base=base)
    if opened is not None:
        return opened.at(snapshot)
    return LanceDataset(path, storage_options=storage_options, snapshot=snapshot)


def write_fragments(
    data: Any,
    dataset_uri: str | PathLike[str] | LanceDataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: Mode = "append",
    max_rows_per_file: int | None = 1024 * 1024,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int | None = 90 * 1024 * 1024 * 1024,
    max_page_bytes: int | None = None,
    progress: FragmentWriteProgress | None = None,
    data_storage_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    transaction_id: str | None = None,
    sync: bool = True,
) -> list[FragmentMetadata] | Transaction:
    """Write data files, and leave it to `LanceDataset.commit` to make a version of them.

    Args:
        data, dataset_uri, schema: see `write_dataset`.
        return_transaction: return what can be committed as it is, not the fragments.
        mode: what the fragments are for: with "append" they have the columns of the dataset, if there is one.
        transaction_id: of the transaction that is returned.
        max_rows_per_file, max_rows_per_group, max_bytes_per_file, max_page_bytes, progress: as there.
        data_storage_version, storage_options, enable_stable_row_ids, sync: as there.

    Raises:
        LanceError: as `write_dataset` does; nothing stays of what was written.
    """
    opened, path = (
        (dataset_uri, dataset_uri.uri)
        if isinstance(dataset_uri, LanceDataset)
        else (None, fspath(dataset_uri))
    )
    options = DatasetWriteOptions(
        file_version=file_version(data_storage_version),
        enable_stable_row_ids=enable_stable_row_ids,
        limits=_limits(max_rows_per_file, max_bytes_per_file),
        files=_file_options(max_page_bytes, max_rows_per_group),
        progress=progress,
        transaction_id=transaction_id,
        sync=sync,
    )
    base = opened.snapshot if opened is not None else None
    storage = base.storage if base else storage_for(path, storage_options)
    given, batches = batches_of(data, schema)
    writer = DatasetWriter(storage, given, mode, options, base=base)
    try:
        for batch in batches:
            writer.write(batch)
        message = writer.transaction()
    except BaseException:
        writer.abort()
        raise
    is_append = message.WhichOneof("operation") == "append"
    written = message.append.fragments if is_append else message.overwrite.fragments
    fragments = [FragmentMetadata.from_message(fragment) for fragment in written]
    if not return_transaction:
        return fragments
    operation: LanceOperation.BaseOperation = LanceOperation.Append(fragments)
    if not is_append:
        new_schema = Schema(message.overwrite.schema, message.overwrite.schema_metadata)
        operation = LanceOperation.Overwrite(new_schema, fragments)
    return Transaction(message.read_version, operation, message.uuid)


def _limits(max_rows: int | None, max_bytes: int | None) -> FileLimits:
    limits = FileLimits()
    return FileLimits(
        _integer("max_rows_per_file", max_rows, limits.max_rows),
        _integer("max_bytes_per_file", max_bytes, limits.max_bytes),
    )


def _file_options(max_page_bytes: int | None, max_rows_per_group: int | None) -> WriteOptions:
    options = WriteOptions()
    page_bytes = _integer("max_page_bytes", max_page_bytes, options.page_bytes)
    batch_rows = _integer("max_rows_per_group", max_rows_per_group, options.batch_rows)
    if page_bytes <= 0:
        raise InvalidInputError("max_page_bytes", expected="1 or more", found=page_bytes)
    if batch_rows <= 0:
        raise InvalidInputError("max_rows_per_group", expected="1 or more", found=batch_rows)
    return WriteOptions(page_bytes=page_bytes, batch_rows=batch_rows)


def _integer(name: str, value: int | None, default: int) -> int:
    """Return a limit that a caller gives; None means the default, as for the reference."""
    try:
        return default if value is None else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def _open_uri(
    mode: str, allow_outside: bool, storage_options: Mapping[str, str] | None
) -> Callable[[str], ReadableFile] | None:
    if mode not in ("reference", "ingest"):
        raise InvalidInputError("external_blob_mode", expected="reference or ingest", found=repr(mode))
    if mode == "reference":
        return None
    if allow_outside:
        raise InvalidInputError(
            "allow_external_blob_outside_bases", expected='False with external_blob_mode="ingest"'
        )

    def open_file(uri: str) -> ReadableFile:
        directory, _, name = uri.rpartition("/")
        return storage_for(directory or "/", storage_options).open_file(name)

    return open_file


def _pack_bytes(most: int | None) -> int | None:
    if most is not None and most < 0:
        raise InvalidInputError("blob_pack_file_size_threshold", expected="0 or more", found=most)
    return most


def _cleanup_settings(options: Mapping[str, int] | None) -> dict[str, str]:
    if options is None:
        return {}
    return {
        "lance.auto_cleanup.interval": str(options["interval"]),
        "lance.auto_cleanup.older_than": f"{options['older_than_seconds']}s",
    }
