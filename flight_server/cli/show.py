"""`lance-flight show`: one version of a dataset."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from flight_server.cli.targets import open_target
from flight_server.cli.values import schema_rows


def show(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show version, size and schema of a dataset."""
    facts = open_target(target, at).facts()
    if as_json:
        described = {
            "version": facts.version,
            "rows": facts.num_rows,
            "fragments": facts.num_fragments,
            "data_storage_version": facts.data_storage_version,
            "schema": schema_rows(facts.schema),
        }
        print(json.dumps(described))
        return
    console = Console()
    console.print(
        f"version {facts.version}, {facts.num_rows:,} rows in {facts.num_fragments} fragments, "
        f"data storage version {facts.data_storage_version}"
    )
    table = Table("column", "type", "nullable")
    for field in schema_rows(facts.schema):
        table.add_row(field["name"], field["type"], "yes" if field["nullable"] else "no")
    console.print(table)
