"""Full text indices: building them and searching them, here and with the reference.

python -m benchmarks.text_search [--rows 1000000] [--folder FOLDER]

Each library builds an index on a copy of the same short texts and searches its own index. Prints the seconds
of a build, and the milliseconds of searches for frequent and for rare words.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_core
from benchmarks.measure import interleave

_WORDS_PER_TEXT = 8
_KNOWN_WORDS = 50_000
_RUNS = 7


def texts(num_rows: int) -> pa.Table:
    """Return rows of short texts whose words have a long-tailed distribution."""
    chance = np.random.default_rng(0)
    ranks = (chance.pareto(0.9, (num_rows, _WORDS_PER_TEXT)) * 3).astype(np.int64)
    words = np.array([word(rank) for rank in range(_KNOWN_WORDS)])[np.minimum(ranks, _KNOWN_WORDS - 1)]
    return pa.table({"id": np.arange(num_rows), "text": [" ".join(row) for row in words]})


def word(rank: int) -> str:
    """Return the word of a rank; 0 is the most frequent one."""
    return f"w{rank * 2654435761 % (1 << 32):x}"


def main() -> None:
    """Build and search both indices, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        _measure(folder, given.rows)
    finally:
        shutil.rmtree(folder)


def _measure(folder: Path, num_rows: int) -> None:
    table = texts(num_rows)
    uris = {name: str(folder / name) for name in ("ours", "reference")}
    openers = {"ours": lance_core.dataset, "reference": lance.dataset}
    for name, uri in uris.items():
        lance.write_dataset(table, uri, max_rows_per_file=num_rows // 2 + 1)
        start = time.perf_counter()
        openers[name](uri).create_scalar_index("text", "INVERTED")
        print(f"build, {name}: {time.perf_counter() - start:.2f} s")
    datasets = {name: openers[name](uri) for name, uri in uris.items()}
    for title, ranks in (("frequent", (0,)), ("common", (5,)), ("rare", (2000,)), ("three", (0, 5, 100))):
        query = " ".join(map(word, ranks))
        for limit in (10, None):
            measured = interleave(
                title,
                "text search",
                0,
                {
                    name: lambda dataset=dataset, query=query, limit=limit: dataset.to_table(
                        ["id", "_score"], full_text_query=query, limit=limit
                    )
                    for name, dataset in datasets.items()
                },
                _RUNS,
            )
            ours, theirs = measured.seconds["ours"] * 1e3, measured.seconds["reference"] * 1e3
            print(
                f"{title}, limit {limit}: ours {ours:.2f} ms, reference {theirs:.2f} ms, "
                f"{measured.ratio('ours', 'reference'):.1f} times faster"
            )


if __name__ == "__main__":
    main()
