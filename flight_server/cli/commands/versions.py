"""`lance-flight versions`: the versions of a dataset."""

import json
from datetime import datetime

from flight_server.cli.access import with_access
from flight_server.cli.arguments import AsJsonLines, TargetName
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.errors import stderr
from flight_server.cli.rendering import print_table
from flight_server.cli.values import readable_bytes


@with_access
def versions(target: TargetName, as_json: AsJsonLines = False) -> None:
    """List the versions of a dataset, oldest first, with their rows, fragments and bytes."""
    with stderr.status("reading manifests"):
        found = open_target(target).versions()
    if as_json:
        for version in found:
            print(json.dumps(version))
        return
    rows = []
    for version in found:
        totals = {name: int(number) for name, number in version["metadata"].items()}
        rows.append(
            (
                f"{version['version']}",
                f"{datetime.fromisoformat(version['timestamp']):%Y-%m-%d %H:%M:%S}",
                f"{totals['total_rows']:,}",
                f"{totals['total_fragments']:,}",
                readable_bytes(totals["total_files_size"]),
            )
        )
    print_table(("version", "time (UTC)", "rows", "fragments", "size"), rows)
