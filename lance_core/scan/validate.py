"""Check of a version and its files: all bytes of files with checksums, and whether the other files decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from lance_core.errors import CorruptFileError, FileMissingError, LanceError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.side_files import side_directory, side_file_name
from lance_core.scan.arguments import scan_options
from lance_core.scan.files.cache import FileCache
from lance_core.scan.scanner import LanceScanner
from lance_core.statistics.file_checksums import verify_file
from lance_core.storage import ReadableFile
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.manifest_checks import check_manifest
from lance_core.table.snapshot import Snapshot

DAMAGE = (CorruptFileError, UnsupportedFeatureError, FileMissingError)
"""Errors about the files of a table; other errors end a check."""


def validate_snapshot(snapshot: Snapshot, fragments: Sequence[Fragment] | None = None) -> None:
    """Check the manifest, the data and the deletion files of a version, or of some of its fragments.

    Data files of 2.x that this package wrote have checksums of all bytes. Columns of other files are decoded.

    Raises:
        CorruptFileError: the first damage; the message names file, column and page.
        UnsupportedFeatureError: a file has a feature that this release does not know.
        StorageError: the storage failed, or a file is missing.
    """
    for error in find_damage(snapshot, fragments):
        raise error


def find_damage(snapshot: Snapshot, fragments: Sequence[Fragment] | None = None) -> Iterator[LanceError]:
    """Check what `validate_snapshot` checks. Yield the first error of the manifest and of each data file.

    Files without checksums are decoded together: of these, yield the first error of each fragment.

    Raises:
        StorageError: the storage failed; a file that is missing is damage.
    """
    try:
        check_manifest(snapshot)
    except DAMAGE as error:
        yield error
    cache = FileCache(max_bytes=1)  # the files of one fragment after the other
    unchecked: list[int] = []
    for fragment in snapshot.manifest.fragments if fragments is None else fragments:
        for data_file in fragment.files:
            try:
                opened = cache.open(snapshot, fragment, data_file)
                if data_file.version == FileVersion.V0_1 or not verify_file(
                    opened.file, partial(_side_file, snapshot, data_file)
                ):
                    unchecked.append(fragment.id)
            except DAMAGE as error:
                yield error
    unchecked = list(dict.fromkeys(unchecked))
    if unchecked and _error_of_decoding(snapshot, unchecked):
        found = (_error_of_decoding(snapshot, [number]) for number in unchecked)
        yield from filter(None, found)


def _error_of_decoding(snapshot: Snapshot, fragment_ids: Sequence[int]) -> LanceError | None:
    """Decode all data of fragments. Return the first error; None if there is none."""
    options = scan_options(snapshot.manifest.schema, None, None, None, None, fragments=tuple(fragment_ids))
    try:
        for _ in LanceScanner(snapshot, options).to_batches():
            pass
    except DAMAGE as error:
        return error
    return None


def _side_file(snapshot: Snapshot, data_file: DataFile, blob_id: int) -> ReadableFile:
    path = f"{side_directory(data_file.path)}/{side_file_name(blob_id)}"
    return snapshot.storage_of(data_file.base_id).open_file(path)
