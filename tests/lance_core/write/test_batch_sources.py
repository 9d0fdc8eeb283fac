"""Everything that can be written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.write.batch_sources import MAX_BATCH_BYTES, slices

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})


def _lance_dataset(path: Path) -> Any:
    return lance_core.write_dataset(TABLE, path)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: TABLE,
    "batch": lambda _: TABLE.to_batches()[0],
    "reader": lambda _: TABLE.to_reader(),
    "arrow_dataset": lambda _: pyarrow.dataset.dataset(TABLE),
    "arrow_scanner": lambda _: pyarrow.dataset.dataset(TABLE).scanner(),
    "dataset": _lance_dataset,
    "scanner": lambda path: _lance_dataset(path).scanner(),
    "reference": lambda path: lance.write_dataset(TABLE, str(path)),
    "polars": lambda _: pl.from_arrow(TABLE).with_columns(pl.col("b").cast(pl.String)),
    "dict": lambda _: TABLE.to_pydict(),
    "rows": lambda _: TABLE.to_pylist(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_kind_of_data(name: str, tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(SOURCES[name](tmp_path / "source"), tmp_path / "new")

    assert lance.dataset(str(tmp_path / "new")).to_table().to_pydict() == TABLE.to_pydict()
    assert dataset.count_rows() == 3


@pytest.mark.parametrize(
    "data", [TABLE.to_batches(), iter(TABLE.to_batches()), (b for b in TABLE.to_batches())]
)
def test_batches_are_cast_to_the_given_schema(data: Any, tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.large_string())])

    dataset = lance_core.write_dataset(data, tmp_path, schema=schema)

    assert dataset.to_table().equals(TABLE.cast(schema))


@pytest.mark.parametrize(
    ("data", "schema", "error"),
    [
        (iter(TABLE.to_batches()), None, InvalidInputError),
        ([pa.record_batch({"b": ["x"]})], TABLE.schema, InvalidInputError),
        ([pa.record_batch({"a": ["x"], "b": ["x"]})], TABLE.schema, InvalidInputError),
        ([1, 2], TABLE.schema, TypeError),
        (42, None, TypeError),
    ],
)
def test_what_is_no_data(data: Any, schema: pa.Schema | None, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        lance_core.write_dataset(data, tmp_path / "new", schema=schema)

    assert not list(tmp_path.rglob("*.lance"))


def test_slices_are_small_and_complete() -> None:
    batch = pa.record_batch({"a": np.arange(5_000_000)})

    pieces = list(slices(batch))

    assert max(piece.nbytes for piece in pieces) <= MAX_BATCH_BYTES
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))
    assert list(slices(batch.slice(7, 1))) == [batch.slice(7, 1)]


def test_a_dataset_is_copied_onto_itself(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path)

    lance_core.write_dataset(dataset, tmp_path, mode="append")

    assert lance.dataset(str(tmp_path)).to_table().equals(pa.concat_tables([TABLE, TABLE]))


def test_slices_of_large_tables_are_not_cut_again() -> None:
    """The size of a slice counts, not the size of the memory behind it."""
    (batch,) = pa.table({"a": np.arange(5_000_000)}).to_batches()

    assert [piece.num_rows for piece in slices(batch.slice(1_000_000, 1000))] == [1000]
