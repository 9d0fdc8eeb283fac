"""`lance-flight inspect`: what a data file holds, page by page."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from flight_server.cli.rendering import count, print_line
from flight_server.cli.values import readable_bytes
from lance_core.api.serving import DataFileDescription, describe_data_file, storage_for


def inspect(
    file: Annotated[Path, typer.Argument(help="A data file (.lance).")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the columns and pages of a data file: sizes, layouts, encodings."""
    described = describe_data_file(storage_for(str(file.parent)), file.name)
    if as_json:
        print(json.dumps(_as_json(described)))
    else:
        _print(described)


def _as_json(file: DataFileDescription) -> dict[str, Any]:
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


def _print(file: DataFileDescription) -> None:
    """Print one line per column and page. A table would be too wide for a terminal."""
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
