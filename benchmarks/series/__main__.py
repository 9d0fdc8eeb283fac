"""`python -m benchmarks.series`: measure how costs grow, print tables, and write them and plots to a page."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.data import add_folder_option
from benchmarks.series import clients, local
from benchmarks.series.measured import Point
from benchmarks.series.page import table, update

SERIES = {series.name: series for series in (*local.SERIES, *clients.SERIES)}


def main() -> None:
    options = _options()
    folder = options.folder / "series"
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[Point]] = {}
    for name in options.only.split(",") if options.only else SERIES:
        series = SERIES[name]
        points = results[name] = []
        for size in series.sizes:
            if size <= options.largest:
                points += series.measure(folder, size, options.runs)
        print(f"\n{series.axis}: {series.times}, and how many times longer {series.peer} takes\n")
        print(table(series, points), flush=True)
        if options.page:
            update(options.page, series, points)
    if options.json:
        found = {name: [asdict(point) for point in points] for name, points in results.items()}
        options.json.write_text(json.dumps(found, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.series", description=__doc__)
    add_folder_option(parser)
    parser.add_argument("--runs", type=int, default=7, help="measured runs per competitor")
    parser.add_argument("--only", default="", help=f"series, comma separated: {', '.join(SERIES)}")
    parser.add_argument("--largest", type=int, default=10**8, help="largest size, such as the most rows")
    parser.add_argument("--page", type=Path, help="page with marks that tables and plots are written to")
    parser.add_argument("--json", type=Path, help="write the medians to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
