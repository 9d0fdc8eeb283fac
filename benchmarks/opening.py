"""Time to open large datasets and to read the first batch of one column, beside the reference."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import FragmentMetadata

import lance_core
from benchmarks import targets
from benchmarks.data import write_if_missing
from benchmarks.local_scan import OURS, REFERENCE
from benchmarks.measure import Measurement, interleave

FRAGMENTS = 10_000
COLUMNS = 2_000
VERSIONS = 5_000

_MODULES = {OURS: "lance_core", REFERENCE: "lance"}
_SOURCE = "import {module} as lance; next(iter(lance.dataset({path!r}).to_batches(columns=[{column!r}])))"


def measure(folder: Path, runs: int) -> Iterator[Measurement]:
    """Measure opening each of the large datasets, in this process and in a new one."""
    datasets: Mapping[str, tuple[Callable[[Path, int], None], int, str]] = {
        "fragments": (write_fragments, FRAGMENTS, "id"),
        "columns": (write_columns, COLUMNS, "column_1000"),
        "versions": (write_versions, VERSIONS, "id"),
    }
    for kind, (write, number, column) in datasets.items():
        name = f"{number} {kind}"
        path = folder / f"{name.replace(' ', '-')}.lance"
        write_if_missing(path, write, number)
        competitors = {
            OURS: lambda path=path, column=column: _first_batch(lance_core, path, column),
            REFERENCE: lambda path=path, column=column: _first_batch(lance, path, column),
        }
        yield interleave(f"open {name}", targets.OPEN_WARM, 0, competitors, max(runs, 20))
        yield _new_processes(f"open {name}, new process", path, column, runs)


def _first_batch(library: ModuleType, path: Path, column: str) -> pa.RecordBatch:
    return next(iter(library.dataset(str(path)).to_batches(columns=[column])))


def _new_processes(task: str, path: Path, column: str, runs: int) -> Measurement:
    """Measure processes that import the library and read the first batch: wall time, and CPU time of the
    children.
    """
    seconds: dict[str, list[float]] = {name: [] for name in _MODULES}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in _MODULES}
    for number in range(runs + 1):
        for name, module in _MODULES.items():
            source = _SOURCE.format(module=module, path=str(path), column=column)
            # Packages are installed with their compiled modules; a checkout needs to write its own.
            environment = {key: value for key, value in os.environ.items() if "DONTWRITEBYTECODE" not in key}
            started, cpu_started = time.perf_counter(), _cpu_of_children()
            subprocess.run([sys.executable, "-c", source], check=True, env=environment)
            if number:  # the first run of each library fills caches
                seconds[name].append(time.perf_counter() - started)
                cpu_seconds[name].append(_cpu_of_children() - cpu_started)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    cpu_medians = {name: statistics.median(times) for name, times in cpu_seconds.items()}
    return Measurement(task, targets.OPEN_NEW, 0, medians, cpu_medians, seconds)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_fragments(path: Path, fragments: int) -> None:
    """Write one small file under many names, which a reader sees as a table of many small appends."""
    lance.write_dataset(pa.table({"id": range(10), "value": [0.5] * 10}), str(path))
    (fragment,) = lance.dataset(str(path)).get_fragments()
    (source,) = (path / "data").iterdir()
    described = fragment.metadata.to_json()
    added = []
    for number in range(fragments - 1):
        name = f"{number:05}.lance"
        os.link(source, source.with_name(name))
        copied = json.loads(json.dumps(described))
        copied["files"][0]["path"] = name
        added.append(FragmentMetadata.from_json(json.dumps(copied)))
    if added:
        lance.LanceDataset.commit(str(path), lance.LanceOperation.Append(added), read_version=1)


def write_columns(path: Path, columns: int, rows: int = 2) -> None:
    """Write integers in ascending order, other ones in every column."""
    table = {f"column_{i:04}": range(i, i + rows) for i in range(columns)}
    lance.write_dataset(pa.table({name: np.array(values) for name, values in table.items()}), str(path))


def write_versions(path: Path, versions: int) -> None:
    """Write ten rows, then versions that differ in one setting."""
    dataset = lance.write_dataset(pa.table({"id": range(10)}), str(path))
    for number in range(versions - 1):
        dataset.update_config({"number": str(number)})
