"""Fixed-size lists: nulls at both levels, bits, nesting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, some_nulls, write_column


def _lists(dimension: int, items: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=dimension, items=items))


def test_the_example_of_the_format(tmp_path: Path) -> None:
    page = Page(3)
    items = some_nulls(page.bits([1, 0, 1, 1, 1, 1]), page.flat(np.array([1, 9, 9, 9, 3, 4], np.float32)))
    file = write_column(
        tmp_path, "fixed_size_list:float:2", page.of(some_nulls(page.bits([1, 0, 1]), _lists(2, items)))
    )
    expected = [[1, None], None, [3, 4]]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    assert file.ours(1, 3)["c"].to_pylist() == expected[1:]


def test_bits_run_on_over_the_lists(tmp_path: Path) -> None:
    flags = [bool(i * i % 7 < 3) for i in range(30)]
    page = Page(10)
    file = write_column(tmp_path, "fixed_size_list:bool:3", page.of(_lists(3, page.bits(flags))))
    expected = [flags[i : i + 3] for i in range(0, 30, 3)]
    for start in range(10):
        assert file.ours(start, 10)["c"].to_pylist() == expected[start:]


def test_lists_of_lists(tmp_path: Path) -> None:
    page = Page(2)
    items = _lists(3, page.flat(np.arange(12, dtype=np.int8)))
    file = write_column(tmp_path, "fixed_size_list:fixed_size_list:int8:3:2", page.of(_lists(2, items)))
    assert file.ours()["c"].to_pylist() == np.arange(12).reshape(2, 2, 3).tolist()
    assert file.ours(1, 2)["c"].to_pylist() == np.arange(12).reshape(2, 2, 3)[1:].tolist()


def test_lists_of_another_size_are_refused(tmp_path: Path) -> None:
    """T22."""
    for logical_type, dimension in (
        ("fixed_size_list:int8:2", 3),
        ("int8", 2),
        ("fixed_size_list:int8:2", 0),
    ):
        page = Page(2)
        page.of(_lists(dimension, page.flat(bytes(6))))
        with pytest.raises(CorruptFileError, match=rf"lists of {dimension} items.*column c.*page 0"):
            write_column(tmp_path, logical_type, page).ours()
