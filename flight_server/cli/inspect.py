"""`lance-flight inspect`: what a data file holds, page by page."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flight_server.cli.values import readable_bytes
from lance_core.encodings.description import LayoutDescription
from lance_core.encodings.v2_0.describe import describe_page
from lance_core.encodings.v2_1.describe import describe_page_layout
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.metadata import FileMetadata, PageMetadata, read_file_metadata
from lance_core.schema.columns import leaves, nodes
from lance_core.schema.fields import Field
from lance_core.storage import storage_for

_VERSIONS = (FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2)
_TEXTS = ("string", "large_string", "binary", "large_binary")


@dataclass(frozen=True)
class _Page:
    num_rows: int
    num_bytes: int
    layout: LayoutDescription


@dataclass(frozen=True)
class _Column:
    index: int
    name: str
    type: str
    pages: tuple[_Page, ...]


def inspect(
    file: Annotated[Path, typer.Argument(help="A data file (.lance) of version 2.0, 2.1 or 2.2.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the columns and pages of a data file: sizes, layouts, encodings."""
    with storage_for(str(file.parent)).open_file(file.name) as opened:
        metadata = read_file_metadata(opened)
        if metadata.version not in _VERSIONS:
            raise UnsupportedFeatureError(
                "inspect", file=file.name, expected="file version 2.0, 2.1 or 2.2", found=metadata.version
            )
        columns = list(_columns(metadata))
    if as_json:
        print(json.dumps(_as_json(metadata, columns)))
    else:
        _print(metadata, columns)


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


def _as_json(metadata: FileMetadata, columns: list[_Column]) -> dict[str, Any]:
    return {
        "file": metadata.name,
        "version": metadata.version.name,
        "bytes": metadata.size,
        "rows": metadata.num_rows,
        "global_buffers": [size for _, size in metadata.global_buffers],
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
                    }
                    for page in column.pages
                ],
            }
            for column in columns
        ],
    }


def _print(metadata: FileMetadata, columns: list[_Column]) -> None:
    """One line per column and one per page; not a table, since descriptions are long and terminals narrow."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{metadata.name}: version {metadata.version.name}, {readable_bytes(metadata.size)}, "
        f"{_count(metadata.num_rows, 'row')}, {_count(metadata.num_columns, 'column')}"
    )
    for column in columns:
        size = readable_bytes(sum(page.num_bytes for page in column.pages))
        console.print(
            f"{column.index} {column.name} ({column.type}): {_count(len(column.pages), 'page')}, {size}"
        )
        for number, page in enumerate(column.pages):
            layers = ", ".join(page.layout.layers)
            console.print(
                f"    page {number}: {_count(page.num_rows, 'row')}, {readable_bytes(page.num_bytes)}, "
                f"{page.layout} [{layers}]"
            )


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
