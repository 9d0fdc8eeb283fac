"""`lance-flight index`: the indices of a dataset, listed and dropped, here or on a server."""

import json
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, AsJsonLines, At, TargetName, print_answer
from flight_server.cli.rendering import print_table
from flight_server.cli.targets import open_target

IndexName = Annotated[str, typer.Argument(metavar="INDEX", help="Name of the index, not of a column.")]

index = typer.Typer(no_args_is_help=True, help="List and drop indices that the reference library built.")


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
def drop(target: TargetName, name: IndexName, as_json: AsJson = False) -> None:
    """Drop an index. Its files stay until the versions that need them are cleaned up."""
    version = open_target(target).drop_index(name)
    print_answer({"index": name, "version": version}, f"index {name} dropped", as_json=as_json)
