"""`lance-flight blobs`: the bytes of one blob, into a file or to stdout."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.files.output_files import check_new_file, complete_file


@with_access
def blobs(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    column: Annotated[str, typer.Argument(help="A blob column, nested ones with dots.")],
    offset: Annotated[int, typer.Option(min=0, help="Position of the row in dataset order.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; else stdout.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
) -> None:
    """Write the bytes of one blob, of any size, to a file or to stdout."""
    if output is not None:
        check_new_file(output, force=force)
    parts = open_target(target, at).blob(column, offset)
    if output is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        return
    with complete_file(output) as partial, partial.open("wb") as file:
        file.writelines(parts)
