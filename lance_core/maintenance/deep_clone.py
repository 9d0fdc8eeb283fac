"""Deep clones: tables that begin with a copy of a version of another table, and need none of its files.

The first manifest of the new table has the number of that version. Data files, side files of blobs, deletion
files and index files are copied byte by byte, those in base paths too. Blobs that are given by a URI, or lie
below a base path, stay where they are.

Source: docs/format.md, "Tags and branches".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lance_core.errors import CommitUnknownError, FileMissingError, StorageError
from lance_core.file.side_files import side_directory
from lance_core.maintenance.clone import check_clonable, copied_manifest, publish_clone
from lance_core.proto import table_pb2
from lance_core.schema import nodes
from lance_core.storage import Storage
from lance_core.table import feature_flags
from lance_core.table.bases import DatasetBasePath
from lance_core.table.deletions import DIRECTORY as DELETIONS
from lance_core.table.indices import DIRECTORY as INDICES
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import clone, new_transaction
from lance_core.table.writer_version import sign

_DATA = "data"
_COPIED_BYTES = 8 << 20


def copy_table(
    source: Snapshot, target: Storage, *, transaction_id: str | None = None, sync: bool = True
) -> Snapshot:
    """Create a table in `target` from a version of another table, and copy the files of this version.

    Memory is bounded whatever the size of the files. If the copy fails, the copied files are removed.

    Args:
        source: version to begin with.
        target: storage of the new table, which must be empty.
        transaction_id: id of the transaction; None means a new id.
        sync: make the table durable before returning.

    Raises:
        DatasetExistsError: the target has a table.
        UnsupportedFeatureError: the table has features that this package does not write.
        CommitUnknownError: the storage did not answer, so the table may or may not exist.
        StorageError: the table was not created; or a cleanup removed a file of the version meanwhile.
    """
    check_clonable(source, target)
    manifest = source.manifest
    transaction = clone(
        new_transaction(manifest.version, uuid=transaction_id),
        manifest.version,
        source.storage.uri,
        ref_name=manifest.branch,
        is_shallow=False,
    )
    copied: list[str] = []
    try:
        for storage, path, new_path in _files_of(source):
            copied.append(new_path)
            _copy(storage, path, target, new_path, sync=sync)
        if sync:
            for directory in sorted({path.rpartition("/")[0] for path in copied}):
                target.sync_directory(directory)
        message, index_section = _first_manifest(source)
        return publish_clone(source, target, message, index_section, transaction, sync=sync)
    except CommitUnknownError:
        raise
    except BaseException:
        for path in copied:
            with suppress(StorageError):
                target.delete_file(path)
        raise


def _files_of(source: Snapshot) -> Iterator[tuple[Storage, str, str]]:
    """Yield each file of a version: its storage, its path there, and its path in the new table."""
    for fragment in source.manifest.fragments:
        for file in fragment.files:
            storage = source.storage_of(file.base_id)
            root = _root_of(source, file.base_id, _DATA)
            yield storage, file.path, f"{_DATA}/{file.path.removeprefix(root)}"
            for side_file in _listed(storage, side_directory(file.path)):
                yield storage, side_file, f"{_DATA}/{side_file.removeprefix(root)}"
        deletions = fragment.deletion_file
        if deletions is not None:
            root = _root_of(source, deletions.base_id, DELETIONS)
            new_path = f"{DELETIONS}/{deletions.path.removeprefix(root)}"
            yield source.storage_of(deletions.base_id), deletions.path, new_path
    for segment in source.manifest.stored_index_segments:
        storage = source.storage_of(segment.description.base_id)
        for path in _listed(storage, f"{INDICES}/{segment.description.uuid}"):
            yield storage, path, path


def _root_of(source: Snapshot, base_id: int | None, directory: str) -> str:
    """Return the prefix of the paths of files that the table, or a base path, keeps in a directory."""
    own = DatasetBasePath("", is_dataset_root=True)
    base = own if base_id is None else source.manifest.base_paths[base_id]
    return base.directory(directory)


def _listed(storage: Storage, directory: str) -> list[str]:
    try:
        return [file.path for file in storage.list_files(directory)]
    except FileMissingError:
        return []


def _copy(source: Storage, path: str, target: Storage, new_path: str, *, sync: bool) -> None:
    with source.open_file(path) as file, target.create_file(new_path, sync=sync) as copy:
        for start in range(0, file.size, _COPIED_BYTES):
            copy.write(file.read(start, min(_COPIED_BYTES, file.size - start)))


def _first_manifest(source: Snapshot) -> tuple[table_pb2.Manifest, bytes | None]:
    message = copied_manifest(source)
    for fragment in message.fragments:
        for file in fragment.files:
            file.ClearField("base_id")
        if fragment.HasField("deletion_file"):
            fragment.deletion_file.ClearField("base_id")
    has_blobs = any(node.is_blob_v2 for top in source.manifest.schema.fields for node in nodes(top))
    if not has_blobs:  # a blob can name a base path, which then has to stay
        del message.base_paths[:]
        message.reader_feature_flags &= ~feature_flags.BASE_PATHS
        message.writer_feature_flags &= ~feature_flags.BASE_PATHS
    sign(message)
    section = source.manifest.index_section
    if section is None:
        return message, None
    indices = table_pb2.IndexSection.FromString(section)
    for index in indices.indices:
        index.ClearField("base_id")
    return message, indices.SerializeToString()
