"""`lance-flight index`: the indices of a dataset, listed, built, extended and dropped, here or remote."""

import json
from typing import Annotated, Any

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, AsJsonLines, At, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.rendering import print_table

IndexName = Annotated[str, typer.Argument(metavar="INDEX", help="Name of the index, not of a column.")]

index = typer.Typer(no_args_is_help=True, add_completion=False)


@index.command("ls", hidden=True)
@index.command("list")
@with_access
def list_(target: TargetName, at: At = None, as_json: AsJsonLines = False) -> None:
    """List the indices of a dataset, and how many rows each of them covers."""
    found = open_target(target, at).indices()
    if as_json:
        for each in found:
            print(json.dumps(each))
        return
    rows = [(each["name"], each["type"], ", ".join(each["fields"]), f"{each['rows']:,}") for each in found]
    print_table(("index", "type", "columns", "rows covered"), rows, folded=("index", "columns"))


@index.command()
@with_access
def create(
    target: TargetName,
    column: Annotated[str, typer.Argument(help="Name or dotted path of the column.")],
    kind: Annotated[
        str, typer.Option("--type", help="Kind of the index, such as BTREE or BITMAP.")
    ] = "BTREE",
    name: Annotated[str | None, typer.Option(help="Name of the index.  [default: COLUMN_idx]")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Fail if there is an index with this name.")] = False,
    parameters: Annotated[
        str | None, typer.Option(help='Options of the kind as JSON, such as {"rows_per_zone": 1000}.')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build an index on a column. An index with the same name is replaced."""
    options: dict[str, Any] = {"replace": not keep, "parameters": _object(parameters)}
    if name is not None:
        options["name"] = name
    version = open_target(target).create_index(column, kind, options)
    print_answer({"version": version}, f"version {version} has the index", as_json=as_json)


@index.command()
@with_access
def optimize(
    target: TargetName,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[INDEX]...", help="Names of the indices.  [default: all]")
    ] = None,
    merge: Annotated[
        int | None,
        typer.Option(help="Number of the newest segments to join with the new rows.  [default: 1]"),
    ] = None,
    retrain: Annotated[bool, typer.Option(help="Build the indices from all rows again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let indices cover the rows that they do not cover yet."""
    options: dict[str, Any] = {"retrain": retrain}
    if names:
        options["index_names"] = names
    if merge is not None:
        options["num_indices_to_merge"] = merge
    version = open_target(target).optimize_indices(options)
    print_answer({"version": version}, f"indices of version {version} cover all rows", as_json=as_json)


@index.command()
@with_access
def stats(target: TargetName, name: IndexName, at: At = None) -> None:
    """Print facts about an index as JSON: what it covers, and what its files contain."""
    print(json.dumps(open_target(target, at).index_statistics(name)))


@index.command()
@with_access
def prewarm(target: TargetName, name: IndexName) -> None:
    """Read the files of an index ahead of queries."""
    open_target(target).prewarm_index(name)


@index.command()
@with_access
def drop(target: TargetName, name: IndexName, as_json: AsJson = False) -> None:
    """Drop an index. Its files stay until the versions that need them are cleaned up."""
    version = open_target(target).drop_index(name)
    print_answer({"index": name, "version": version}, f"index {name} dropped", as_json=as_json)


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--parameters is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("--parameters: expected an object of options by name")
    return found
