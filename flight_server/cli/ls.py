"""`lance-flight ls`: the datasets below a root."""

import json
import secrets
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from flight_server.cli.rendering import print_line, print_table
from flight_server.cli.targets import connect, is_remote
from flight_server.cli.values import readable_bytes
from flight_server.service import Service
from flight_server.settings import Settings


def ls(
    target: Annotated[str, typer.Argument(help="grpc://host:port or a local directory.")],
    pattern: Annotated[str, typer.Argument(help="Glob on the names.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List datasets with their latest version, rows and bytes.

    What is wrong with a dataset that cannot be read is said below the table.
    """
    found = _remote(target, pattern) if is_remote(target) else _local(target, pattern)
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


def _local(root: str, pattern: str) -> Iterator[dict[str, Any]]:
    # No ticket is signed. With a key of its own, the service leaves no file in the directory.
    settings = Settings.resolve(root, {"signing_key": secrets.token_hex()}, environment={})
    for summary in Service(settings).datasets.summaries(pattern):
        if summary.error is not None:
            yield {"dataset": summary.name, "error": summary.error}
        else:
            yield {
                "dataset": summary.name,
                "version": summary.version,
                "rows": summary.num_rows,
                "bytes": summary.num_bytes,
                "columns": len(summary.schema),
            }


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
