"""`lance-flight inspect`: what a data file holds, page by page."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from flight_server.cli.rendering import count, print_line
from flight_server.cli.values import readable_bytes
from lance_core.encodings.description import LayoutDescription
from lance_core.encodings.v2_0.describe import describe_page
from lance_core.encodings.v2_1.describe import describe_page_layout
from lance_core.file.footer import FileVersion, read_version
from lance_core.file.metadata import FileMetadata, PageMetadata, read_file_metadata
from lance_core.file.v0_1.reader import LegacyFile
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import leaves, nodes
from lance_core.statistics.v0_1 import page_statistics
from lance_core.storage import ReadableFile, storage_for

_TEXTS = ("string", "large_string", "binary", "large_binary")


@dataclass(frozen=True)
class _Page:
    num_rows: int
    num_bytes: int
    layout: LayoutDescription
    statistics: dict[str, Any] | None = None
    """Statistics of the values, if the file contains any."""


@dataclass(frozen=True)
class _Column:
    index: int
    name: str
    type: str
    pages: tuple[_Page, ...]


@dataclass(frozen=True)
class _File:
    name: str
    version: FileVersion
    num_bytes: int
    num_rows: int
    global_buffers: tuple[int, ...]
    columns: tuple[_Column, ...]


def inspect(
    file: Annotated[Path, typer.Argument(help="A data file (.lance).")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the columns and pages of a data file: sizes, layouts, encodings."""
    with storage_for(str(file.parent)).open_file(file.name) as opened:
        described = (
            _describe_legacy(opened) if read_version(opened) == FileVersion.V0_1 else _describe(opened)
        )
    if as_json:
        print(json.dumps(_as_json(described)))
    else:
        _print(described)


def _describe_legacy(opened: ReadableFile) -> _File:
    """Return a 0.1 file, whose columns are all its fields but structs; their numbers are the field ids."""
    file = LegacyFile(opened)
    known = page_statistics(file)
    columns = []
    for top in file.schema.fields:
        for field in top.walk():
            described = file.page_descriptions(field)
            pages = tuple(
                _Page(page.num_items, page.num_bytes, page.layout, row)
                for page, row in zip(described, _statistics(known.get(field.id)), strict=False)
            )
            columns.append(_Column(field.id, ".".join(_path_to(top, field)), field.logical_type, pages))
    return _File(opened.name, file.version, opened.size, file.num_rows, (), tuple(columns))


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


def _describe(opened: ReadableFile) -> _File:
    metadata = read_file_metadata(opened)
    sizes = tuple(size for _, size in metadata.global_buffers)
    columns = tuple(_columns(metadata))
    return _File(opened.name, metadata.version, opened.size, metadata.num_rows, sizes, columns)


def _columns(metadata: FileMetadata) -> Iterator[_Column]:
    describe = describe_page if metadata.version == FileVersion.V2_0 else describe_page_layout
    stored = iter([named for field in metadata.schema.fields for named in _named_columns(field, metadata)])
    # A string of early 2.0 files has a second column for its bytes, which belongs to no field.
    bytes_of = ""
    for index in range(metadata.num_columns):
        pages = tuple(_page(page, describe) for page in metadata.column(index).pages)
        if bytes_of:
            yield _Column(index, f"{bytes_of} (bytes)", "uint8", pages)
            bytes_of = ""
            continue
        # A file without a field for a column is odd but readable: fields are matched by the manifest, not
        # by this.
        name, field_type = next(stored, ("?", "?"))
        yield _Column(index, name, field_type, pages)
        if field_type in _TEXTS and pages and pages[0].layout.streams.get("values", "").startswith("lists("):
            bytes_of = name


def _named_columns(field: Field, metadata: FileMetadata) -> Iterator[tuple[str, str]]:
    """Dotted name and type of each field at or below `field` that owns a column."""
    for owner in nodes(field) if metadata.version == FileVersion.V2_0 else leaves(field):
        yield ".".join(_path_to(field, owner)), owner.logical_type


def _path_to(field: Field, owner: Field) -> list[str]:
    if field is owner:
        return [field.name]
    child = next(child for child in field.children if owner in nodes(child))
    return [field.name, *_path_to(child, owner)]


def _page(page: PageMetadata, describe: Callable[[bytes], LayoutDescription]) -> _Page:
    return _Page(page.num_rows, sum(size for _, size in page.buffers), describe(page.encoding))


def _as_json(file: _File) -> dict[str, Any]:
    return {
        "file": file.name,
        "version": file.version.name,
        "bytes": file.num_bytes,
        "rows": file.num_rows,
        "global_buffers": list(file.global_buffers),
        "columns": [
            {
                "index": column.index,
                "name": column.name,
                "type": column.type,
                "pages": [
                    {
                        "rows": page.num_rows,
                        "bytes": page.num_bytes,
                        "layout": page.layout.layout,
                        "encodings": dict(page.layout.streams),
                        "layers": list(page.layout.layers),
                        **({"statistics": page.statistics} if page.statistics else {}),
                    }
                    for page in column.pages
                ],
            }
            for column in file.columns
        ],
    }


def _print(file: _File) -> None:
    """One line per column and one per page; not a table, since descriptions are long and terminals narrow."""
    print_line(
        f"{file.name}: version {file.version.name}, {readable_bytes(file.num_bytes)}, "
        f"{count(file.num_rows, 'row')}, {count(len(file.columns), 'column')}"
    )
    for column in file.columns:
        size = readable_bytes(sum(page.num_bytes for page in column.pages))
        print_line(
            f"{column.index} {column.name} ({column.type}): {count(len(column.pages), 'page')}, {size}"
        )
        for number, page in enumerate(column.pages):
            layers = ", ".join(page.layout.layers)
            known = ", ".join(
                f"{name} {value}" for name, value in (page.statistics or {}).items() if value is not None
            )
            print_line(
                f"    page {number}: {count(page.num_rows, 'row')}, {readable_bytes(page.num_bytes)}, "
                f"{page.layout} [{layers or known}]"
            )
