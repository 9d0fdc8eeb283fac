"""`lance-flight update`: new values in rows of a dataset, here or on a server."""

from typing import Annotated

import typer

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJson, TargetName, print_answer
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.option_texts import parse_pairs
from flight_server.cli.rendering import count


@with_access
def update(
    target: TargetName,
    assignments: Annotated[
        list[str], typer.Option("--set", help="Column and its new value in SQL: fare='fare * 2'. Repeatable.")
    ],
    where: Annotated[
        str | None, typer.Option(help="SQL: only rows for which it is true; all rows if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give columns new values, as one new version."""
    updates = parse_pairs(assignments, "--set")
    with stderr.status("updating"):
        done = open_target(target).update(updates, where)
    text = f"version {done['version']}: {count(done['rows'], 'row')} updated"
    print_answer(done, text, as_json=as_json)
