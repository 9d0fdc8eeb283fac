"""Datasets in an object store that is far away, here and with the reference.

    python -m benchmarks.far_store [--rows 1000000] [--milliseconds 30] [--runs 5] [--folder FOLDER]

A moto server holds the same datasets for both libraries, behind a delay line (`benchmarks.delay_line`). The
time of a small read is that of the round trips that follow one another. "New" opens the dataset in a new
session first, "again" repeats a read with open files. Every change is made on a copy of its own.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import lance
import numpy as np
import pyarrow as pa

import lance_core

_BUCKET = "far"
_KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_region": "us-east-1"}
_DIMENSION = 64
_VERSIONS = 20
"""Versions that a cleanup removes."""

Call = Callable[[Any], object]


def tables(num_rows: int) -> dict[str, pa.Table]:
    """Return the rows of each dataset by its name."""
    random = np.random.default_rng(0)
    rows = pa.table(
        {
            "id": np.arange(num_rows),
            "key": random.permutation(num_rows),
            "value": random.normal(size=num_rows),
            "flag": random.random(num_rows) < 0.5,
            "category": [f"category {number}" for number in random.integers(0, 50, num_rows)],
            "text": [f"some text {number}" for number in random.integers(0, 10**9, num_rows)],
        }
    )
    vectors = random.normal(size=num_rows // 10 * _DIMENSION).astype(np.float32)
    return {
        "plain": rows,
        "indexed": rows,
        "vectors": pa.table({"vector": pa.FixedSizeListArray.from_arrays(vectors, _DIMENSION)}),
    }


def reads(num_rows: int) -> list[tuple[str, str, Call]]:
    """Return what is read: a name, the dataset, and the call."""
    middle = num_rows // 2
    some = list(range(5, num_rows, num_rows // 10))
    query = np.random.default_rng(1).normal(size=_DIMENSION).astype(np.float32)
    nearest = {"column": "vector", "q": query, "k": 10, "nprobes": 8}
    return [
        ("count_rows", "plain", lambda rows: rows.count_rows()),
        ("head(100)", "plain", lambda rows: rows.head(100)),
        ("take 10 rows", "plain", lambda rows: rows.take(some)),
        ("range", "plain", lambda rows: rows.to_table(filter=f"id >= {middle} AND id < {middle + 100}")),
        ("equality", "plain", lambda rows: rows.to_table(filter="key = 77")),
        ("two columns", "plain", lambda rows: rows.to_table(columns=["id", "flag"])),
        ("all columns", "plain", lambda rows: rows.to_table()),
        ("equality, B-tree", "indexed", lambda rows: rows.to_table(filter="key = 77")),
        ("count, bitmap", "indexed", lambda rows: rows.count_rows("category = 'category 7'")),
        ("full text", "indexed", lambda rows: rows.to_table(full_text_query="12345678 text", limit=10)),
        ("nearest, IVF_PQ", "vectors", lambda rows: rows.to_table(nearest=nearest)),
    ]


def changes(num_rows: int) -> list[tuple[str, str, Call]]:
    """Return the changes: a name, the dataset, and the call."""
    new = tables(1000)["plain"]
    keys = pa.table({"key": np.arange(500, 510), "value": np.zeros(10)})
    of_indexed: list[tuple[str, Call]] = [
        ("append 1,000 rows", lambda rows: _library(rows).write_dataset(new, rows, mode="append")),
        ("delete a key", lambda rows: rows.delete("key = 77")),
        ("update a key", lambda rows: rows.update({"value": "1.5"}, where="key = 78")),
        ("merge 10 keys", lambda rows: rows.merge_insert("key").when_matched_update_all().execute(keys)),
        ("add a column", lambda rows: rows.add_columns({"twice": "value * 2"})),
        ("drop a column", lambda rows: rows.drop_columns(["text"])),
    ]
    return [
        *((name, "indexed", call) for name, call in of_indexed),
        (f"clean up {_VERSIONS} versions", "versions", lambda rows: rows.cleanup_old_versions(timedelta(0))),
    ]


def _library(dataset: object) -> Any:
    return lance if isinstance(dataset, lance.LanceDataset) else lance_core


class Store:
    """A moto server behind a delay line."""

    def __init__(self, port: int, line: subprocess.Popen[str], line_port: int) -> None:
        self._line = line
        self.options = _KEYS | {"aws_endpoint": f"http://127.0.0.1:{line_port}", "allow_http": "true"}
        secrets = {name: value for name, value in _KEYS.items() if name != "aws_region"}
        endpoint = f"http://127.0.0.1:{port}"
        self._client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **secrets)
        self._client.create_bucket(Bucket=_BUCKET)

    def upload(self, folder: Path, name: str) -> None:
        """Copy a local dataset to the store, under a name."""
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "latest_version_hint.json":
                self._client.upload_file(str(path), _BUCKET, f"{name}/{path.relative_to(folder)}")

    def num_requests(self) -> int:
        """Return the number of requests since the last call."""
        assert self._line.stdin is not None
        assert self._line.stdout is not None
        self._line.stdin.write("\n")
        self._line.stdin.flush()
        return int(self._line.stdout.readline())

    def open(self, library: Any, name: str) -> Any:
        """Open a dataset anew, with a session of its own."""
        session = {"session": lance_core.Session()} if library is lance_core else {}
        return library.dataset(f"s3://{_BUCKET}/{name}", storage_options=self.options, **session)


@contextmanager
def started(milliseconds: float) -> Iterator[Store]:
    """Start a store that answers after some time."""
    python = [sys.executable, "-m"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = subprocess.Popen([*python, "moto.server", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        line = subprocess.Popen(
            [*python, "benchmarks.delay_line", str(port), str(milliseconds / 1000)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert line.stdout is not None
            yield Store(port, line, int(line.stdout.readline()))
        finally:
            line.kill()
    finally:
        server.kill()


def _wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.1)


def write(folder: Path, num_rows: int) -> None:
    """Write the datasets with the reference."""
    for name, rows in tables(num_rows).items():
        made = lance.write_dataset(rows, folder / name, max_rows_per_file=num_rows // 4)
        if name == "indexed":
            for column, kind in (("key", "BTREE"), ("category", "BITMAP"), ("text", "INVERTED")):
                made.create_scalar_index(column, kind)
        if name == "vectors":
            made.create_index("vector", "IVF_PQ", num_partitions=64, num_sub_vectors=16)
    for number in range(_VERSIONS + 1):
        rows = pa.table({"id": [number]})
        lance.write_dataset(rows, folder / "versions", mode="append" if number else "create")


def _compare(name: str, store: Store, runs: int, calls: dict[str, Callable[[], object]]) -> None:
    """Run the calls of both libraries in turn, and print the medians."""
    seconds: dict[str, list[float]] = {library: [] for library in calls}
    requests = {}
    for _ in range(runs):
        for library, call in calls.items():
            store.num_requests()
            begin = time.perf_counter()
            call()
            seconds[library].append(time.perf_counter() - begin)
            requests[library] = store.num_requests()
    ours, theirs = (1000 * statistics.median(some) for some in seconds.values())
    left = f"{name:26} {ours:7.0f} {requests['ours']:8}"
    print(f"{left} {theirs:10.0f} {requests['theirs']:8} {theirs / ours:8.2f}x")


def main() -> None:
    """Measure both libraries, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--milliseconds", type=float, default=30)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary, started(given.milliseconds) as store:
        folder = Path(temporary)
        write(folder, given.rows)
        for path in folder.iterdir():
            store.upload(path, path.name)
        print(f"{'':26} {'ours ms':>7} {'requests':>8} {'pylance ms':>10} {'requests':>8} {'faster':>9}")
        for name, dataset, call in reads(given.rows):
            anew = {
                library: lambda kind=kind, dataset=dataset, call=call: call(store.open(kind, dataset))
                for library, kind in (("ours", lance_core), ("theirs", lance))
            }
            _compare(f"{name}, new", store, given.runs, anew)
            opened = {"ours": store.open(lance_core, dataset), "theirs": store.open(lance, dataset)}
            again = {library: lambda rows=rows, call=call: call(rows) for library, rows in opened.items()}
            for once in again.values():
                once()
            _compare(f"{name}, again", store, given.runs, again)
        copies = itertools.count()
        for name, dataset, change in changes(given.rows):
            waiting = {}
            for library, kind in (("ours", lance_core), ("theirs", lance)):
                names = [f"copy-{next(copies)}" for _ in range(given.runs)]
                for copy in names:
                    store.upload(folder / dataset, copy)
                waiting[library] = iter([store.open(kind, copy) for copy in names])
            _compare(
                name,
                store,
                given.runs,
                {
                    library: lambda rows=rows, change=change: change(next(rows))
                    for library, rows in waiting.items()
                },
            )


if __name__ == "__main__":
    main()
