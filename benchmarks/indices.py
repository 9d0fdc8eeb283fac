"""Filters on indexed columns, against the reference and against scans without the indices.

    python -m benchmarks.indices [--rows 1000000] [--folder FOLDER]

The reference writes the table and builds the indices once. Competitors take turns, and every run has other
values.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lance_core

RUNS = 12
_WORDS = 3000
_FRAGMENTS = 4
_KINDS = {"id": "BTREE", "key": "BTREE", "category": "BITMAP", "text": "NGRAM", "share": "BTREE"}

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


def main() -> None:
    """Measure all queries, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"))
    arguments = parser.parse_args()
    path = str(_table(arguments.folder, arguments.rows))
    theirs, ours = lance.dataset(path), lance_core.dataset(path)
    readers: dict[str, Callable[[str], Any]] = {
        "reference": lambda query: theirs.to_table(filter=query),
        "ours": lambda query: ours.to_table(filter=query),
        "no index": lambda query: ours.to_table(filter=query, use_scalar_index=False),
    }
    print(f"{'ms, median':<20}{''.join(f'{name:>12}' for name in readers)}{'ratio':>8}{'gain':>8}")
    for name, query in QUERIES.items():
        times: dict[str, list[float]] = {reader: [] for reader in readers}
        chance = np.random.default_rng(1)
        for run in range(RUNS + 2):
            text = query(chance, arguments.rows)
            found = set()
            order = list(readers)[run % 3 :] + list(readers)[: run % 3]
            for reader in order:
                begin = time.perf_counter()
                rows = readers[reader](text).num_rows
                if run >= 2:
                    times[reader].append(1000 * (time.perf_counter() - begin))
                found.add(rows)
            assert len(found) == 1, (text, found)
        reference, mine, scanned = (median(times[reader]) for reader in readers)
        print(
            f"{name:<20}{reference:>12.2f}{mine:>12.2f}{scanned:>12.2f}"
            f"{reference / mine:>7.1f}x{scanned / mine:>7.1f}x"
        )


def _numbers(chance: np.random.Generator, rows: int, count: int) -> str:
    return ", ".join(map(str, chance.integers(0, rows, count)))


def _range(chance: np.random.Generator, rows: int, length: int) -> str:
    first = chance.integers(rows - length)
    return f"id BETWEEN {first} AND {first + length}"


def _table(folder: Path, rows: int) -> Path:
    path = folder / f"indices-{rows}"
    if path.exists():
        return path
    chance = np.random.default_rng(0)
    ids = chance.permutation(rows)
    words = np.array([f"w{number:04d}" for number in range(_WORDS)])
    for start in range(0, rows, rows // _FRAGMENTS):
        count = min(rows // _FRAGMENTS, rows - start)
        part = pa.table(
            {
                "id": ids[start : start + count],
                "key": [f"key{number:09d}" for number in chance.integers(0, rows, count)],
                "category": chance.integers(0, 100, count),
                "share": chance.random(count),
                "text": [" ".join(some) for some in words[chance.integers(0, _WORDS, (count, 4))]],
            }
        )
        lance.write_dataset(part, str(path), mode="append" if start else "create")
    dataset = lance.dataset(str(path))
    for column, kind in _KINDS.items():
        dataset.create_scalar_index(column, kind)
    return path


if __name__ == "__main__":
    main()
