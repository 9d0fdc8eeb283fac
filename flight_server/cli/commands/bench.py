"""`lance-flight bench`: how fast a dataset is read and looked up, here or over the network."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from flight_server.cli.access import with_access
from flight_server.cli.datasets.opening import open_target
from flight_server.cli.datasets.target import Selection, Target
from flight_server.cli.errors import stderr
from flight_server.cli.option_texts import parse_columns
from flight_server.cli.rendering import count, print_line, print_table
from flight_server.cli.values import readable_bytes

_TAKEN_ROWS = (1, 1000)
_SEED = 0


@with_access
def bench(
    target: Annotated[str, typer.Argument(help="grpc://host:port/name or a local path.")],
    columns: Annotated[
        str | None, typer.Option(help='Names, comma separated, or a JSON object {"name": "SQL"}.')
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="SQL: scan only rows for which it is true.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Measured runs of each; one more comes first.")] = 5,
    at: Annotated[
        int | None, typer.Option(help="Version of the dataset; the latest one if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object; times in seconds.")] = False,
) -> None:
    """Measure scans, the time to their first batch, and lookups of 1 and 1000 random rows.

    Rows are read as they come and dropped, the endpoints of a server one after the other.
    """
    facts = open_target(target, at).facts()
    found = open_target(target, facts.version)  # whatever is committed meanwhile
    selection = Selection(parse_columns(columns), filter_)
    measured = _measure(found, selection, facts.num_rows, runs)
    measured = {"target": target, "version": facts.version, "runs": runs, **measured}
    if as_json:
        print(json.dumps(measured))
    else:
        _print(measured)


def _measure(target: Target, selection: Selection, num_rows: int, runs: int) -> dict[str, Any]:
    """Return all figures; the first run of each measurement is not counted."""
    generator = np.random.default_rng(_SEED)
    columns = TextColumn("{task.description}"), TextColumn("run {task.completed}"), TimeElapsedColumn()
    with Progress(*columns, console=stderr, transient=True) as progress:

        def repeat(what: str, once: Callable[[], Any]) -> list[Any]:
            task = progress.add_task(what)
            results = []
            for _ in range(runs + 1):
                results.append(once())
                progress.advance(task)
            return results[1:]

        scans = repeat("scan", lambda: _scan(target, selection))
        takes = []
        counts = sorted({min(number, num_rows) for number in _TAKEN_ROWS if num_rows > 0})
        for number in counts:

            def take(number: int = number) -> float:
                offsets = generator.choice(num_rows, number, replace=False).tolist()
                began = time.perf_counter()
                target.take(offsets, selection.columns)
                return time.perf_counter() - began

            takes.append({"rows": number, "seconds": _summary(repeat(f"take {number}", take))})
    _, _, rows, num_bytes = scans[0]
    seconds = _summary([scan[0] for scan in scans])
    return {
        "scan": {
            "rows": rows,
            "bytes": num_bytes,
            "seconds": seconds,
            "rows_per_second": rows / seconds["median"],
            "bytes_per_second": num_bytes / seconds["median"],
        },
        "first_batch": {"seconds": _summary([scan[1] for scan in scans])},
        "take": takes,
    }


def _scan(target: Target, selection: Selection) -> tuple[float, float, int, int]:
    """Return the seconds of a scan and until its first batch, and its rows and bytes in memory."""
    began = time.perf_counter()
    first, rows, num_bytes = None, 0, 0
    with target.read(selection) as found:
        for batch in found.batches:
            first = first or time.perf_counter() - began
            rows += batch.num_rows
            num_bytes += batch.nbytes
    seconds = time.perf_counter() - began
    return seconds, first or seconds, rows, num_bytes


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}


def _print(measured: dict[str, Any]) -> None:
    scan = measured["scan"]
    rows = []
    speed = f"{readable_bytes(round(scan['bytes_per_second']))}/s, {scan['rows_per_second']:,.0f} rows/s"
    lines = [("scan", scan, speed), ("first batch", measured["first_batch"], "")]
    lines += [(f"take {each['rows']:,}", each, "") for each in measured["take"]]
    for name, figures, remark in lines:
        times = (f"{figures['seconds'][which] * 1000:.4g} ms" for which in ("median", "least", "most"))
        rows.append((name, *times, remark))
    size, runs = readable_bytes(scan["bytes"]), count(measured["runs"], "run")
    print_line(f"version {measured['version']}: {count(scan['rows'], 'row')}, {size}; {runs} of each")
    print_table(("", "median", "least", "most", "speed"), rows)
