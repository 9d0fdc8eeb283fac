"""Datasets with more files than a process may have open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

NUM_FRAGMENTS = 60

# Run in another process, since a lower limit would hold for the tests after it.
_ACTIONS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
import numpy as np, lance_core

path = sys.argv[1]
dataset = lance_core.dataset(path)
rows = list(range(dataset.count_rows()))
query = {"column": "v", "q": np.zeros(4, np.float32), "k": len(rows)}


def ids(table):
    return table["id"].to_pylist()


def now():
    return lance_core.dataset(path)


assert ids(dataset.to_table()) == rows
assert [row for batch in dataset.to_batches(columns=["id"]) for row in ids(batch)] == rows
assert ids(dataset.to_table(filter="id >= 0 AND y = 0")) == rows
assert dataset.count_rows("y = 0") == len(rows)
assert ids(dataset.take(rows[::-1])) == rows[::-1]
assert ids(dataset.to_table(order_by=["down"])) == rows[::-1]
assert sorted(ids(dataset.to_table(nearest=query))) == rows
assert [row for fragment in dataset.get_fragments() for row in ids(fragment.to_table())] == rows

now().add_columns({"z": "id + 1"})
assert now().count_rows("z = id + 1") == len(rows)
now().update({"y": "5"}, where="id % 4 = 3")
assert now().count_rows("y = 5") == len(rows) // 4
now().merge_insert("id").when_matched_update_all().execute(now().to_table(filter="id % 4 = 1"))
assert sorted(ids(now().to_table())) == rows
now().delete("id % 2 = 1")
assert ids(now().to_table()) == rows[::2]
assert ids(now().take(rows[:50])) == rows[:100:2]
now().create_scalar_index("id", "BTREE")
assert ids(now().to_table(filter="id < 100")) == rows[:100:2]
now().create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
assert sorted(ids(now().to_table(nearest={**query, "nprobes": 2, "refine_factor": 1}))) == rows[::2]
now().optimize.compact_files()
assert ids(now().to_table()) == rows[::2]
"""


def test_a_dataset_of_more_files_than_descriptors(tmp_path: Path) -> None:
    """T33: a scan holds the files of all fragments of a batch, whatever their number."""
    path = tmp_path / "d"
    num_rows = 4 * NUM_FRAGMENTS
    vectors = np.random.default_rng(3).random(4 * num_rows, np.float32)
    columns = {
        "id": range(num_rows),
        "down": np.arange(num_rows)[::-1],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
    }
    lance.write_dataset(pa.table(columns), str(path), max_rows_per_file=4).add_columns({"y": "id * 0"})
    done = subprocess.run([sys.executable, "-c", _ACTIONS, path], capture_output=True, text=True)
    assert not done.returncode, done.stderr
