"""Records of a table about streams that write to it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.commit.stream_progress import PREFIX, StreamBatch
from lance_core.errors import CorruptFileError, InvalidInputError

BATCH = StreamBatch("orders", "q1", 7)


@pytest.mark.parametrize(("noted", "committed"), [(None, False), (6, False), (7, True), (8, True)])
def test_numbers_that_are_not_above_the_noted_one_are_committed(noted: int | None, committed: bool) -> None:
    config = {} if noted is None else StreamBatch("orders", "q1", noted).properties
    assert BATCH.is_committed({**config, "other": "setting"}) is committed


def test_the_numbers_of_another_query_mean_nothing() -> None:
    with pytest.raises(InvalidInputError, match="another query wrote under this name, up to its batch 9"):
        BATCH.is_committed(StreamBatch("orders", "q2", 9).properties)


@pytest.mark.parametrize("noted", ["", "7", '{"batch": "x", "query": "q1"}', '{"batch": 7}', "[]"])
def test_notes_that_cannot_be_read(noted: str) -> None:
    with pytest.raises(CorruptFileError, match="progress of a stream"):
        BATCH.is_committed({f"{PREFIX}orders": noted})


def test_the_note_comes_with_the_rows_and_stays(tmp_path: Path) -> None:
    """T44: our appends and overwrites record the progress, and commits of other writers keep it."""
    rows = pa.table({"n": [1]})
    lance_core.write_dataset(rows, tmp_path / "t", transaction_properties=BATCH.properties)
    lance_core.write_dataset(rows, tmp_path / "t", mode="append")
    theirs = lance.dataset(tmp_path / "t")
    theirs.insert(rows)
    theirs.delete("n = 2")
    assert BATCH.is_committed(lance_core.dataset(tmp_path / "t").config())
    later = StreamBatch("orders", "q1", 8)
    lance_core.write_dataset(rows, tmp_path / "t", mode="overwrite", transaction_properties=later.properties)
    assert later.is_committed(lance.dataset(tmp_path / "t").config())
