"""Listings of a dataset's files: those that its versions name, and those that its directory holds.

The schemas are those of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.errors import VersionNotFoundError
from lance_core.storage import StoredFile
from lance_core.table.indices import DIRECTORY as INDICES
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot, read_manifest
from lance_core.table.transaction import DIRECTORY as TRANSACTIONS
from lance_core.table.versions import list_versions

_URI = pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False)
_PATH = pa.field("path", pa.string(), nullable=False)
_TRACKED = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        _URI,
        _PATH,
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
_PRESENT = pa.schema(
    [
        _URI,
        _PATH,
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
_FILES_PER_BATCH = 4096
_KINDS = ("manifest", "transaction file", "data file", "deletion file", "index file")
_MICROSECONDS = 1_000_000

Progress = Callable[[int, int | None], object]


def tracked_files(
    snapshot: Snapshot, min_version: int | None = None, progress: Progress | None = None
) -> pa.RecordBatchReader:
    """Return the files that the versions of the opened branch refer to, one row per version and file.

    The manifests are read one after the other, while the caller reads the batches.

    Args:
        snapshot: any version of the branch.
        min_version: the first version to list; None for all.
        progress: called after each manifest with the number of manifests read, and of all.

    Returns:
        Batches with `version`, `base_uri`, `path` relative to it, and `type`.

    Raises:
        LanceError: while the batches are read: a manifest cannot be read, or the storage failed.
    """
    return pa.RecordBatchReader.from_batches(
        _TRACKED, _tracked(snapshot, min_version or 0, progress or (lambda done, total: None))
    )


def present_files(snapshot: Snapshot) -> pa.RecordBatchReader:
    """Return the files that exist in the directory of the opened branch, whether or not a version needs them.

    Returns:
        Batches with `base_uri`, `path` relative to it, `size_bytes` and `last_modified`, which is 1970 if the
        storage does not tell.

    Raises:
        StorageError: while the batches are read: the storage failed.
    """
    return pa.RecordBatchReader.from_batches(_PRESENT, _present(snapshot))


def _tracked(snapshot: Snapshot, min_version: int, progress: Progress) -> Iterator[pa.RecordBatch]:
    versions = [version for version in list_versions(snapshot.storage) if version >= min_version]
    known: dict[tuple[int | None, str], list[str]] = {}
    for done, version in enumerate(versions, 1):
        try:
            manifest = read_manifest(snapshot.storage, version)
        except VersionNotFoundError:  # a cleanup removed it
            continue
        rows = list(_files_of(snapshot, manifest, known))
        uris, paths, kinds = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(len(rows), version)),
                pa.array(uris).dictionary_encode(),
                pa.array(paths),
                pa.DictionaryArray.from_arrays(
                    pa.array(map(_KINDS.index, kinds), pa.int8()), pa.array(_KINDS)
                ),
            ],
            schema=_TRACKED,
        )
        progress(done, len(versions))


def _files_of(
    snapshot: Snapshot, manifest: Manifest, known: dict[tuple[int | None, str], list[str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the URI of the base, the path and the type of each file of a version.

    `known` has the files of the indices that were listed already.
    """
    uri = snapshot.storage.uri
    bases = {number: base.path for number, base in manifest.base_paths.items()}

    def base_uri(base_id: int | None) -> str:
        return uri if base_id is None else bases[base_id]

    yield uri, manifest.name, "manifest"
    if manifest.message.transaction_file:
        yield uri, f"{TRANSACTIONS}/{manifest.message.transaction_file}", "transaction file"
    for fragment in manifest.fragments:
        for file in fragment.files:
            yield base_uri(file.base_id), file.path, "data file"
        deletions = fragment.deletion_file
        if deletions is not None:
            yield base_uri(deletions.base_id), deletions.path, "deletion file"
    owner = Snapshot(snapshot.storage, manifest, snapshot.open_base)
    for segment in manifest.stored_index_segments:
        base_id, uuid = segment.description.base_id, segment.description.uuid
        if (base_id, uuid) not in known:
            listed = owner.storage_of(base_id).list_files(f"{INDICES}/{uuid}")
            known[base_id, uuid] = [file.path for file in listed]
        for path in known[base_id, uuid]:
            yield base_uri(base_id), path, "index file"


def _present(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    listed = iter(snapshot.storage.list_files(""))
    while files := list(islice(listed, _FILES_PER_BATCH)):
        uris = pa.DictionaryArray.from_arrays(
            np.zeros(len(files), np.int32), pa.array([snapshot.storage.uri])
        )
        columns: list[Any] = [
            pa.array([file.path for file in files]),
            pa.array([file.size for file in files], pa.int64()),
            pa.array(map(_modified, files), pa.timestamp("us", "UTC")),
        ]
        yield pa.RecordBatch.from_arrays([uris, *columns], schema=_PRESENT)


def _modified(file: StoredFile) -> int:
    """Return the time of the last change in microseconds."""
    return round((file.modified or 0) * _MICROSECONDS)
