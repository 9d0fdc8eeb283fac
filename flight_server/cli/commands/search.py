"""`lance-flight search`: the rows that are nearest to a vector, contain words, or both."""

import json
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.datasets.target import Selection, Target
from flight_server.cli.option_texts import parse_columns, parse_text_query
from flight_server.cli.printed_rows import print_batches

Method = Literal["rrf", "weighted"]
Search = Literal["vector", "text"]


@with_access
def search(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    vector: Annotated[
        str | None, typer.Option(help="The query: numbers with commas between them, or a JSON list.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(min=0, help="The query is the vector of this row, counted from 0.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="Words to find, or a query as a JSON object. With a vector: rows are best by both."
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of vectors; may be left out if there is only one.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Most rows.")] = 10,
    method: Annotated[
        Method | None, typer.Option(help="How both rankings are joined.  [default: rrf]")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Rows of each ranking that are joined.  [default: as -k]")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Weights of the vectors and of the texts, such as 0.7,0.3.")
    ] = None,
    search_filter: Annotated[
        Search | None,
        typer.Option(help="With a vector and --text: this search is a filter, the other one ranks the rows."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="l2, cosine, dot or hamming.")] = None,
    index_segments: Annotated[
        str | None,
        typer.Option(help="Uuids of segments of the vector index, comma separated: only their rows."),
    ] = None,
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
    """Show the rows that are nearest to a vector, that contain words, or that are best by both.

    With --search-filter, one of both searches leaves rows out, and the other one ranks the rest.
    """
    if vector is not None and row is not None:
        raise typer.BadParameter("give only one of --vector and --row")
    has_vector = vector is not None or row is not None
    if not has_vector and text is None:
        raise typer.BadParameter("give --vector or --row, --text, or both")
    given = {
        "method": method,
        "depth": depth,
        "weights": None if weights is None else _parsed(weights, "--weights"),
    }
    hybrid = {name: value for name, value in given.items() if value is not None}
    has_both = has_vector and text is not None
    if hybrid and not has_both:
        raise typer.BadParameter(f"--{min(hybrid)} joins two rankings: give a vector and --text")
    if search_filter is not None and not has_both:
        raise typer.BadParameter("one search is a filter of the other: give a vector and --text")
    if search_filter is not None and hybrid:
        raise typer.BadParameter(f"--{min(hybrid)} joins two rankings, --search-filter leaves one")
    if index_segments is not None and not has_vector:
        raise typer.BadParameter("--index-segments are of a vector index: give --vector or --row")
    opened = open_target(target, at)
    shown = parse_columns(columns)
    nearest: dict[str, Any] | None = None
    if has_vector:
        name = _vector_column(opened) if column is None else column
        q = _of_row(opened, name, row) if row is not None else _parsed(vector or "", "--vector")
        nearest = {"column": name, "q": q, "k": k}
        if metric is not None:
            nearest["metric"] = metric
        if shown is None:  # vectors are long, and the query is known
            shown = [each for each in opened.facts().schema.names if each != name]
    selection = Selection(
        shown,
        filter_,
        limit=None if has_vector else k,
        full_text_query=parse_text_query(text, "--text"),
        nearest=nearest,
        hybrid=hybrid if has_both and search_filter is None else None,
        search_filter=search_filter,
        index_segments=None if index_segments is None else tuple(index_segments.split(",")),
        prefilter=True,
    )
    with opened.read(selection) as found:
        print_batches(found.schema.names, found.batches, as_json=as_json)


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


def _parsed(text: str, option: str) -> list[Any]:
    try:
        values = json.loads(text if text.lstrip().startswith("[") else f"[{text}]")
    except ValueError:
        values = None
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
        raise typer.BadParameter("expected numbers with commas between them", param_hint=option)
    return values
