"""Time and memory of building indices on values and on texts, against the reference.

    python -m benchmarks.index_builds [--rows 1000000] [--folder FOLDER] [--runs 3] [--kinds BTREE,BITMAP]

The table is that of `benchmarks.indices`. Each build runs in a process of its own, on a shallow clone of the
table, after an index on ten rows, which loads the modules of a build. The libraries take turns. Prints the
medians of the seconds and of the CPU seconds, and of the peak memory beyond the start of the build.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import lance_core
from benchmarks.indices import table_with_indices
from benchmarks.measure import peak_bytes_of
from benchmarks.peak_memory import MODULES

AIM = 1.0
"""Least ratio of the time and of the memory of the reference to ours."""
BUILDS = [
    ("BTREE", "id"),
    ("BTREE", "key"),
    ("BITMAP", "category"),
    ("LABEL_LIST", "labels"),
    ("NGRAM", "text"),
    ("ZONEMAP", "id"),
    ("ZONEMAP", "key"),
    ("BLOOMFILTER", "id"),
    ("BLOOMFILTER", "key"),
    ("INVERTED", "text"),
]
FACTS = ("seconds", "cpu", "peak")


def main() -> None:
    """Measure the builds, and print a table."""
    options = _options()
    if options.build:
        _build(*options.build)
        return
    path = table_with_indices(options.folder, options.rows)
    title = f"{options.rows / 1e6:g} M rows"
    print(f"{title:<20}{'reference':>28}{'ours':>28}{'faster':>9}{'less CPU':>9}{'memory':>9}{'aim':>7}")
    for kind, column in BUILDS:
        if kind not in options.kinds.split(","):
            continue
        found: dict[str, list[dict[str, float]]] = {name: [] for name in MODULES}
        for run in range(options.runs):
            for name in list(MODULES) if run % 2 else reversed(MODULES):
                found[name].append(_build_apart(name, path, kind, column))
        ours, theirs = (
            {fact: median(run[fact] for run in found[name]) for fact in FACTS} for name in ("ours", "pylance")
        )
        ratios = [theirs[fact] / max(ours[fact], 1e-9) for fact in FACTS]
        holds = ratios[0] >= AIM and ratios[2] >= AIM
        print(
            f"{f'{kind} {column}':<20}{_shown(theirs)}{_shown(ours)}"
            f"{''.join(f'{ratio:>8.2f}x' for ratio in ratios)}{AIM:>6g}x  {'holds' if holds else 'no'}",
            flush=True,
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(dict.fromkeys(kind for kind, _ in BUILDS)))
    parser.add_argument("--build", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def _shown(facts: dict[str, float]) -> str:
    return f"{facts['seconds']:>9.2f} s{facts['cpu']:>7.2f} s{facts['peak'] / 1e6:>6.0f} MB"


def _build_apart(name: str, path: Path, kind: str, column: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        clone = f"{scratch}/clone"
        lance_core.dataset(str(path)).shallow_clone(clone, lance_core.dataset(str(path)).version)
        command = [sys.executable, "-m", "benchmarks.index_builds", "--build", name, clone, kind, column]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return dict(json.loads(done.stdout))


def _build(name: str, path: str, kind: str, column: str) -> None:
    library = importlib.import_module(MODULES[name])
    few = lance_core.dataset(path).to_table(limit=10)
    library.write_dataset(few, f"{path}-few").create_scalar_index(column, kind)  # loads what a build needs
    dataset = library.dataset(path)
    idle, cpu, started = peak_bytes_of("self"), time.process_time(), time.perf_counter()
    dataset.create_scalar_index(column, kind, name="built")
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak_bytes_of("self") - idle}))


if __name__ == "__main__":
    main()
