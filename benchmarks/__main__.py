"""`python -m benchmarks`: generate the data once, measure everything, print targets and figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from benchmarks import (
    clients,
    filtered_scan,
    flight_scan,
    local_scan,
    opening,
    peak_memory,
    single_rows,
    spark_reads,
    stream_budget,
    targets,
)
from benchmarks.data import Dataset, add_folder_option, prepare
from benchmarks.flight_scan import StreamMemory
from benchmarks.measure import Measurement
from benchmarks.targets import Line, Ratio

CLIENTS_DATASET = "mixed-2_2"


def main() -> None:
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = options.only.split(",")
    datasets = prepare(options.folder, options.scale, chosen)
    load = os.getloadavg()[0]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, {options.runs} runs each, medians",
        flush=True,
    )
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    memory: dict[str, dict[str, dict[str, int]]] = {}
    streams: dict[str, StreamMemory] = {}
    _heading("local", "ours", "pylance", "faster", "less CPU")
    for measurement in _local(datasets, options):
        measurements.append(measurement)
        _local_row(measurement)
        ratios.append(
            Ratio(
                measurement.group,
                measurement.task,
                measurement.ratio(local_scan.OURS, local_scan.REFERENCE),
                measurement.cpu_ratio(local_scan.OURS, local_scan.REFERENCE),
            )
        )
    if not options.local:
        with flight_scan.servers(options.folder) as (ours, plain, held):
            for dataset in datasets:
                for measurement in (
                    flight_scan.measure(dataset, ours, plain, held, options.runs),
                    flight_scan.measure_first_batch(dataset, ours, plain, 4 * options.runs),
                ):
                    measurements.append(measurement)
                    _remote_rows(measurement)
                    ratios += flight_scan.ratios(measurement)
            for dataset in datasets:
                all_servers = (ours, plain, held)
                for request, found, compared in stream_budget.measure_all(dataset, all_servers, options.runs):
                    stream_budget.print_budget(f"{dataset.name}, {request.name}", found)
                    ratios += compared
            if options.only == "" or {"clients", "spark"} & set(chosen):
                (mixed,) = prepare(options.folder, options.scale, [CLIENTS_DATASET])
                engines = options.only == "" or "clients" in chosen
                for measurement, compared in chain(
                    clients.measure(mixed, ours, plain, options.runs) if engines else (),
                    spark_reads.measure(mixed, ours, options.runs),
                ):
                    measurements.append(measurement)
                    _client_rows(measurement)
                    ratios += compared
        for dataset in datasets:
            memory[dataset.name] = peak_memory.measure(dataset.path)
            streams[dataset.name] = flight_scan.peak_of_stream(options.folder, dataset)
    _closing_table(targets.lines(ratios))
    for name, both in memory.items():
        _memory_rows(name, both, streams[name])
    if options.json:
        results = {
            "measurements": [measurement.as_json() for measurement in measurements],
            "ratios": [asdict(ratio) for ratio in ratios],
            "peak_memory": memory,
            "stream_memory": {name: asdict(stream) for name, stream in streams.items()},
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1))
        print(f"all runs: {options.json}")


def _local(datasets: Iterable[Dataset], options: argparse.Namespace) -> Iterator[Measurement]:
    for dataset in datasets:
        for measure in (local_scan.measure, filtered_scan.measure, single_rows.measure):
            yield from measure(dataset, options.runs)
    if options.only in ("", "open"):
        yield from opening.measure(options.folder, options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add_folder_option(parser)
    parser.add_argument("--runs", type=int, default=5, help="measured runs per competitor")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of rows")
    parser.add_argument(
        "--only",
        default="",
        help="prefixes of dataset names, comma separated; open; clients (with Spark); spark",
    )
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


def _remote_rows(measurement: Measurement) -> None:
    _heading(measurement.task, "median", "ours faster")
    for name, seconds in measurement.seconds.items():
        parallel = name.endswith("parallel")
        ours = flight_scan.OURS_PARALLEL if parallel else flight_scan.OURS
        best = name == flight_scan.best_plain(measurement, parallel=parallel)
        mark = " (best)" if best else ""
        faster = "" if name == ours else f"{measurement.ratio(ours, name):.2f}x"
        print(f"  {name + mark:<42}{_ms(seconds)}{faster:>12}{_speed(measurement, name)}", flush=True)


def _client_rows(measurement: Measurement) -> None:
    first = next(iter(measurement.seconds))
    _heading(measurement.task, "median", "ours faster")
    for name, seconds in measurement.seconds.items():
        faster = f"{measurement.ratio(first, name):.2f}x" if name != first else ""
        print(f"  {name:<42}{_ms(seconds)}{faster:>12}{_speed(measurement, name)}", flush=True)


def _closing_table(lines: Iterable[Line]) -> None:
    """Print the targets, and the geometric means of how many times faster than the reference we are."""
    print(f"\n{'geometric means':<54}{'at least':>9}{'seen':>8}{'CPU':>8}   slowest task")
    for line in lines:
        target = "" if line.target is None else f"{line.target:g}x"
        cpu = "" if line.less_cpu is None else f"{line.less_cpu:.2f}x"
        mark = "  " if line.is_met else "! "
        slowest = f"{line.slowest.faster:.2f}x {line.slowest.task}" if line.num_tasks > 1 else ""
        print(f"{mark}{line.name:<52}{target:>9}{line.faster:>7.2f}x{cpu:>8}   {slowest}", flush=True)
    print(f"! not met: below what was aimed at, or a task below {targets.LEAST_SHARE:.0%} of its line")


def _memory_rows(name: str, both: dict[str, dict[str, int]], stream: StreamMemory) -> None:
    parts = [f"{library} {_mib(sizes['peak'] - sizes['idle'])}" for library, sizes in both.items()]
    print(f"\n{name}: peak memory above idle")
    print(f"  reading the whole table: {', '.join(parts)}, of which the table {_mib(both['ours']['result'])}")
    print(f"  our server, streaming all of it: {_mib(stream.peak_bytes)} for {_mib(stream.sent_bytes)} sent")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:>9.1f} ms"


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def _speed(measurement: Measurement, name: str) -> str:
    return f"{measurement.size_bytes / measurement.seconds[name] / 1e6:>9.0f}"


if __name__ == "__main__":
    sys.exit(main())
