"""Every case of the matrix, written by the reference and read locally: equal in type and value bits.

By default most cases in one of the two versions; all of them in the long run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cases import Case, all_cases
from support.checks import check_local, expected_table, write_case


def _parameters() -> list[object]:
    return [
        pytest.param(
            case,
            version,
            id=f"{version}-{case.name}",
            marks=[] if version in case.default_versions else [pytest.mark.long],
        )
        for case in all_cases()
        for version in case.versions
    ]


@pytest.fixture
def dataset_path(tmp_path: Path) -> Iterator[Path]:
    """A place for one dataset, removed at once: the whole matrix would fill a disk."""
    path = tmp_path / "case.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize(("case", "version"), _parameters())
def test_reads_what_the_reference_wrote(case: Case, version: str, dataset_path: Path) -> None:
    source = write_case(case, version, dataset_path)
    expected = expected_table(case, dataset_path, source)
    check_local(case, dataset_path, expected)
