"""`lance-flight ls`: the datasets below a root."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import connect, is_remote
from flight_server.cli.rendering import print_line, print_table
from flight_server.cli.values import readable_bytes


@with_access
def ls(
    target: Annotated[str, typer.Argument(help="grpc://host:port or a local directory.")],
    pattern: Annotated[str, typer.Argument(help="Glob on the names.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List datasets with their latest version, rows and bytes.

    What is wrong with a dataset that cannot be read is said below the table.
    """
    if is_remote(target):
        found = _remote(target, pattern)
    else:
        # Late: it needs the service of a server.
        from flight_server.cli.datasets.local_listing import list_datasets

        found = list_datasets(target, pattern)
    if as_json:
        for dataset in found:
            print(json.dumps(dataset))
        return
    rows, errors = [], []
    for dataset in found:
        if "error" in dataset:
            rows.append((dataset["dataset"], "unreadable", "", "", ""))
            errors.append(f"{dataset['dataset']}: {dataset['error']}")
        else:
            numbers = (f"{dataset['rows']:,}", readable_bytes(dataset["bytes"]), f"{dataset['columns']:,}")
            rows.append((dataset["dataset"], str(dataset["version"]), *numbers))
    print_table(("dataset", "version", "rows", "size", "columns"), rows, folded=("dataset",))
    for error in errors:
        print_line(error)


def _remote(target: str, pattern: str) -> Iterator[dict[str, Any]]:
    client, name = connect(target)
    if name:
        raise typer.BadParameter(f"{target} names a dataset; give the server alone and the name as a pattern")
    with client:
        for info in client.list_flights(pattern.encode()):
            described: dict[str, Any] = json.loads(info.app_metadata)
            if "error" not in described:
                described |= {
                    "rows": info.total_records,
                    "bytes": info.total_bytes,
                    "columns": len(info.schema),
                }
            yield described
