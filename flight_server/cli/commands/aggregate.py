"""`lance-flight aggregate`: counts, sums and more per group of rows."""

from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.option_texts import parse_columns, parse_pairs
from flight_server.cli.printed_rows import print_batches


@with_access
def aggregate(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    aggregates: Annotated[
        list[str],
        typer.Argument(metavar="NAME=SQL...", help="Aggregates: rows='count(*)' total='sum(price)'."),
    ],
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="COLUMNS",
            help='Columns that make the groups: names, comma separated, or a JSON object {"name": "SQL"}.',
        ),
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="SQL: only rows for which it is true.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per group.")] = False,
) -> None:
    """Show counts, sums, extremes and averages, one row per group of rows."""
    wanted = parse_pairs(aggregates, "NAME=SQL")
    table = open_target(target, at).aggregate(wanted, parse_columns(group_by), filter_)
    print_batches(table.schema.names, table.to_batches(), as_json=as_json)
