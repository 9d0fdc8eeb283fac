"""`lance-flight drop`: a dataset with everything that belongs to it, here or on a server."""

import sys
from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.rendering import printable


@with_access
def drop(
    target: TargetName,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a dataset with all its versions, tags and branches. That cannot be undone.

    The command asks on a terminal; elsewhere it needs --yes.
    """
    if not yes:
        _confirm(target)
    with stderr.status("removing files"):
        open_target(target).drop()
    print_answer({"dropped": target}, f"dropped {target}", as_json=as_json)


def _confirm(target: str) -> None:
    """End the command unless somebody at a terminal agrees."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("give --yes to drop a dataset without being asked", param_hint="--yes")
    question = f"Remove {printable(target)} with all its versions, tags and branches?"
    if not typer.confirm(question, err=True):
        stderr.print("nothing was removed", markup=False)
        raise typer.Exit(1)
