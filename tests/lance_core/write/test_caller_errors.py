"""Exceptions of the caller's iterables and functions: of their own type, and OSErrors as in the reference."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.write.caller_errors import as_os_errors, with_os_error

SCHEMA = pa.schema({"x": pa.int64()})


class OwnError(Exception):
    """An exception whose constructor takes other arguments than its text."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.code = code


def batches(error: Exception) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"x": [1]})
    raise error


def write(library: Any, uri: Path, error: Exception) -> None:
    library.write_dataset(batches(error), uri, schema=SCHEMA)


def write_reader(library: Any, uri: Path, error: Exception) -> None:
    library.write_dataset(pa.RecordBatchReader.from_batches(SCHEMA, batches(error)), uri)


def add(library: Any, uri: Path, error: Exception) -> None:
    dataset = library.write_dataset(pa.table({"a": [1, 2]}), uri)
    dataset.add_columns(batches(error), reader_schema=SCHEMA)


def compute(library: Any, uri: Path, error: Exception) -> None:
    @library.batch_udf(output_schema=SCHEMA)  # type: ignore[untyped-decorator]
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise error

    library.write_dataset(pa.table({"a": [1, 2]}), uri).add_columns(fail)


@pytest.mark.parametrize("call", [write, write_reader, add, compute])
def test_both_kinds_of_except_clauses_catch_them(
    call: Callable[[Any, Path, Exception], None], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="the source is gone"):
        call(lance, tmp_path / "theirs", RuntimeError("the source is gone"))
    with pytest.raises(OSError, match="the source is gone") as raised:
        call(lance_core, tmp_path / "ours", RuntimeError("the source is gone"))
    assert isinstance(raised.value, RuntimeError)
    assert str(raised.value.__cause__) == "the source is gone"


def test_nothing_is_written(tmp_path: Path) -> None:
    for call in (add, compute):
        with pytest.raises(RuntimeError):
            call(lance_core, tmp_path / call.__name__, RuntimeError("no"))
        assert lance_core.dataset(tmp_path / call.__name__).version == 1
        assert len(list((tmp_path / call.__name__ / "data").iterdir())) == 1


def test_what_is_no_batch_is_still_refused(tmp_path: Path) -> None:
    for wrong in (None, 5):
        with pytest.raises(TypeError, match="expected record batches"):
            lance_core.write_dataset(iter([wrong]), tmp_path / "d", schema=SCHEMA)


def test_attributes_stay() -> None:
    with pytest.raises(OwnError, match=r"full \(7\)") as raised, as_os_errors():
        raise OwnError(7, reason="full")
    assert isinstance(raised.value, OSError)
    assert raised.value.code == 7


def test_errors_of_the_system_stay_as_they_are() -> None:
    error = FileNotFoundError(2, "none")
    assert with_os_error(error) is error


def test_types_that_cannot_be_joined_become_errors_of_the_system() -> None:
    with pytest.raises(OSError, match="'utf-8' codec") as raised, as_os_errors():
        b"\xff".decode()
    assert isinstance(raised.value.__cause__, UnicodeDecodeError)


def test_interrupts_pass() -> None:
    with pytest.raises(KeyboardInterrupt), as_os_errors():
        raise KeyboardInterrupt


def test_they_can_be_pickled() -> None:
    with pytest.raises(RuntimeError) as raised, as_os_errors():
        raise RuntimeError("the source is gone")
    back = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(back, RuntimeError)
    assert isinstance(back, OSError)
    assert str(back) == "the source is gone"
