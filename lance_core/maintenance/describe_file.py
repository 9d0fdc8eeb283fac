"""Description of a data file: its columns and pages, with their layouts, encodings and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa

from lance_core.encodings.description import LayoutDescription
from lance_core.encodings.v2_0.describe import describe_page
from lance_core.encodings.v2_1.describe import describe_page_layout
from lance_core.file.footer import FileVersion, read_version
from lance_core.file.metadata import FileMetadata, PageMetadata, read_file_metadata
from lance_core.file.v0_1.reader import LegacyFile
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import leaves, nodes
from lance_core.statistics.v0_1 import page_statistics
from lance_core.storage import ReadableFile, Storage

_TEXTS = ("string", "large_string", "binary", "large_binary")


@dataclass(frozen=True)
class PageDescription:
    """Page of a column: its rows, its bytes in the file and its layout."""

    num_rows: int
    num_bytes: int
    layout: LayoutDescription
    statistics: dict[str, Any] | None = None
    """Statistics of the values, if the file contains any."""


@dataclass(frozen=True)
class ColumnDescription:
    """Column of a data file. A 0.1 file numbers its columns by field ids."""

    index: int
    name: str
    type: str
    pages: tuple[PageDescription, ...]


@dataclass(frozen=True)
class DataFileDescription:
    """Data file with its columns, and the sizes of its global buffers in bytes."""

    name: str
    version: FileVersion
    num_bytes: int
    num_rows: int
    global_buffers: tuple[int, ...]
    columns: tuple[ColumnDescription, ...]


def describe_data_file(storage: Storage, path: str) -> DataFileDescription:
    """Return the columns and pages of a data file, from its metadata.

    Raises:
        CorruptFileError: the metadata contradicts the format.
        UnsupportedFeatureError: a file version or an encoding that this package does not implement.
        StorageError: the file is missing, or the storage failed.
    """
    with storage.open_file(path) as opened:
        return _describe_legacy(opened) if read_version(opened) == FileVersion.V0_1 else _describe(opened)


def _describe_legacy(opened: ReadableFile) -> DataFileDescription:
    """Return a 0.1 file, whose columns are all its fields but structs; their numbers are the field ids."""
    file = LegacyFile(opened)
    known = page_statistics(file)
    columns = []
    for top in file.schema.fields:
        for field in top.walk():
            described = file.page_descriptions(field)
            pages = tuple(
                PageDescription(page.num_items, page.num_bytes, page.layout, row)
                for page, row in zip(described, _statistics(known.get(field.id)), strict=False)
            )
            columns.append(
                ColumnDescription(field.id, ".".join(_path_to(top, field)), field.logical_type, pages)
            )
    return DataFileDescription(opened.name, file.version, opened.size, file.num_rows, (), tuple(columns))


def _statistics(table: pa.Table | None) -> Iterator[dict[str, Any] | None]:
    """Yield the statistics of each page of a column, as JSON: counts, and bounds as text."""
    if table is None:
        return repeat(None)
    counts = table.select(["null_count", "nan_count"]).to_pylist()
    bounds = ({name: _text(table[name][page]) for name in ("min", "max")} for page in range(len(table)))
    return (count | bound for count, bound in zip(counts, bounds, strict=True))


def _text(bound: pa.Scalar) -> str | None:
    try:
        return None if bound.as_py() is None else str(bound.as_py())
    except (OverflowError, ValueError):  # Python's dates end long before Arrow's
        return f"{bound.value} since 1970"


def _describe(opened: ReadableFile) -> DataFileDescription:
    metadata = read_file_metadata(opened)
    sizes = tuple(size for _, size in metadata.global_buffers)
    columns = tuple(_columns(metadata))
    return DataFileDescription(opened.name, metadata.version, opened.size, metadata.num_rows, sizes, columns)


def _columns(metadata: FileMetadata) -> Iterator[ColumnDescription]:
    describe = describe_page if metadata.version == FileVersion.V2_0 else describe_page_layout
    stored = iter([named for field in metadata.schema.fields for named in _named_columns(field, metadata)])
    # A string of early 2.0 files has a second column for its bytes, which belongs to no field.
    bytes_of = ""
    for index in range(metadata.num_columns):
        pages = tuple(_page(page, describe) for page in metadata.column(index).pages)
        if bytes_of:
            yield ColumnDescription(index, f"{bytes_of} (bytes)", "uint8", pages)
            bytes_of = ""
            continue
        # A file without a field for a column is odd but readable: fields are matched by the manifest, not
        # by this.
        name, field_type = next(stored, ("?", "?"))
        yield ColumnDescription(index, name, field_type, pages)
        if field_type in _TEXTS and pages and pages[0].layout.streams.get("values", "").startswith("lists("):
            bytes_of = name


def _named_columns(field: Field, metadata: FileMetadata) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and type of each field at or below `field` that owns a column."""
    for owner in nodes(field) if metadata.version == FileVersion.V2_0 else leaves(field):
        yield ".".join(_path_to(field, owner)), owner.logical_type


def _path_to(field: Field, owner: Field) -> list[str]:
    if field is owner:
        return [field.name]
    child = next(child for child in field.children if owner in nodes(child))
    return [field.name, *_path_to(child, owner)]


def _page(page: PageMetadata, describe: Callable[[bytes], LayoutDescription]) -> PageDescription:
    return PageDescription(page.num_rows, sum(size for _, size in page.buffers), describe(page.encoding))
