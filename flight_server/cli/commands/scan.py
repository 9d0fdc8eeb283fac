"""`lance-flight scan`: rows into a Parquet, Arrow, CSV or JSON file, or as text to stdout."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.datasets.target import Rows, Selection
from flight_server.cli.errors import stderr
from flight_server.cli.files.output_files import Format, Output
from flight_server.cli.option_texts import parse_columns, parse_order, parse_text_query
from flight_server.cli.rendering import count, print_table

BlobHandling = Literal["blobs_descriptions", "all_descriptions", "all_binary"]
Compression = Literal["none", "lz4", "zstd", "auto"]


@with_access
def scan(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .parquet, .arrow, .csv, .jsonl, .csv.gz, .jsonl.zst; else stdout.",
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Of the output.  [default: as the file's name says; json on stdout]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    columns: Annotated[
        str | None, typer.Option(help='Names, comma separated, or a JSON object {"name": "SQL"}.')
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="SQL: only rows for which it is true.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Most rows.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Rows to skip.")] = None,
    blob_handling: Annotated[
        BlobHandling | None, typer.Option(help="Blobs as descriptors (the default) or as bytes.")
    ] = None,
    full_text_query: Annotated[
        str | None,
        typer.Option(
            "--full-text-query", help="Words, or a query as JSON: only rows that contain them, best first."
        ),
    ] = None,
    order_by: Annotated[
        str | None,
        typer.Option(
            help="Columns to sort by, comma separated, each with DESC or NULLS FIRST if wanted.",
            metavar="ORDER",
        ),
    ] = None,
    compression: Annotated[
        Compression | None,
        typer.Option(help="Of rows on the wire; auto leaves the choice to the server.  [default: none]"),
    ] = None,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Do not read; tell which pages would be read.")
    ] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="With --explain: read, and tell which pages were read.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --explain: one JSON object.")] = False,
) -> None:
    """Read a dataset into a file, or to stdout."""
    file = Output.of(output, format_, force=force)
    order = None if order_by is None else parse_order(order_by)
    text_query = parse_text_query(full_text_query, "--full-text-query")
    selection = Selection(
        parse_columns(columns), filter_, limit, offset, blob_handling, text_query, order, compression
    )
    if explain:
        print_explanation(open_target(target, at).explain(selection, analyze=analyze), as_json=as_json)
        return
    if analyze or as_json:
        raise typer.BadParameter("give --explain too", param_hint="--analyze" if analyze else "--json")
    with (
        open_target(target, at).read(selection) as rows,
        file.writer(rows.schema, sys.stdout.buffer) as writer,
    ):
        for batch in rows.batches if output is None else _with_progress(rows):
            writer.write_batch(batch)


def print_explanation(explained: dict[str, Any], *, as_json: bool) -> None:
    """Print a table of fragments and columns, or the whole explanation as JSON."""
    if as_json:
        print(json.dumps(explained))
        return
    headers = ("fragment", "column", "use", "pages", "planned", "pruned", "read", "statistics")
    rows = []
    for fragment in explained["fragments"]:
        for column in fragment["columns"]:
            numbers = (column[name] for name in ("total", "planned", "pruned", "read"))
            cells = ("" if number is None else str(number) for number in numbers)
            names = (str(fragment["fragment"]), column["name"], column["use"])
            rows.append((*names, *cells, fragment["statistics"]))
    print_table(headers, rows, folded=("column",))
    pages = count(explained["pages_total"], "page")
    print(f"{explained['pages_pruned']:,} of {pages} pruned")


def _with_progress(rows: Rows) -> Iterator[pa.RecordBatch]:
    text = "rows: {task.completed:,}" + ("" if rows.num_rows is None else " of {task.total:,}")
    columns = (TextColumn(text), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr) as progress:
        task = progress.add_task("rows", total=rows.num_rows)
        for batch in rows.batches:
            yield batch
            progress.advance(task, batch.num_rows)
