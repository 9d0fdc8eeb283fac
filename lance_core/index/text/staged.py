"""Full text indices whose partitions several machines build in one directory.

Each machine writes its partitions below `staging` (`lance_core.index.text.build.stage_text`), with a metadata
file for each partition. `merge_staged_text` moves them to the places where an index has its partitions.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pyroaring

from lance_core.errors import InvalidInputError
from lance_core.index.progress import Observer, stage
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.text.build import write_metadata
from lance_core.index.text.partition import reading
from lance_core.index.text.segment import METADATA_FILE

STAGING = "staging"
"""Directory of the partitions, below the directory of the segment."""
_PARTITIONS = "partitions"
_FILES = ("tokens.lance", "invert.lance", "docs.lance")


def staged_metadata_files(names: Iterable[str]) -> list[str]:
    """Return the names of metadata files of partitions among the names of files below `STAGING`."""
    return sorted(name for name in names if name.startswith("part_") and name.endswith(f"_{METADATA_FILE}"))


def merge_staged_text(files: SegmentFiles, writer: SegmentWriter, observer: Observer) -> None:
    """Copy the partitions of an index from `STAGING`, with numbers from 0 on, and write its metadata.

    Args:
        files: The files of the segment.
        writer: Writer of the same segment.
        observer: Is told the progress.

    Raises:
        InvalidInputError: There are no partitions, or they were built with different options.
        LanceError: Files cannot be read or written.
    """
    found = staged_metadata_files(files.names(STAGING))
    if not found:
        raise InvalidInputError("no partitions of a full text index", found=files.directory)
    common: Mapping[str, str] | None = None
    numbers: set[int] = set()
    deleted_fragments = pyroaring.BitMap()
    with stage(observer, "read_partition_metadata", len(found), "files") as advance:
        for name in found:
            with files.source(f"{STAGING}/{name}") as source, reading(source.name):
                metadata = {key: value.decode() for key, value in source.metadata.items()}
                numbers.update(int(number) for number in json.loads(metadata.pop(_PARTITIONS, "null")))
                if source.num_rows:
                    for data in source.read(0, source.num_rows).column(0).to_pylist():
                        deleted_fragments |= pyroaring.BitMap.deserialize(data)
            if common is not None and metadata != common:
                raise InvalidInputError("partitions of one index were built with different options")
            common = metadata
            advance(1)
    places = list(enumerate(sorted(numbers)))
    with stage(observer, "remap_partition_files", len(places) * len(_FILES), "files") as advance:
        for new, old in places:
            for name in _FILES:
                with files.open(f"{STAGING}/part_{old}_{name}") as staged:
                    writer.copy_bytes(f"part_{new}_{name}", staged)
                advance(1)
    with stage(observer, "write_merged_metadata", 1, "files") as advance:
        partitions = {_PARTITIONS: json.dumps([new for new, _ in places])}
        write_metadata(writer, {**(common or {}), **partitions}, deleted_fragments)
        advance(1)
