"""Description of a data file that exists already, for the manifest of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion, read_version
from lance_core.file.metadata import FileMetadata, read_file_metadata
from lance_core.proto import table_pb2
from lance_core.schema import Field
from lance_core.storage.paths import contained_path
from lance_core.table.snapshot import Snapshot


def describe_stored_file(snapshot: Snapshot, path: str, base_id: int | None = None) -> table_pb2.DataFile:
    """Return the manifest entry of a data file with columns of a table. Columns are matched by name.

    Args:
        snapshot: The version of the table.
        path: Path of the file relative to `data/` of the table, or to the base path.
        base_id: Id of the base path of the file; None for the table itself.

    Raises:
        InvalidInputError: The table lacks a column of the file or the base path, or a column has another type
            in the table.
        UnsupportedFeatureError: The file has version 0.1, or an unknown version.
        CorruptFileError: The bytes contradict the format.
        StorageError: The file is missing, or the storage failed.
    """
    return _described(snapshot, path, base_id, _read_metadata(snapshot, path, base_id))


def describe_stored_fragment(snapshot: Snapshot, path: str, fragment_id: int) -> table_pb2.DataFragment:
    """Return the manifest entry of a fragment whose only data file is at `path` in `data/` of a table.

    Raises:
        InvalidInputError: The version of the file is not that of the table, the file has no rows, or lacks a
            column that allows no null.
        LanceError: The errors of `describe_stored_file`.
    """
    metadata = _read_metadata(snapshot, path, None)
    expected = snapshot.manifest.data_storage_version
    if metadata.version.name != expected:
        raise InvalidInputError(
            "the file has another version than the table",
            file=path,
            expected=expected,
            found=metadata.version.name,
        )
    if not metadata.num_rows:
        raise InvalidInputError("a fragment needs rows", file=path, found="none")
    stored = {field.name for field in metadata.schema.fields}
    for field in snapshot.manifest.schema.fields:
        if not field.nullable and field.name not in stored:
            raise InvalidInputError(
                "the file lacks a column that allows no null", file=path, column=field.name
            )
    return table_pb2.DataFragment(
        id=fragment_id,
        files=[_described(snapshot, path, None, metadata)],
        physical_rows=metadata.num_rows,
    )


def _read_metadata(snapshot: Snapshot, path: str, base_id: int | None) -> FileMetadata:
    directory = "data/"
    if base_id is not None:
        base = snapshot.manifest.base_paths.get(base_id)
        if base is None:
            known = sorted(snapshot.manifest.base_paths)
            raise InvalidInputError("base_id", expected=f"one of {known}", found=base_id)
        directory = base.directory("data")
    with snapshot.storage_of(base_id).open_file(directory + contained_path(path)) as file:
        if read_version(file) == FileVersion.V0_1:
            raise UnsupportedFeatureError("a file of version 0.1 that no version of the table has", file=path)
        return read_file_metadata(file)


def _described(
    snapshot: Snapshot, path: str, base_id: int | None, metadata: FileMetadata
) -> table_pb2.DataFile:
    ids = dict(_matched(snapshot.manifest.schema.fields, metadata.schema.fields, path, ""))
    owners = metadata.column_fields()
    major, minor = metadata.version.in_manifest
    return table_pb2.DataFile(
        path=path,
        fields=[ids[owner.id] for owner in owners],
        column_indices=range(len(owners)),
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=metadata.size,
        base_id=base_id,
    )


def _matched(
    table: Sequence[Field], stored: Sequence[Field], file: str, parent: str
) -> Iterator[tuple[int, int]]:
    """Yield the id in the file and in the table of each field of a file."""
    by_name = {field.name: field for field in table}
    for field in stored:
        name = parent + field.name
        known = by_name.get(field.name)
        if known is None:
            raise InvalidInputError("the table lacks a column of the file", file=file, column=name)
        if (known.logical_type, known.extension_name) != (field.logical_type, field.extension_name):
            raise InvalidInputError(
                "column has another type than in the table",
                file=file,
                column=name,
                expected=known.logical_type,
                found=field.logical_type,
            )
        if known.is_blob_v2:  # its members are those of descriptors in the file
            yield field.id, known.id
            continue
        missing = {child.name for child in known.children} - {child.name for child in field.children}
        if missing:
            raise InvalidInputError(
                "the file lacks fields of a column", file=file, column=name, expected=sorted(missing)
            )
        yield field.id, known.id
        yield from _matched(known.children, field.children, file, f"{name}.")
