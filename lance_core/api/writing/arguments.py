"""Arguments that `write_dataset` and `write_fragments` share, checked and made into options of a writer."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, NamedTuple, TypedDict, Unpack

import pyarrow as pa

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.api.progress import FragmentWriteProgress, observer_of
from lance_core.errors import ArgumentTypeError, InvalidInputError, TooLargeError
from lance_core.file.external_blobs import ExternalBlobs
from lance_core.file.writer_options import WriteOptions
from lance_core.maintenance.auto_cleanup import AutoCleanupConfig, cleanup_settings
from lance_core.storage import CommitLock, ReadableFile, Storage, check_lock, storage_for
from lance_core.table.bases import BaseOpener, DatasetBasePath, base_opener
from lance_core.table.snapshot import Snapshot
from lance_core.write.dataset import Mode, write_data
from lance_core.write.dataset_options import DatasetWriteOptions, file_version
from lance_core.write.fragments import FileLimits
from lance_core.write.targets import TargetBases


class WriteArguments(TypedDict, total=False):
    """Arguments of `write_dataset` that say how data is written. What is left out has the default."""

    max_rows_per_file: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    max_page_bytes: int | None
    commit_lock: CommitLock | None
    progress: FragmentWriteProgress | None
    storage_options: Mapping[str, str] | None
    data_storage_version: str | None
    enable_v2_manifest_paths: bool
    enable_stable_row_ids: bool
    auto_cleanup_options: AutoCleanupConfig | None
    commit_message: str | None
    transaction_properties: Mapping[str, str] | None
    transaction_id: str | None
    initial_bases: Sequence[DatasetBasePath] | None
    target_bases: Sequence[str] | None
    target_all_bases: bool | None
    base_store_params: Mapping[str, Mapping[str, str]] | None
    external_blob_mode: str
    allow_external_blob_outside_bases: bool
    blob_pack_file_size_threshold: int | None
    sync: bool


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
    commit_lock: CommitLock | None = None,
) -> Destination:
    """Return the destination of a write; the arguments are those of `write_dataset`."""
    check_lock(commit_lock)
    if not isinstance(dataset, OpenedDataset):
        path, opener = fspath(dataset), base_opener(storage_options, base_store_params)
        storage = storage_for(path, storage_options).locked_by(commit_lock)
        return Destination(path, storage, None, opener)
    base = replace(dataset.snapshot, storage=dataset.snapshot.storage.locked_by(commit_lock))
    if base_store_params is not None:
        options = base.storage.options if storage_options is None else storage_options
        base = replace(base, open_base=base_opener(options, base_store_params))
    return Destination(dataset.uri, base.storage, base, base.open_base)


def write_options(destination: Destination, **arguments: Unpack[WriteArguments]) -> DatasetWriteOptions:
    """Return the arguments of a write, checked, as the options of a writer.

    Raises:
        ArgumentTypeError: A number is no integer.
        InvalidInputError: An argument is out of range, or arguments contradict each other.
        UnsupportedFeatureError: The file version is not supported.
    """
    targets = TargetBases(
        tuple(arguments.get("target_bases") or ()), arguments.get("target_all_bases"), destination.uri
    )
    cleanup = arguments.get("auto_cleanup_options")
    return DatasetWriteOptions(
        file_version=file_version(arguments.get("data_storage_version")),
        enable_stable_row_ids=arguments.get("enable_stable_row_ids", False),
        limits=_file_limits(arguments),
        files=_data_file_options(arguments),
        progress=observer_of(arguments.get("progress")),
        commit_message=arguments.get("commit_message"),
        transaction_properties=arguments.get("transaction_properties") or {},
        transaction_id=arguments.get("transaction_id"),
        config={} if cleanup is None else cleanup_settings(cleanup),
        initial_bases=arguments.get("initial_bases") or (),
        targets=targets,
        enable_v2_manifest_paths=arguments.get("enable_v2_manifest_paths", True),
        sync=arguments.get("sync", True),
    )


def storage_version(name: str | None, use_legacy_format: bool | None) -> str | None:
    """Return the argument `data_storage_version` of a write; the older `use_legacy_format` overrides it."""
    if use_legacy_format is None:
        return name
    warnings.warn(
        "use_legacy_format is deprecated: use data_storage_version", DeprecationWarning, stacklevel=4
    )
    return "legacy" if use_legacy_format else "stable"


def write_version(
    data: Any,
    uri: str | PathLike[str] | OpenedDataset,
    schema: pa.Schema | None,
    mode: Mode,
    **arguments: Unpack[WriteArguments],
) -> Snapshot:
    """Write data as a new version, and return it; see `write_dataset`."""
    destination = write_destination(
        uri,
        arguments.get("storage_options"),
        arguments.get("base_store_params"),
        arguments.get("commit_lock"),
    )
    options = write_options(destination, **arguments)
    return write_data(
        destination.storage,
        data,
        schema,
        mode,
        options,
        base=destination.base,
        open_base=destination.open_base,
    )


def _file_limits(arguments: WriteArguments) -> FileLimits:
    limits = FileLimits()
    return FileLimits(
        _integer("max_rows_per_file", arguments.get("max_rows_per_file"), limits.max_rows),
        _integer("max_bytes_per_file", arguments.get("max_bytes_per_file"), limits.max_bytes),
    )


def _data_file_options(arguments: WriteArguments) -> WriteOptions:
    options = WriteOptions()
    page_bytes = _integer("max_page_bytes", arguments.get("max_page_bytes"), options.page_bytes)
    batch_rows = _integer("max_rows_per_group", arguments.get("max_rows_per_group"), options.batch_rows)
    pack_bytes = arguments.get("blob_pack_file_size_threshold")
    for name, value, least in (
        ("max_page_bytes", page_bytes, 1),
        ("max_rows_per_group", batch_rows, 1),
        ("blob_pack_file_size_threshold", pack_bytes, 0),
    ):
        if value is not None and value < least:
            raise InvalidInputError(name, expected=f"{least} or more", found=value)
    outside = arguments.get("allow_external_blob_outside_bases", False)
    mode = arguments.get("external_blob_mode", "reference")
    return WriteOptions(
        page_bytes=page_bytes,
        batch_rows=batch_rows,
        external_blobs=ExternalBlobs(anywhere=outside, in_bases=True),
        open_uri=_open_uri(mode, outside, arguments.get("storage_options")),
        blob_pack_bytes=pack_bytes,
    )


def _integer(name: str, value: int | None, default: int) -> int:
    try:
        number = default if value is None else operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if number >= 1 << 63:
        raise TooLargeError(f"{name} must have at most 63 bits, got {number}")
    return number


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
