"""The writing of data files that another call commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.api.dataset.operations import LanceOperation, Transaction
from lance_core.api.fragment.metadata import FragmentMetadata
from lance_core.api.names.namespaces import refuse_namespaces
from lance_core.api.progress import FragmentWriteProgress
from lance_core.api.schema import LanceSchema
from lance_core.api.writing.arguments import storage_version, write_destination, write_options
from lance_core.arguments import named
from lance_core.schema import Schema
from lance_core.table.bases import DatasetBasePath
from lance_core.write.batch_sources import batches_of
from lance_core.write.dataset import DatasetWriter, Mode


@named
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
    use_legacy_format: bool | None = None,
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
    namespace_client: object = None,
    table_id: object = None,
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
        data_storage_version, use_legacy_format, storage_options, enable_stable_row_ids, sync: As for
            `write_dataset`.
        namespace_client, table_id: Not supported.
        external_blob_mode, allow_external_blob_outside_bases, blob_pack_file_size_threshold: As for
            `write_dataset`.
        target_bases, target_all_bases, base_store_params: As for `write_dataset`.
        initial_bases: As for `write_dataset`. Only the returned transaction has them with their ids.

    Raises:
        LanceError: The errors of `write_dataset`; no files are left.
    """
    refuse_namespaces(namespace_client, table_id)
    destination = write_destination(dataset_uri, storage_options, base_store_params)
    options = write_options(
        destination,
        max_rows_per_file=max_rows_per_file,
        max_rows_per_group=max_rows_per_group,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        progress=progress,
        storage_options=storage_options,
        data_storage_version=storage_version(data_storage_version, use_legacy_format),
        enable_stable_row_ids=enable_stable_row_ids,
        transaction_id=transaction_id,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
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
