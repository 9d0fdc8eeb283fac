"""Writing of data files that another call commits, and the checks that both ways of writing share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, NamedTuple

import pyarrow as pa

from lance_core.api.fragment_metadata import FragmentMetadata
from lance_core.api.opened import OpenedDataset
from lance_core.api.operations import LanceOperation, Transaction
from lance_core.api.progress import FragmentWriteProgress, observer_of
from lance_core.api.schema import LanceSchema
from lance_core.errors import InvalidInputError
from lance_core.file.external_blobs import ExternalBlobs
from lance_core.file.writer_options import WriteOptions
from lance_core.schema import Schema
from lance_core.storage import ReadableFile, Storage, storage_for
from lance_core.table.bases import BaseOpener, DatasetBasePath, base_opener
from lance_core.table.snapshot import Snapshot
from lance_core.write.batch_sources import batches_of
from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.dataset_options import DatasetWriteOptions, file_version
from lance_core.write.fragments import FileLimits
from lance_core.write.targets import TargetBases


def write_fragments(
    data: Any,
    dataset_uri: str | PathLike[str] | OpenedDataset,
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
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    target_bases: Sequence[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: Sequence[DatasetBasePath] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    sync: bool = True,
) -> list[FragmentMetadata] | Transaction:
    """Write data files without a commit. `LanceDataset.commit` makes a version of them.

    Args:
        data, dataset_uri, schema: As for `write_dataset`.
        return_transaction: Return a transaction that can be committed as it is, instead of the fragments.
        mode: The later commit. With "append" the fragments have the columns of the dataset, if there is one.
        transaction_id: UUID of the transaction that is returned.
        max_rows_per_file, max_rows_per_group, max_bytes_per_file, max_page_bytes, progress: As for
            `write_dataset`.
        data_storage_version, storage_options, enable_stable_row_ids, sync: As for `write_dataset`.
        external_blob_mode, allow_external_blob_outside_bases, blob_pack_file_size_threshold: As for
            `write_dataset`.
        target_bases, target_all_bases, base_store_params: As for `write_dataset`.
        initial_bases: As for `write_dataset`. Only the returned transaction has them with their ids.

    Raises:
        LanceError: The errors of `write_dataset`; no files are left.
    """
    destination = write_destination(dataset_uri, storage_options, base_store_params)
    options = DatasetWriteOptions(
        file_version=file_version(data_storage_version),
        enable_stable_row_ids=enable_stable_row_ids,
        limits=file_limits(max_rows_per_file, max_bytes_per_file),
        files=data_file_options(
            max_page_bytes,
            max_rows_per_group,
            external_blob_mode=external_blob_mode,
            allow_external_blob_outside_bases=allow_external_blob_outside_bases,
            blob_pack_file_size_threshold=blob_pack_file_size_threshold,
            storage_options=storage_options,
        ),
        progress=observer_of(progress),
        transaction_id=transaction_id,
        initial_bases=initial_bases or (),
        targets=TargetBases(tuple(target_bases or ()), target_all_bases, destination.uri),
        sync=sync,
    )
    given, batches = batches_of(data, schema)
    writer = DatasetWriter(
        destination.storage,
        given,
        mode,
        options,
        base=destination.base,
        open_base=destination.open_base,
    )
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
        new_schema = LanceSchema(Schema(message.overwrite.schema, message.overwrite.schema_metadata))
        new_bases = [DatasetBasePath.from_message(each) for each in message.overwrite.initial_bases]
        operation = LanceOperation.Overwrite(new_schema, fragments, new_bases or None)
    return Transaction(message.read_version, operation, message.uuid)


class Destination(NamedTuple):
    """Dataset that data files are written for, and how its storages are opened."""

    uri: str
    storage: Storage
    base: Snapshot | None
    """Version that the new version is made on; None: the latest, or a new dataset."""
    open_base: BaseOpener


def write_destination(
    dataset: str | PathLike[str] | OpenedDataset,
    storage_options: Mapping[str, str] | None,
    base_store_params: Mapping[str, Mapping[str, str]] | None,
) -> Destination:
    """Return the destination of a write; the arguments are those of `write_dataset`."""
    if not isinstance(dataset, OpenedDataset):
        path, opener = fspath(dataset), base_opener(storage_options, base_store_params)
        return Destination(path, storage_for(path, storage_options), None, opener)
    base = dataset.snapshot
    if base_store_params is not None:
        options = base.storage.options if storage_options is None else storage_options
        base = replace(base, open_base=base_opener(options, base_store_params))
    return Destination(dataset.uri, base.storage, base, base.open_base)


def file_limits(max_rows: int | None, max_bytes: int | None) -> FileLimits:
    """Return when a new file begins; None means the default.

    Raises:
        TypeError: A limit is no integer.
        InvalidInputError: A limit is out of range.
    """
    limits = FileLimits()
    return FileLimits(
        _integer("max_rows_per_file", max_rows, limits.max_rows),
        _integer("max_bytes_per_file", max_bytes, limits.max_bytes),
    )


def data_file_options(
    max_page_bytes: int | None,
    max_rows_per_group: int | None,
    *,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteOptions:
    """Return the arguments of `write_dataset` about data files, checked; None means the default.

    Raises:
        TypeError: A number is no integer.
        InvalidInputError: A number is out of range, or arguments contradict each other.
    """
    options = WriteOptions()
    page_bytes = _integer("max_page_bytes", max_page_bytes, options.page_bytes)
    batch_rows = _integer("max_rows_per_group", max_rows_per_group, options.batch_rows)
    for name, value, least in (
        ("max_page_bytes", page_bytes, 1),
        ("max_rows_per_group", batch_rows, 1),
        ("blob_pack_file_size_threshold", blob_pack_file_size_threshold, 0),
    ):
        if value is not None and value < least:
            raise InvalidInputError(name, expected=f"{least} or more", found=value)
    return WriteOptions(
        page_bytes=page_bytes,
        batch_rows=batch_rows,
        external_blobs=ExternalBlobs(anywhere=allow_external_blob_outside_bases, in_bases=True),
        open_uri=_open_uri(external_blob_mode, allow_external_blob_outside_bases, storage_options),
        blob_pack_bytes=blob_pack_file_size_threshold,
    )


def cleanup_settings(options: Mapping[str, int] | None) -> dict[str, str]:
    """Return the settings of a new table for `auto_cleanup_options` of `write_dataset`."""
    if options is None:
        return {}
    return {
        "lance.auto_cleanup.interval": str(options["interval"]),
        "lance.auto_cleanup.older_than": f"{options['older_than_seconds']}s",
    }


def _integer(name: str, value: int | None, default: int) -> int:
    try:
        return default if value is None else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def _open_uri(
    mode: str, allow_outside: bool, storage_options: Mapping[str, str] | None
) -> Callable[[str], ReadableFile] | None:
    """Return the function that opens blobs given by a URI, None if they stay where they are."""
    if mode not in ("reference", "ingest"):
        raise InvalidInputError("external_blob_mode", expected="reference or ingest", found=repr(mode))
    if mode == "reference":
        return None
    if allow_outside:
        raise InvalidInputError(
            'allow_external_blob_outside_bases only applies when external_blob_mode="reference"'
        )

    def open_file(uri: str) -> ReadableFile:
        directory, _, name = uri.rpartition("/")
        return storage_for(directory or "/", storage_options).open_file(name)

    return open_file
