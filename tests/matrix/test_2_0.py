"""Every 2.0 case of the matrix, written by the reference and read locally: equal in type and value bits.

By default every type is read once, and half of the other cases; all of them in the long run.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cases import Case
from support.cases_2_0 import cases_2_0
from support.checks import check_local, expected_table, write_case

BY_DEFAULT = 2
"""One of so many cases."""


@pytest.fixture
def dataset_path(tmp_path: Path) -> Iterator[Path]:
    """A place for one dataset, removed at once."""
    path = tmp_path / "case.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _is_long(case: Case) -> bool:
    chosen = case.name.endswith("-1025") or zlib.crc32(case.name.encode()) % BY_DEFAULT == 0
    return case.long or not chosen


def _parameters() -> list[object]:
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.long] if _is_long(case) else [])
        for case in cases_2_0()
    ]


@pytest.mark.parametrize("case", _parameters())
def test_reads_what_the_reference_wrote(case: Case, dataset_path: Path) -> None:
    """T22: values of 2.0 files come back as they were written."""
    source = write_case(case, "2.0", dataset_path)
    expected = expected_table(case, dataset_path, source)
    check_local(case, dataset_path, expected)
