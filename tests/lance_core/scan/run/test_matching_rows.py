"""Matching rows of a filtered scan: the ends of batches, and rows that a kernel takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_core
from lance_core.scan.run import window_batches
from lance_core.scan.run.filtering import matching_rows
from lance_core.scan.run.filtering.matching_rows import BatchEnds

MOST_PLACES = 20_000_000


@given(
    st.lists(st.integers(0, MOST_PLACES), max_size=60, unique=True).map(sorted),
    st.lists(st.integers(0, MOST_PLACES), max_size=6).map(sorted),
    st.integers(1, 20),
)
def test_ends_depend_on_the_rows_alone(places, windows, aimed_rows):
    """The batches are the same for any division of the rows into windows."""

    def cut(edges):
        ends, sizes, start = BatchEnds(), [], 0
        for edge in (*edges, MOST_PLACES + 1):
            inside = np.array([place for place in places if start <= place < edge], dtype=np.int64)
            sizes += ends.add(inside, aimed_rows)
            if edge in windows:
                sizes += ends.reach(edge)
            start = edge
        return sizes + ends.finish()

    at_once, in_windows = cut([]), cut(windows)
    assert at_once == in_windows
    assert sum(at_once) == len(places)
    assert all(0 < size <= aimed_rows for size in at_once)


def test_a_match_is_not_held_back_until_a_batch_is_full():
    ends = BatchEnds()
    assert ends.add(np.array([5]), 1000) == []
    assert ends.reach(100_000) == []
    assert ends.reach(200_000) == [1]


def test_batches_end_where_they_are_full():
    ends = BatchEnds()
    assert ends.add(np.arange(25), 10) == [10, 10]
    assert ends.add(np.arange(25, 36), 10) == [10]
    assert ends.finish() == [6]
    assert ends.finish() == []


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("deleted", [None, "n % 3 = 1"])
def test_far_rows_are_taken_together(
    version: str, deleted: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel takes all columns whose pages it knows, the others are picked; the rows are those of the
    reference.
    """
    numbers = np.arange(60_000)
    words = pa.array([f"word {number % 50}" for number in numbers])
    nulls = numbers % 7 == 0
    rows = pa.table(
        {
            "n": numbers,
            "f": pa.array(numbers / 7, mask=nulls),
            "b": pa.array(numbers % 2 == 0, mask=nulls),
            "w": words,
            "t": pa.array([f"{number} is a text of its own" for number in numbers], mask=nulls),
            "l": pa.array([[number, None] if number % 3 else None for number in numbers.tolist()]),
            "s": pa.array([{"x": number, "y": str(number)} for number in numbers.tolist()]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 4).astype(np.float32)), 4),
        }
    )
    reference = lance.write_dataset(
        rows, str(tmp_path / "d"), data_storage_version=version, max_rows_per_file=20_000
    )
    if deleted is not None:
        reference.delete(deleted)
    dataset = lance_core.dataset(str(tmp_path / "d"))
    num_taken = []
    take = matching_rows.take_rows

    def noted(parts: Any, num_columns: int, num_rows: int) -> Any:
        num_taken.append(num_columns)
        return take(parts, num_columns, num_rows)

    monkeypatch.setattr(matching_rows, "take_rows", noted)
    for condition in ("n % 301 = 5", "n % 301 = 5 and t is not null", "n = 41231", "n % 50 = 5"):
        expected = reference.to_table(filter=condition)
        for _ in range(2):  # all pages are known the second time
            num_taken.clear()
            assert dataset.to_table(filter=condition).equals(expected)
            batches = list(dataset.to_batches(filter=condition, columns=["t", "l", "w", "_rowid"]))
            found = pa.Table.from_batches(batches)
            assert found.drop_columns("_rowid").equals(expected.select(["t", "l", "w"]))
        is_near = condition == "n % 50 = 5"
        assert bool(num_taken) != is_near, condition


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("batch_rows", [None, 7])
def test_rows_that_follow_each_other_are_read_in_one_step(
    version: str, batch_rows: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is that of the reference, whether or not it has the columns of the filter."""
    numbers = np.arange(50_000)
    rows = pa.table(
        {
            "n": numbers,
            "f": pa.array(numbers / 7, mask=numbers % 7 == 0),
            "w": [f"word {number}" for number in numbers],
            "s": [{"x": number, "y": str(number)} for number in numbers.tolist()],
        }
    )
    reference = lance.write_dataset(
        rows, tmp_path / "d", data_storage_version=version, max_rows_per_file=20_000
    )
    reference.delete("n IN (31000, 31001, 45000)")
    dataset = lance_core.dataset(tmp_path / "d")
    steps = []
    read = window_batches.read_batches

    def noted(ranges: Any, cuts: Any, schema: Any) -> Any:
        steps.append(cuts.tolist())
        return read(ranges, cuts, schema)

    monkeypatch.setattr(window_batches, "read_batches", noted)
    followed = ["n >= 20100 AND n < 20150", "n > 30980 AND n < 31000", "n = 1 AND w = 'word 1'", "n >= 49990"]
    apart = ["n >= 30990 AND n < 31010", "n >= 19990 AND n < 20010", "n IN (5, 7)"]
    for condition in [*followed, *apart]:
        for columns in (["n", "f", "w"], ["w"], ["s", "w"]):
            expected = reference.to_table(filter=condition, columns=columns)
            for _ in range(2):  # statistics leave out more the second time
                steps.clear()
                batches = list(dataset.to_batches(filter=condition, columns=columns, batch_size=batch_rows))
                assert pa.Table.from_batches(batches).equals(expected)
                sizes = [len(batch) for batch in batches]
                most = batch_rows or 50
                assert sizes == [most] * (len(expected) // most) + [len(expected) % most] * (
                    len(expected) % most > 0
                )
                is_read_in_one_step = columns[0] != "s" and condition in followed  # no kernel reads structs
                assert steps or not is_read_in_one_step, (condition, columns)
                if batch_rows is None:  # otherwise the last batch may have rows that follow each other
                    assert not steps or is_read_in_one_step, (condition, columns)
