"""Run inside an environment with an older release of the reference: reads a dataset and checks it.

    python read_with_release.py DATASET EXPECTED.arrows

Uses nothing but that release and pyarrow. Exits with an error unless scan, take, filter and count agree with
the rows in EXPECTED; then it appends them, so that others have to read what it made of our dataset, unless
there are dictionaries.
"""

from __future__ import annotations

import sys

import lance
import pyarrow as pa


def main(path: str, expected_path: str) -> None:
    """Check, then append."""
    with pa.ipc.open_stream(expected_path) as stream:
        expected = stream.read_all()
    dataset = lance.dataset(path)
    assert dataset.count_rows() == len(expected), dataset.count_rows()
    for name in expected.schema.names:
        found = dataset.to_table(columns=[name])
        assert found.to_pylist() == expected.select([name]).to_pylist(), name
    rows = [len(expected) - 1, 0, len(expected) // 2]
    assert dataset.take(rows).to_pylist() == expected.take(rows).to_pylist()
    # Release 0.30 cannot filter beside lists of structs with lists, not in files of its own either.
    names = [name for name in expected.schema.names if name != "nested"]
    found = dataset.to_table(columns=names, filter="id >= 100 AND id < 120")
    assert found.to_pylist() == expected.select(names).slice(100, 20).to_pylist()
    if not any(pa.types.is_dictionary(field.type) for field in expected.schema):
        # To dictionaries they only append what they began themselves; those of release 14 they refuse, too.
        lance.write_dataset(dataset.to_table(), path, mode="append")
    print(lance.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
