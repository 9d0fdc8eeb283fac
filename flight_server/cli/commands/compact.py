"""`lance-flight compact`: small fragments into larger ones, here or on a server."""

import json
from typing import Annotated, Any

import typer

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.rendering import count


@with_access
def compact(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    target_rows: Annotated[
        int | None, typer.Option(min=1, help="Fragments with fewer rows are joined with their neighbours.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Fragments to write at the same time.")] = None,
    defer_index_remap: Annotated[
        bool,
        typer.Option("--defer-index-remap", help="Leave index files as they are until `index optimize`."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Join small fragments and leave out deleted rows, as one new version if anything is to be gained."""
    options = {"target_rows_per_fragment": target_rows, "num_threads": threads}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if defer_index_remap:
        given["defer_index_remap"] = True
    with stderr.status("compacting"):
        done = open_target(target).compact(given)
    if as_json:
        print(json.dumps(done))
    else:
        if not done["files_removed"]:
            print(f"version {done['version']}: nothing to compact")
            return
        fragments = f"{count(done['fragments_removed'], 'fragment')} became {done['fragments_added']:,}"
        files = f"{count(done['files_removed'], 'file')} became {done['files_added']:,}"
        print(f"version {done['version']}: {fragments}, {files}")
        for index in done.get("index_coverage", []):
            before, after = count(index["num_rows_before"], "row"), count(index["num_rows_after"], "row")
            print(f"index {index['index']} ({index['index_type']}) covered {before}, covers {after}")
        for lost in done.get("lost_coverage", []):
            kind, rows = lost["index_type"], lost["num_rows"]
            print(f"index {lost['index']} ({kind}) does not cover {rows:,} of these rows any more")
