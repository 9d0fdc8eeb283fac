"""Functions with a checkpoint file: what was computed before an interruption is not computed again."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.udf
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError

SCHEMA = pa.schema([("double", pa.int64())])


class Doubling:
    """Doubles column `a`, and fails at a value."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.seen: list[list[int]] = []

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = batch["a"].to_pylist()
        if self.fails_at in values:
            raise RuntimeError("interrupted")
        self.seen.append(values)
        return pa.record_batch([pc.multiply(batch["a"], 2)], schema=SCHEMA)


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    """Three fragments of four rows."""
    return lance_core.write_dataset(pa.table({"a": range(12)}), tmp_path / "table", max_rows_per_file=4)


def add(dataset: lance_core.LanceDataset, function: Doubling, file: Path, batch_size: int = 2) -> None:
    udf = lance_core.batch_udf(SCHEMA, checkpoint_file=file)(function)
    dataset.add_columns(udf, read_columns=["a"], batch_size=batch_size)


def interrupt(dataset: lance_core.LanceDataset, file: Path, fails_at: int = 7) -> None:
    with pytest.raises(RuntimeError, match="interrupted"):
        add(dataset, Doubling(fails_at), file)
    assert dataset.version == 1
    assert file.exists()


def test_batches_are_computed_once_in_spite_of_an_interruption(
    dataset: lance_core.LanceDataset, tmp_path: Path
) -> None:
    interrupt(dataset, tmp_path / "kept")
    again = Doubling()
    add(dataset, again, tmp_path / "kept")
    assert again.seen == [[6, 7], [8, 9], [10, 11]]
    assert dataset.to_table()["double"].to_pylist() == list(range(0, 24, 2))
    assert not (tmp_path / "kept").exists()
    assert lance.dataset(dataset.uri).to_table() == dataset.to_table()


def test_rows_that_changed_are_computed_again(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    """Results belong to values, not to positions. Deleted and updated rows move the others."""
    interrupt(dataset, tmp_path / "kept", fails_at=11)
    dataset.delete("a = 1")
    dataset.update({"a": "50"}, where="a = 4")
    again = Doubling()
    add(dataset, again, tmp_path / "kept")
    table = dataset.to_table()
    assert table["double"].to_pylist() == [2 * a for a in table["a"].to_pylist()]
    assert [0, 2] in again.seen
    assert [8, 9] not in again.seen


def test_equal_batches_keep_results_of_their_own(tmp_path: Path) -> None:
    """A function may return different results for equal rows."""
    dataset = lance_core.write_dataset(pa.table({"a": [1] * 6}), tmp_path / "table", max_rows_per_file=4)
    counts = iter(range(100))

    def count(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([pa.array([next(counts)] * batch.num_rows)], schema=SCHEMA)

    udf = lance_core.batch_udf(SCHEMA, checkpoint_file=tmp_path / "kept")(count)
    dataset.add_columns(udf, batch_size=2)
    assert dataset.to_table()["double"].to_pylist() == [0, 0, 1, 1, 2, 2]


def test_results_of_another_function_are_not_used(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    interrupt(dataset, tmp_path / "kept")

    @lance_core.batch_udf(checkpoint_file=tmp_path / "kept")
    def text(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([batch["a"].cast(pa.string())], names=["text"])

    dataset.add_columns(text, read_columns=["a"], batch_size=2)
    assert dataset.to_table()["text"].to_pylist() == [str(n) for n in range(12)]


def test_a_file_of_the_reference_is_no_hindrance(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    lance.udf.BatchUDFCheckpoint(file)
    add(dataset, Doubling(), file)
    assert dataset.to_table()["double"].to_pylist() == list(range(0, 24, 2))


@pytest.mark.parametrize("content", [b"no database" * 100, None], ids=["other file", "directory"])
def test_a_file_of_another_kind_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(InvalidInputError, match="checkpoint file cannot be used"):
        lance_core.batch_udf(checkpoint_file=file)(Doubling())
    assert content is None or file.read_bytes() == content


def test_fragments_refuse_checkpoint_files(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    udf = lance_core.batch_udf(SCHEMA, checkpoint_file=tmp_path / "kept")(Doubling())
    with pytest.raises(InvalidInputError, match="checkpoint file"):
        dataset.get_fragment(0).merge_columns(udf)
