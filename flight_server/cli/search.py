"""`lance-flight search`: the rows whose vectors are nearest to a query."""

import json
from typing import Annotated, Any

import pyarrow as pa
import typer

from flight_server.cli.rendering import print_rows
from flight_server.cli.targets import Selection, Target, open_target, parse_columns
from flight_server.cli.values import json_lines, python_values


def search(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    vector: Annotated[
        str | None, typer.Option(help="The query: numbers with commas between them, or a JSON list.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(min=0, help="The query is the vector of this row, counted from 0.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of vectors; may be left out if there is only one.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Most rows.")] = 10,
    metric: Annotated[str | None, typer.Option(help="l2, cosine, dot or hamming.")] = None,
    columns: Annotated[
        str | None, typer.Option(help='Names, comma separated, or a JSON object {"name": "SQL"}.')
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="SQL: only rows for which it is true are searched.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
) -> None:
    """Show the rows whose vectors are nearest to a query, with their distances."""
    if (vector is None) == (row is None):
        raise typer.BadParameter("give one of --vector and --row")
    opened = open_target(target, at)
    name = _vector_column(opened) if column is None else column
    q = _of_row(opened, name, row) if row is not None else _parsed(vector or "")
    nearest: dict[str, Any] = {"column": name, "q": q, "k": k}
    if metric is not None:
        nearest["metric"] = metric
    shown = parse_columns(columns)
    if shown is None:  # vectors are long, and the query is known
        shown = [each for each in opened.facts().schema.names if each != name]
    selection = Selection(shown, filter_, nearest=nearest, prefilter=True)
    with opened.read(selection) as found:
        if as_json:
            for batch in found.batches:
                print(json_lines(batch), end="")
            return
        rows = [
            values
            for batch in found.batches
            for values in zip(*(python_values(each) for each in batch.columns), strict=True)
        ]
    print_rows(found.schema.names, rows)


def _vector_column(target: Target) -> str:
    names = [field.name for field in target.facts().schema if pa.types.is_fixed_size_list(field.type)]
    if len(names) != 1:
        found = f"several: {', '.join(names)}" if names else "none"
        raise typer.BadParameter(f"the dataset has {found}", param_hint="--column")
    return str(names[0])


def _of_row(target: Target, column: str, row: int) -> list[Any]:
    value = target.take([row], [column]).column(0)[0].as_py()
    if value is None:
        raise typer.BadParameter(f"the vector of row {row} is null", param_hint="--row")
    return list(value)


def _parsed(text: str) -> list[Any]:
    try:
        values = json.loads(text if text.lstrip().startswith("[") else f"[{text}]")
    except ValueError:
        values = None
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
        raise typer.BadParameter("expected numbers with commas between them", param_hint="--vector")
    return values
