"""`lance-flight head`: the first rows."""

from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.datasets.target import Selection
from flight_server.cli.option_texts import parse_columns
from flight_server.cli.printed_rows import print_batches


@with_access
def head(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="How many.")] = 10,
    columns: Annotated[
        str | None, typer.Option(help='Names, comma separated, or a JSON object {"name": "SQL"}.')
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="SQL: only rows for which it is true.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
) -> None:
    """Show the first rows of a dataset.

    Rows whose columns do not fit into the terminal are shown without those in the middle, which are named, or
    as records with a line for each column.
    """
    selection = Selection(columns=parse_columns(columns), filter=filter_, limit=rows)
    with open_target(target, at).read(selection) as found:
        print_batches(found.schema.names, found.batches, as_json=as_json)
