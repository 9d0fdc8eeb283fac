"""`lance-flight scan`: rows into a Parquet or Arrow file, or as JSON lines to stdout."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from pyarrow import ipc, parquet
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flight_server.cli.errors import stderr
from flight_server.cli.targets import Rows, Selection, open_target
from flight_server.cli.values import json_lines


def scan(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, .parquet or .arrow; else JSON lines to stdout."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Names, comma separated; nested ones with dots.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Most rows.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Rows to skip.")] = None,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
) -> None:
    """Read a dataset into a file, or to stdout."""
    if output is not None and output.suffix not in _WRITERS:
        raise typer.BadParameter(
            f"{output}: give a file that ends in {' or '.join(_WRITERS)}", param_hint="--output"
        )
    selection = Selection(columns=columns.split(",") if columns else None, limit=limit, offset=offset)
    with open_target(target, at).read(selection) as rows:
        if output is None:
            for batch in rows.batches:
                print(json_lines(batch), end="")
        else:
            _write(rows, output)


def _write(rows: Rows, output: Path) -> None:
    """Write beside `output` and rename at the end: what bears that name is whole."""
    partial = output.with_name(f"{output.name}.partial")
    try:
        with _WRITERS[output.suffix](str(partial), rows.schema) as writer:
            for batch in _with_progress(rows):
                writer.write_batch(batch)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _with_progress(rows: Rows) -> Iterator[pa.RecordBatch]:
    columns = (TextColumn("{task.completed:,} of {task.total:,} rows"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr) as progress:
        task = progress.add_task("rows", total=rows.num_rows)
        for batch in rows.batches:
            yield batch
            progress.advance(task, batch.num_rows)


def _parquet(path: str, schema: pa.Schema) -> AbstractContextManager[Any]:
    writer: AbstractContextManager[Any] = parquet.ParquetWriter(path, schema)
    return writer


def _arrow(path: str, schema: pa.Schema) -> AbstractContextManager[Any]:
    writer: AbstractContextManager[Any] = ipc.new_file(path, schema)
    return writer


_WRITERS = {".parquet": _parquet, ".arrow": _arrow}
