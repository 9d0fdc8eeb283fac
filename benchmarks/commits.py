"""Time of a commit, beside the reference: `python -m benchmarks.commits FOLDER [RUNS]`.

The dataset is a small one, or one of many fragments and versions. The commit is that of an existing data
file, or of ten rows together with the file that they are written to. The reference does not sync files.
Without syncing both libraries do the same. With syncing, ours may take longer by the time of its syncs, which
are counted and timed in the same run.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import lance
import pyarrow as pa

import lance_core
from benchmarks.measure import interleave
from benchmarks.opening import FRAGMENTS, VERSIONS, write_fragments
from lance_core.proto import table_pb2
from lance_core.storage import LocalStorage
from lance_core.table.manifest import serialize_manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.versions import HINT, version_path

_ROWS = pa.table({"id": range(10), "value": [0.5] * 10})
_SYNCED, _UNSYNCED, _REFERENCE = "ours, synced", "ours", "pylance"


def main(folder: Path, runs: int) -> None:
    """Measure and print the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"medians of {runs} runs in ms; open: of the latest version alone")
    for name, make in (("small", _small), (f"{FRAGMENTS} fragments, {VERSIONS} versions", _large)):
        path = folder / name.replace(" ", "-").replace(",", "")
        shutil.rmtree(path, ignore_errors=True)
        make(path)
        for task, competitors in _tasks(path).items():
            _print(f"{task}, {name}", competitors, runs, folder)
        shutil.rmtree(path)


def _tasks(path: Path) -> dict[str, dict[str, Callable[[], object]]]:
    def append(sync: bool) -> Callable[[], object]:
        return lambda: lance_core.write_dataset(_ROWS, path, mode="append", sync=sync)

    def theirs() -> None:
        lance.write_dataset(_ROWS, str(path), mode="append")

    # Every version has the same data file: a commit does not read it.
    fragments = lance_core.api.fragment.write_fragments(_ROWS, path)
    their_fragments = lance.fragment.write_fragments(_ROWS, str(path))

    def commit(sync: bool) -> Callable[[], object]:
        operation = lance_core.LanceOperation.Append(fragments)

        def run() -> object:
            dataset = lance_core.dataset(path)
            return lance_core.LanceDataset.commit(dataset, operation, dataset.version, sync=sync)

        return run

    def their_commit() -> object:
        dataset = lance.dataset(str(path))
        operation = lance.LanceOperation.Append(their_fragments)
        return lance.LanceDataset.commit(dataset, operation, dataset.version)

    return {
        "open": {
            _UNSYNCED: lambda: lance_core.dataset(path),
            _REFERENCE: lambda: lance.dataset(str(path)),
        },
        "open and commit": {_SYNCED: commit(True), _UNSYNCED: commit(False), _REFERENCE: their_commit},
        "append": {_SYNCED: append(True), _UNSYNCED: append(False), _REFERENCE: theirs},
    }


def _print(task: str, competitors: dict[str, Callable[[], object]], runs: int, folder: Path) -> None:
    measured = interleave(task, "commit", 0, competitors, runs)
    milliseconds = {name: 1000 * seconds for name, seconds in measured.seconds.items()}
    cpu = {name: 1000 * seconds for name, seconds in measured.cpu_seconds.items()}
    line = "  ".join(f"{name} {milliseconds[name]:.1f} (CPU {cpu[name]:.1f})" for name in competitors)
    print(f"{task:<54}{line}", flush=True)
    if _SYNCED in competitors:
        count = _count_syncs(competitors[_SYNCED])
        sync = 1000 * _one_sync(folder)
        allowed = milliseconds[_REFERENCE] + count * sync
        print(
            f"{'':<54}{count} syncs of {sync:.2f}: allowed {allowed:.1f}, taken {milliseconds[_SYNCED]:.1f}",
            flush=True,
        )


def _count_syncs(run: Callable[[], object]) -> int:
    with mock.patch.object(os, "fsync", wraps=os.fsync) as synced:
        run()
    return int(synced.call_count)


def _one_sync(folder: Path) -> float:
    """Return the seconds that syncing a new small file takes."""
    times = []
    for number in range(20):
        path = folder / f"sync-{number}"
        with path.open("wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
        path.unlink()
    return statistics.median(times)


def _small(path: Path) -> None:
    lance.write_dataset(_ROWS, str(path))


def _large(path: Path) -> None:
    """Write a dataset of many small fragments after many versions. Only their number matters."""
    write_fragments(path, FRAGMENTS)
    storage = LocalStorage(str(path))
    first, last = read_manifest(storage, 1), read_manifest(storage, 2)
    for version in range(3, VERSIONS + 1):
        source = last if version == VERSIONS else first
        message = table_pb2.Manifest()
        message.CopyFrom(source.message)
        message.version = version
        message.ClearField("transaction_section")
        data = serialize_manifest(message, source.transaction_section or b"", source.index_section)
        (path / version_path(version, True)).write_bytes(data)
    storage.delete_file(HINT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15)
