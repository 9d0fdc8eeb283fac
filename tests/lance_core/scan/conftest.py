"""Datasets of the reference that the scan tests share. Nothing here is changed once it is written."""

import lance
import numpy as np
import pyarrow as pa
import pytest

NUM_ROWS = 5000


def mixed_table(num_rows: int = NUM_ROWS) -> pa.Table:
    """Rows of many kinds whose values follow from their number."""
    rng = np.random.default_rng(7)
    numbers = np.arange(num_rows)
    return pa.table(
        {
            "id": numbers,
            "score": pa.array(rng.random(num_rows), mask=numbers % 7 == 0),
            "name": pa.array([None if k % 11 == 0 else f"name {k % 300}" for k in range(num_rows)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(num_rows * 8, np.float32)), 8),
            "tags": pa.array([[f"t{k % j}" for j in range(1, k % 4)] for k in range(num_rows)]),
            "point": pa.array(
                [None if k % 13 == 0 else {"x": k, "y": {"z": str(k)}} for k in range(num_rows)],
                pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))]),
            ),
            "kind": pa.array([f"kind {k % 5}" for k in range(num_rows)]).dictionary_encode(),
        }
    )


@pytest.fixture(scope="session", params=["2.1", "2.2"])
def storage_version(request):
    return request.param


def _written(path, version, **options):
    return lance.write_dataset(
        mixed_table(), str(path), max_rows_per_file=1500, data_storage_version=version, **options
    )


@pytest.fixture(scope="session")
def plain(tmp_path_factory, storage_version):
    """Four fragments without deletions."""
    return _written(tmp_path_factory.mktemp("plain") / "plain.lance", storage_version)


@pytest.fixture(scope="session")
def deleted(tmp_path_factory, storage_version):
    """Deletions scattered, in one run, and of a whole fragment's first rows; one fragment has none."""
    dataset = _written(tmp_path_factory.mktemp("deleted") / "deleted.lance", storage_version)
    dataset.delete("id % 10 = 3 and id < 1500")
    dataset.delete("id >= 2000 and id < 2900")
    dataset.delete("id in (4500, 4999)")
    return dataset


@pytest.fixture(scope="session")
def stable(tmp_path_factory, storage_version):
    """Stable row ids that differ from row addresses, because rows were updated and compacted."""
    dataset = _written(
        tmp_path_factory.mktemp("stable") / "stable.lance", storage_version, enable_stable_row_ids=True
    )
    dataset.delete("id < 200 or id % 100 = 1")
    dataset.update({"name": "'changed'"}, where="id % 50 = 7")
    return dataset


@pytest.fixture(scope="session")
def evolved(tmp_path_factory, storage_version):
    """Fragments of several files: columns added, dropped, cast, and null columns that no file holds."""
    dataset = _written(tmp_path_factory.mktemp("evolved") / "evolved.lance", storage_version)
    dataset.add_columns({"double": "id * 2"})
    dataset.drop_columns(["score"])
    dataset.add_columns(pa.field("later", pa.list_(pa.int32())))
    if storage_version == "2.2":  # the reference refuses children for structs of 2.1
        dataset.add_columns(pa.field("point", pa.struct([pa.field("w", pa.int16())])))
    dataset.alter_columns({"path": "point.x", "data_type": pa.int32()})
    dataset.alter_columns({"path": "name", "data_type": pa.large_string()})
    dataset.delete("id % 100 = 9")
    return dataset
