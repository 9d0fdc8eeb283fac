"""Every case of the matrix, written by the reference and read locally: equal in type and value bits.

By default every type, nesting, option and size is read, and a sixteenth of the other cases, most in one of
the two versions; all of them in the long run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.oracles.checks import check_local, expected_table, write_case
from support.runs.products import of_this_run
from support.tables.cases import Case, all_cases, sample

BY_DEFAULT = 16
"""One of so many cases, beside those that have something first."""


def _parameters() -> list[object]:
    chosen = sample(all_cases(), BY_DEFAULT)
    parameters = []
    for case in all_cases():
        for version in case.versions:
            is_default = case.name in chosen and version in case.default_versions
            marks = [] if is_default else [pytest.mark.long]
            parameters.append(pytest.param(case, version, id=f"{version}-{case.name}", marks=marks))
    return of_this_run(parameters)


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
