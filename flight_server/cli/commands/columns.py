"""`lance-flight columns`: columns added, removed and changed, here or on a server."""

from typing import Annotated, Any

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.option_texts import parse_pairs
from flight_server.cli.rendering import count

ColumnPath = Annotated[str, typer.Argument(metavar="COLUMN", help="Name; a child of a struct as point.x.")]

columns = typer.Typer(no_args_is_help=True, add_completion=False)


@columns.command()
@with_access
def add(
    target: TargetName,
    expressions: Annotated[
        list[str], typer.Argument(metavar="COLUMN=SQL...", help="Name and values: net='fare - tip'.")
    ],
    as_json: AsJson = False,
) -> None:
    """Add columns computed from others by SQL."""
    given = parse_pairs(expressions, "COLUMN=SQL")
    with stderr.status("writing columns"):
        version = open_target(target).add_columns(given)
    _print(version, f"{count(len(given), 'column')} added", as_json)


@columns.command()
@with_access
def drop(
    target: TargetName,
    paths: Annotated[list[str], typer.Argument(metavar="COLUMN...", help="Names; children as point.x.")],
    as_json: AsJson = False,
) -> None:
    """Remove columns. Their data stays in the files until the dataset is compacted and cleaned up."""
    version = open_target(target).drop_columns(paths)
    _print(version, f"{count(len(paths), 'column')} dropped", as_json)


@columns.command()
@with_access
def rename(
    target: TargetName,
    column: ColumnPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="New name, without the path.")],
    as_json: AsJson = False,
) -> None:
    """Give a column another name. No data is written."""
    version = open_target(target).alter_columns([{"path": column, "name": name}])
    _print(version, f"column {column} is now {name}", as_json)


@columns.command()
@with_access
def cast(
    target: TargetName,
    column: ColumnPath,
    data_type: Annotated[str, typer.Argument(metavar="TYPE", help="As in a CAST: BIGINT, DOUBLE, ...")],
    as_json: AsJson = False,
) -> None:
    """Give a column another type. Every value has to fit it."""
    change: dict[str, Any] = {"path": column, "data_type": data_type}
    with stderr.status("writing columns"):
        version = open_target(target).alter_columns([change])
    _print(version, f"column {column} is now of type {data_type}", as_json)


def _print(version: int, text: str, as_json: bool) -> None:
    print_answer({"version": version}, f"version {version}: {text}", as_json=as_json)
