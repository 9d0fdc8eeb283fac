"""`lance-flight show`: one version of a dataset."""

import json
from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.rendering import count, print_line, print_table
from flight_server.cli.values import schema_rows


@with_access
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
    size = f"{count(facts.num_rows, 'row')} in {count(facts.num_fragments, 'fragment')}"
    print_line(f"version {facts.version}, {size}, data storage version {facts.data_storage_version}")
    print_table(
        ("column", "type", "nullable"),
        [line for field in facts.schema for line in _lines(field, "")],
        folded=("column", "type"),
    )


def _lines(field: pa.Field, indent: str) -> Iterator[tuple[str, str, str]]:
    """Yield a line for the field; structs have another one for each child, below their own."""
    is_struct = pa.types.is_struct(field.type)
    yield indent + field.name, "struct" if is_struct else str(field.type), "yes" if field.nullable else "no"
    for child in field.type if is_struct else ():
        yield from _lines(child, indent + "  ")
