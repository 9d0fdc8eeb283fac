"""`lance-flight restore`: an older version of a dataset as the latest one, here or on a server."""

from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target


@with_access
def restore(
    target: TargetName,
    version: Annotated[int, typer.Argument(min=1, help="Version to go back to.")],
    as_json: AsJson = False,
) -> None:
    """Make an older version the latest one again, as one new version. The versions between them stay."""
    done = open_target(target).restore(version)
    text = f"version {done['version']} has the rows and columns of version {version}"
    print_answer(done, text, as_json=as_json)
