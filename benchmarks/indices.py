"""Indices on values, against the reference: filters on indexed columns, and changes by key.

    python -m benchmarks.indices [--rows 1000000] [--folder FOLDER] [--runs 12] [--changes]

The reference writes the table and builds the indices once. Competitors take turns, and every run has other
values. With `--changes`, each library changes a copy of the table.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lance_core

_WORDS = 3000
_FRAGMENTS = 4
_LABELS = 200
_KINDS = {"id": "BTREE", "key": "BTREE", "category": "BITMAP", "text": "NGRAM", "share": "BTREE"}
_SCANS = 3
"""Runs without the indices."""
_WARM_UPS = 2
AIM = 1.5
"""Least ratio of the time of the reference to ours."""
GAIN_AIM, GAIN_ROWS = 20, 10_000_000
"""Least ratio of the time of equality without an index to ours, from this number of rows on."""

Query = Callable[[np.random.Generator, int], str]
QUERIES: dict[str, Query] = {
    "equality": lambda chance, rows: f"id = {chance.integers(rows)}",
    "equality of text": lambda chance, rows: f"key = 'key{chance.integers(rows):09d}'",
    "IN 10": lambda chance, rows: f"id IN ({_numbers(chance, rows, 10)})",
    "IN 1000": lambda chance, rows: f"id IN ({_numbers(chance, rows, 1000)})",
    "range of 100": lambda chance, rows: _range(chance, rows, 100),
    "range of 1 %": lambda chance, rows: _range(chance, rows, rows // 100),
    "range of 20 %": lambda chance, rows: _range(chance, rows, rows // 5),
    "floats": lambda chance, rows: f"share < {chance.random() * 200 / rows}",
    "bitmap": lambda chance, rows: f"category = {chance.integers(100)}",
    "n-gram LIKE": lambda chance, rows: (
        f"text LIKE '%w{chance.integers(_WORDS):04d} w{chance.integers(30):02d}%'"
    ),
    "bitmap AND range": lambda chance, rows: f"category = {chance.integers(100)} AND id < {rows // 1000}",
}
Change = Callable[[Any, pa.Table], object]
CHANGES: dict[str, Change] = {
    "delete a row": lambda dataset, rows: dataset.delete(f"id = {rows['id'][0]}"),
    "update a row": lambda dataset, rows: dataset.update({"category": "7"}, where=f"id = {rows['id'][0]}"),
    "merge 10 rows": lambda dataset, rows: (
        dataset.merge_insert("id").when_matched_update_all().execute(rows[:10])
    ),
    "merge 1000 rows": lambda dataset, rows: (
        dataset.merge_insert("id").when_matched_update_all().execute(rows)
    ),
    "take 10 keys": lambda dataset, rows: dataset.to_table(
        filter=f"id IN ({', '.join(map(str, rows['id'][:10].to_pylist()))})"
    ),
}
"""Changes by keys, which are the ids of 1000 rows with other values."""


def main() -> None:
    """Measure, and print a table."""
    options = _options()
    path = table_with_indices(options.folder, options.rows)
    if options.changes:
        _measure_changes(path, options.rows, options.runs)
    else:
        _measure_filters(path, options.rows, options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--changes", action="store_true", help="measure changes by key instead of filters")
    return parser.parse_args()


def _measure_filters(path: Path, num_rows: int, runs: int) -> None:
    theirs, ours = lance.dataset(str(path)), lance_core.dataset(str(path))
    readers: dict[str, Callable[[str], Any]] = {
        "reference": lambda query: theirs.to_table(filter=query),
        "ours": lambda query: ours.to_table(filter=query),
        "no index": lambda query: ours.to_table(filter=query, use_scalar_index=False),
    }
    _heading(num_rows, [*readers, "faster", "less CPU", "aim", "gain", "aim", ""])
    for name, query in QUERIES.items():
        times: dict[str, list[tuple[float, float]]] = {reader: [] for reader in readers}
        chance = np.random.default_rng(1)
        for run in range(-_WARM_UPS, runs):
            text = query(chance, num_rows)
            found = set()
            for reader in _in_turn(list(readers), run):
                if reader == "no index" and not 0 <= run < _SCANS:
                    continue
                taken, rows = _timed(readers[reader], text)
                found.add(rows.num_rows)
                if run >= 0:
                    times[reader].append(taken)
            assert len(found) == 1, (text, found)
        medians = {reader: _medians(some) for reader, some in times.items()}
        faster, less_cpu = _ratios(medians)
        gain = medians["no index"][0] / medians["ours"][0]
        gain_aim = GAIN_AIM if name == "equality" and num_rows >= GAIN_ROWS else 0
        shown = "".join(f"{1000 * seconds:>11.2f}" for seconds, _ in medians.values())
        holds = faster >= AIM and gain >= gain_aim
        print(
            f"{name:<20}{shown}{faster:>10.2f}x{less_cpu:>10.2f}x{AIM:>10}x{gain:>10.1f}x"
            f"{f'{gain_aim}x' if gain_aim else '':>11}{'holds' if holds else 'no':>11}",
            flush=True,
        )


def _measure_changes(path: Path, num_rows: int, runs: int) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        datasets = {}
        for name, module in {"reference": lance, "ours": lance_core}.items():
            shutil.copytree(path, f"{scratch}/{name}")
            datasets[name] = module.dataset(f"{scratch}/{name}")
        _heading(num_rows, [*datasets, "faster", "less CPU", "aim", ""])
        chance = np.random.default_rng(3)
        for title, change in CHANGES.items():
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in datasets}
            for run in range(-_WARM_UPS, runs):
                rows = _rows(chance, chance.choice(num_rows, 1000, replace=False))
                for name in _in_turn(list(datasets), run):
                    taken, _ = _timed(change, datasets[name], rows)
                    if run >= 0:
                        times[name].append(taken)
            medians = {name: _medians(some) for name, some in times.items()}
            faster, less_cpu = _ratios(medians)
            shown = "".join(f"{1000 * seconds:>11.2f}" for seconds, _ in medians.values())
            print(
                f"{title:<20}{shown}{faster:>10.2f}x{less_cpu:>10.2f}x{AIM:>10}x"
                f"{'holds' if faster >= AIM else 'no':>11}",
                flush=True,
            )
        assert len({dataset.count_rows() for dataset in datasets.values()}) == 1


def _in_turn(names: Sequence[str], run: int) -> list[str]:
    first = run % len(names)
    return [*names[first:], *names[:first]]


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[tuple[float, float], Any]:
    """Return the seconds and the CPU seconds of a call, and its result."""
    cpu, begin = time.process_time(), time.perf_counter()
    result = work(*arguments)
    return (time.perf_counter() - begin, time.process_time() - cpu), result


def _medians(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    seconds, cpu = zip(*times, strict=True)
    return median(seconds), median(cpu)


def _ratios(medians: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """Return how many times faster we are than the reference, and how many times less CPU time we use."""
    (theirs, their_cpu), (ours, our_cpu) = medians["reference"], medians["ours"]
    return theirs / ours, their_cpu / our_cpu


def _heading(num_rows: int, names: Sequence[str]) -> None:
    title = f"{num_rows / 1e6:g} M rows, ms"
    print(f"{title:<20}{''.join(f'{name:>11}' for name in names)}")


def _numbers(chance: np.random.Generator, rows: int, count: int) -> str:
    return ", ".join(map(str, chance.integers(0, rows, count)))


def _range(chance: np.random.Generator, rows: int, length: int) -> str:
    first = chance.integers(rows - length)
    return f"id BETWEEN {first} AND {first + length}"


def table_with_indices(folder: Path, num_rows: int) -> Path:
    """Return the path of a table of the reference with its indices, which is made unless it is there."""
    path = folder / f"indices-{num_rows}"
    if path.exists():
        return path
    chance = np.random.default_rng(0)
    ids = chance.permutation(num_rows)
    step = -(-num_rows // _FRAGMENTS)
    for start in range(0, num_rows, step):
        part = _rows(chance, ids[start : start + step])
        lance.write_dataset(part, str(path), mode="append" if start else "create", max_rows_per_file=step)
    dataset = lance.dataset(str(path))
    for column, kind in _KINDS.items():
        dataset.create_scalar_index(column, kind)
    return path


def _rows(chance: np.random.Generator, ids: np.ndarray[Any, Any]) -> pa.Table:
    count = len(ids)
    labels = pa.array([f"label {number}" for number in range(_LABELS)])
    lengths = chance.integers(0, 6, count)
    chosen = labels.take(pa.array(chance.integers(0, _LABELS, int(lengths.sum()))))
    ends = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    words = pa.array([f"w{number:04d}" for number in range(_WORDS)])
    texts = [words.take(pa.array(chance.integers(0, _WORDS, count))) for _ in range(4)]
    return pa.table(
        {
            "id": ids,
            "key": [f"key{number:09d}" for number in chance.integers(0, count * _FRAGMENTS, count)],
            "category": chance.integers(0, 100, count),
            "share": chance.random(count),
            "text": pc.binary_join_element_wise(*texts, " "),
            "labels": pa.ListArray.from_arrays(ends, chosen),
        }
    )


if __name__ == "__main__":
    main()
