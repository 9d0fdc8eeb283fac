"""One version of a table together with the storage it is in."""

from dataclasses import dataclass, replace

from lance_core.errors import CorruptFileError, FileMissingError, VersionNotFoundError
from lance_core.file.data_file import open_data_file
from lance_core.proto import table_pb2
from lance_core.storage import Storage
from lance_core.table.deletions import read_deletions
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest, parse_manifest
from lance_core.table.versions import latest_version, manifest_path


@dataclass(frozen=True)
class Snapshot:
    """An immutable view of a table."""

    storage: Storage
    manifest: Manifest


def open_snapshot(storage: Storage, version: int | None = None) -> Snapshot:
    """Open one version of the table in `storage`, the latest without a number.

    Raises:
        DatasetNotFoundError: there is no table.
        VersionNotFoundError: the table has no such version.
        CorruptFileError: the manifest contradicts the format or its own name.
        UnsupportedFeatureError: the table uses something this package does not implement.
    """
    number = latest_version(storage) if version is None else version
    path = manifest_path(storage, number)
    try:
        manifest = parse_manifest(storage.read_file(path), path)
    except FileMissingError:  # cleaned up since it was found
        raise VersionNotFoundError(f"no version {number}") from None
    if manifest.version != number:
        raise CorruptFileError(
            "manifest is of another version than its name", file=path, expected=number, found=manifest.version
        )
    return Snapshot(storage, _with_row_counts(storage, manifest))


def _with_row_counts(storage: Storage, manifest: Manifest) -> Manifest:
    """Count the rows of fragments whose manifest does not say, as libraries before 0.8 left them."""
    if manifest.has_row_counts:
        return manifest
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    for fragment, counted in zip(manifest.fragments, message.fragments, strict=True):
        if not fragment.has_row_counts:
            counted.physical_rows = fragment.physical_rows or _count_rows(storage, fragment)
            if counted.HasField("deletion_file"):
                counted.deletion_file.num_deleted_rows = len(read_deletions(storage, fragment))
    return replace(manifest, message=message)


def _count_rows(storage: Storage, fragment: Fragment) -> int:
    for data_file in fragment.files:
        with storage.open_file(data_file.path, data_file.size) as file:
            return open_data_file(file, data_file.version).num_rows
    return 0
