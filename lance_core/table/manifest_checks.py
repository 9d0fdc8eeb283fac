"""Checks of one manifest against itself, beyond the checks that every open makes.

The checks read deletion files and no data files. `scan.validate` reads data files.

Source: docs/format.md, "Fragments".
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.table.deletions import Offsets
from lance_core.table.indices import IndexSegment
from lance_core.table.manifest import Manifest
from lance_core.table.row_ids import read_row_ids
from lance_core.table.snapshot import Snapshot


def check_manifest(snapshot: Snapshot) -> None:
    """Check fragments, row ids and indices of a version against each other.

    Raises:
        CorruptFileError: the manifest had to be repaired; fragments are not in the order of their ids, or an
            id is above the highest assigned one; two live rows have one row id, or a row id was never
            assigned; an index is listed twice, or two segments of one index cover the same fragment; or a
            deletion file is corrupt.
        StorageError: a deletion file cannot be read.
    """
    manifest = snapshot.manifest
    if manifest.repairs:
        raise CorruptFileError(
            "the manifest has known damage, which reading repairs; the next commit writes a correct manifest",
            file=manifest.name,
            found="; ".join(manifest.repairs),
        )
    _check_fragments(manifest)
    deleted = [snapshot.read_deletions(fragment) for fragment in manifest.fragments]
    if manifest.has_stable_row_ids:
        _check_row_ids(manifest, deleted)
    _check_indices(manifest.index_segments, manifest.name)


def _check_fragments(manifest: Manifest) -> None:
    ids = manifest.fragment_ids
    for before, after in pairwise(ids):
        if after < before:
            raise CorruptFileError(
                "fragments are not in the order of their ids",
                file=manifest.name,
                expected=f"more than {before}",
                found=after,
            )
    highest = manifest.max_fragment_id
    if ids and highest is not None and ids[-1] > highest:
        raise CorruptFileError(
            "fragment id is above the highest id that the table has assigned",
            file=manifest.name,
            expected=f"at most {highest}",
            found=ids[-1],
        )


def _check_row_ids(manifest: Manifest, deleted: Sequence[Offsets]) -> None:
    live = []
    for fragment, offsets in zip(manifest.fragments, deleted, strict=True):
        try:
            row_ids = read_row_ids(fragment)
        # The row ids are in a hidden column of a data file, which is not read here.
        except UnsupportedFeatureError:
            return
        live.append(np.delete(row_ids, offsets))
    every = np.sort(np.concatenate(live)) if live else np.empty(0, np.uint64)
    if not len(every):
        return
    twice = every[1:][every[1:] == every[:-1]]
    if len(twice):
        raise CorruptFileError("two live rows have the same row id", file=manifest.name, found=int(twice[0]))
    if int(every[-1]) >= manifest.next_row_id:
        raise CorruptFileError(
            "row id is above the highest id that the table has assigned",
            file=manifest.name,
            expected=f"below {manifest.next_row_id}",
            found=int(every[-1]),
        )


def _check_indices(segments: Sequence[IndexSegment], file: str) -> None:
    uuids = [segment.description.uuid for segment in segments]
    for uuid in uuids:
        if uuids.count(uuid) > 1:
            raise CorruptFileError("two index entries have the same uuid", file=file, found=uuid)
    covered: dict[str, set[int]] = {}
    for segment in segments:
        known = covered.setdefault(segment.name, set())
        fragments = set(segment.description.fragment_ids)
        if known & fragments:
            raise CorruptFileError(
                f"segments of index {segment.name!r} cover the same fragment",
                file=file,
                found=sorted(known & fragments)[:10],
            )
        known |= fragments
