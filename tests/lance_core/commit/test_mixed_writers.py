"""Writers of both libraries at once: every acknowledged change is there once, in one order."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.changes.mixed_histories import run_and_check


@pytest.mark.parametrize(
    ("libraries", "steps", "stable_row_ids"),
    [
        (["ours", "reference", "ours"], 25, True),
        pytest.param(
            ["ours", "reference"] * 4, 200, True, marks=pytest.mark.long("hundreds of steps of 8 processes")
        ),
        pytest.param(
            ["ours", "reference"] * 4, 200, False, marks=pytest.mark.long("hundreds of steps of 8 processes")
        ),
        pytest.param(["ours"] * 8, 60, True, marks=pytest.mark.long("hundreds of steps of 8 processes")),
    ],
    ids=["few", "many-stable-ids", "many", "ours"],
)
def test_writers_of_both_libraries(
    libraries: list[str], steps: int, stable_row_ids: bool, tmp_path: Path
) -> None:
    """T37: the history equals that of writers one after the other, and every acknowledged change is in it
    once.
    """
    run_and_check(str(tmp_path), libraries, steps, stable_row_ids=stable_row_ids, options={})
