"""Rows found by several keys, compared with a dictionary of Python; what is joined of how many fragments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_core
from lance_core.changes.columns.join import join_columns
from lance_core.changes.columns.key_lookup import KeyLookup
from lance_core.changes.source_rows import SourceRows
from lance_core.errors import InvalidInputError

NUMBERS = st.one_of(st.none(), st.integers(-2, 3))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS), max_size=30)


def table(rows: list[tuple[Any, ...]], width: int) -> pa.Table:
    types = [pa.int64(), pa.string(), pa.int8()][:width]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]
    return pa.table(columns, names=["a", "b", "c"][:width])


@given(known=ROWS, asked=ROWS, width=st.integers(1, 3))
def test_rows_are_found_by_all_their_keys(
    known: list[tuple[Any, ...]], asked: list[tuple[Any, ...]], width: int
) -> None:
    """Nulls are equal; of equal keys the last row is found."""
    expected = {row[:width]: number for number, row in enumerate(known)}
    found = KeyLookup(table(known, width)).find(table(asked, width))
    assert found.to_pylist() == [expected.get(row[:width]) for row in asked]


def test_keys_of_other_types_are_refused() -> None:
    index = KeyLookup(table([(1, "a")], 2))
    with pytest.raises(InvalidInputError, match="different types"):
        index.find(pa.table({"a": [1], "b": [1]}))


@pytest.mark.parametrize("num_keys", [1, 7, 40, 500])
def test_columns_are_joined_by_two_keys(num_keys: int, tmp_path: Path) -> None:
    """Each row gets what its keys say, whether the source has fewer rows than a fragment or more than all."""
    path = str(tmp_path / "t")
    rows = pa.table({"n": range(60), "s": [f"{n % 4}" for n in range(60)]})
    lance.write_dataset(rows, path, max_rows_per_file=7)
    lance.dataset(path).delete("n % 5 = 2")
    keys = range(0, 3 * num_keys, 3)
    others = pa.table({"s": [f"{n % 4}" for n in keys], "m": [f"m{n}" for n in keys], "n": keys})
    with SourceRows(others.to_reader(max_chunksize=3)) as source:
        join_columns(lance_core.dataset(path).snapshot, source, ["n", "s"])
    found = lance.dataset(path).to_table()
    expected = [f"m{n}" if n in keys else None for n in found["n"].to_pylist()]
    assert found["m"].to_pylist() == expected
    assert any(expected)


def test_keys_of_a_polars_frame(tmp_path: Path) -> None:
    """T15: views, of which Arrow casts some that lie below a null with a crash."""
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"s": ["a", "b", None]}), path)
    validity, views, *data = pa.array(["b", None, "a" * 40], pa.string_view()).buffers()
    hidden = np.frombuffer(views, np.int32).reshape(-1, 4).copy()
    hidden[1] = (-(1 << 31), 0x41414141, 1 << 20, 7)
    keys = pa.Array.from_buffers(pa.string_view(), 3, [validity, pa.py_buffer(hidden), *data])
    categories = pl.Series(["x", "y", "z"], dtype=pl.Categorical)
    with SourceRows(pa.table({"s": keys, "m": pa.array(categories)})) as source:
        join_columns(lance_core.dataset(path).snapshot, source, ["s"])
    assert lance.dataset(path).to_table()["m"].to_pylist() == [None, "x", "y"]


@pytest.mark.parametrize("on", [[], ["n", "n"], ["n", "x"], ["m"]])
def test_keys_that_cannot_be_used(on: list[str], tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"n": [1], "x": [1]}), str(tmp_path / "t"))
    snapshot = lance_core.dataset(tmp_path / "t").snapshot
    with SourceRows(pa.table({"n": [1], "m": [2]})) as source, pytest.raises(InvalidInputError):
        join_columns(snapshot, source, on)
    assert lance_core.dataset(tmp_path / "t").version == 1
