"""`lance-flight delete`: rows out of a dataset, here or on a server."""

import json
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.rendering import count


@with_access
def delete(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    predicate: Annotated[str, typer.Argument(help="SQL; rows for which it is true are deleted.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Delete rows, as one new version."""
    with stderr.status("deleting"):
        done = open_target(target).delete(predicate)
    if as_json:
        print(json.dumps(done))
    else:
        print(f"version {done['version']}: {count(done['rows'], 'row')} deleted")
