"""`python -m benchmarks`: generate the data once, measure everything in one run, print one table."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks import filtered_scan, flight_scan, local_scan, opening, peak_memory, single_rows
from benchmarks.data import prepare
from benchmarks.measure import Measurement

FOLDER_VARIABLE = "LANCE_FLIGHT_BENCH_DIR"


def main() -> None:
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    datasets = [
        dataset
        for dataset in ([] if options.only == "open" else prepare(options.folder, options.scale))
        if any(dataset.name.startswith(prefix) for prefix in options.only.split(","))
    ]
    print(f"{platform.machine()}, {os.cpu_count()} cores, {options.runs} runs each, medians", flush=True)

    local: list[Measurement] = []
    remote: list[Measurement] = []
    first: list[Measurement] = []
    memory: dict[str, dict[str, dict[str, int]]] = {}
    _heading("local to_table", "ours", "pylance", "faster", "less CPU")
    for dataset in datasets:
        for measure in (local_scan.measure, filtered_scan.measure, single_rows.measure):
            for measurement in measure(dataset, options.runs):
                local.append(measurement)
                _local_row(measurement)
    if options.only in ("", "open"):
        for measurement in opening.measure(options.folder, options.runs):
            local.append(measurement)
            _local_row(measurement)
    _geometric_means((m.group, m.ratio(local_scan.OURS, local_scan.REFERENCE)) for m in local)

    if not options.local:
        with flight_scan.servers(options.folder) as (ours, plain, held):
            for dataset in datasets:
                remote.append(flight_scan.measure(dataset, ours, plain, held, options.runs))
                _remote_rows(remote[-1])
                first.append(flight_scan.measure_first_batch(dataset, ours, plain, 4 * options.runs))
                _remote_rows(first[-1])
            for server in (ours, plain):
                print(f"  peak memory of the {server.name} server {_mib(server.peak_bytes())}")
        _geometric_means(ratio for measurement in remote for ratio in _remote_ratios(measurement))
        _geometric_means(
            (m.group, m.ratio(flight_scan.OURS, flight_scan.best_plain(m, parallel=False))) for m in first
        )
        for dataset in datasets:
            memory[dataset.name] = peak_memory.measure(dataset.path)
            _memory_row(dataset.name, memory[dataset.name])

    if options.json:
        results = {"measurements": [m.as_json() for m in (*local, *remote, *first)], "peak_memory": memory}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1))
        print(f"all runs: {options.json}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    folder = Path(os.environ.get(FOLDER_VARIABLE, ".cache/bench"))
    parser.add_argument(
        "--folder", type=Path, default=folder, help=f"where the data lies (or {FOLDER_VARIABLE})"
    )
    parser.add_argument("--runs", type=int, default=5, help="measured runs per competitor")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of rows")
    parser.add_argument("--only", default="", help="prefixes of dataset names, comma separated, or open")
    parser.add_argument("--local", action="store_true", help="leave out the servers and the memory")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    return parser.parse_args()


def _heading(*names: str) -> None:
    first, *rest = names
    print(f"\n{first:<44}" + "".join(f"{name:>12}" for name in rest) + f"{'MB/s':>9}")


def _local_row(measurement: Measurement) -> None:
    seconds = measurement.seconds
    faster = measurement.ratio(local_scan.OURS, local_scan.REFERENCE)
    less_cpu = measurement.cpu_ratio(local_scan.OURS, local_scan.REFERENCE)
    times = _ms(seconds[local_scan.OURS]) + _ms(seconds[local_scan.REFERENCE])
    ratios = f"{faster:>11.2f}x{less_cpu:>11.2f}x"
    print(f"{measurement.task:<44}{times}{ratios}{_speed(measurement, local_scan.OURS)}", flush=True)


def _remote_ratios(measurement: Measurement) -> list[tuple[str, float]]:
    """Like against like: one stream against one stream, parallel against parallel."""
    one = flight_scan.best_plain(measurement, parallel=False)
    many = flight_scan.best_plain(measurement, parallel=True)
    return [
        ("DoGet, one stream after the other", measurement.ratio(flight_scan.OURS, one)),
        ("DoGet, parallel", measurement.ratio(flight_scan.OURS_PARALLEL, many)),
    ]


def _remote_rows(measurement: Measurement) -> None:
    _heading(measurement.task, "median", "ours faster")
    for name, seconds in measurement.seconds.items():
        parallel = name.endswith("parallel")
        ours = flight_scan.OURS_PARALLEL if parallel else flight_scan.OURS
        best = name == flight_scan.best_plain(measurement, parallel=parallel)
        mark = " (best)" if best else ""
        faster = "" if name == ours else f"{measurement.ratio(ours, name):.2f}x"
        print(f"  {name + mark:<42}{_ms(seconds)}{faster:>12}{_speed(measurement, name)}", flush=True)


def _memory_row(name: str, both: dict[str, dict[str, int]]) -> None:
    parts = [f"{library} {_mib(sizes['peak'] - sizes['idle'])}" for library, sizes in both.items()]
    print(f"  peak memory above idle, {name}: {', '.join(parts)}, result {_mib(both['ours']['result'])}")


def _geometric_means(ratios: Iterable[tuple[str, float]]) -> None:
    grouped = defaultdict(list)
    for group, ratio in ratios:
        grouped[group].append(ratio)
    for group, values in grouped.items():
        mean = math.exp(sum(math.log(value) for value in values) / len(values))
        print(f"  geometric mean, {group}: {mean:.2f}x faster ({len(values)} tasks)", flush=True)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:>9.1f} ms"


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def _speed(measurement: Measurement, name: str) -> str:
    return f"{measurement.size_bytes / measurement.seconds[name] / 1e6:>9.0f}"


if __name__ == "__main__":
    sys.exit(main())
