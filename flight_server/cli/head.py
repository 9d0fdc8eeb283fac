"""`lance-flight head`: the first rows."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flight_server.cli.targets import Selection, open_target, parse_columns
from flight_server.cli.values import json_lines

_MAXIMUM_CELL_CHARACTERS = 60


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
    """Show the first rows of a dataset."""
    selection = Selection(columns=parse_columns(columns), filter=filter_, limit=rows)
    with open_target(target, at).read(selection) as found:
        if as_json:
            for batch in found.batches:
                print(json_lines(batch), end="")
            return
        table = Table(*found.schema.names)
        for batch in found.batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def _cell(value: object) -> Text:
    text = "" if value is None else str(value)
    printable = "".join(character if character.isprintable() else " " for character in text)
    cut = len(printable) > _MAXIMUM_CELL_CHARACTERS
    return Text(printable[:_MAXIMUM_CELL_CHARACTERS] + "..." if cut else printable)
